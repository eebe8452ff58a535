// Building and changing the page's elements.

/** Element with properties (or attributes, where the name has a dash or is `role`) and children. */
export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === 'role' || name.includes('-')) made.setAttribute(name, value);
    else made[name] = value;
  }
  made.append(...children);
  return made;
}

/** The element with this id. */
export function byId(id) {
  return document.getElementById(id);
}

/** Sets the text of an element only when it differs: selections and screen readers are left in peace. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

let toastTimer = null;

/** Says something for a few seconds. */
export function toast(text) {
  const node = byId('toast');
  node.textContent = text;
  node.hidden = false;
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => { node.hidden = true; }, 3500);
}

/** Copies text, also where the browser gives pages over plain http no clipboard. */
export async function copyText(text, what) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const field = element('textarea', { value: text, className: 'unseen' });
    document.body.append(field);
    field.select();
    const done = document.execCommand('copy');
    field.remove();
    if (!done) {
      toast(`the browser does not let this page copy; ${what} is in the console (F12)`);
      console.log(text);
      return;
    }
  }
  toast(`copied: ${what}`);
}
