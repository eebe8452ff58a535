// The keyboard.

import { byId, element } from './dom.js';
import { IMAGES } from './names.js';

const HELP = [
  ['1 … 9, 0', 'image shown large: ' + IMAGES.map(({ key, label }) => `${key} ${label}`).join(', ')],
  ['+  −', 'more, less contrast of the large image'],
  ['c', 'next colour map'],
  ['s', 'select the next slider (C10, C12, φ12, rotation)'],
  ['← → ↑ ↓', 'move the selected slider, or the handle or field in focus; with shift: larger steps'],
  ['n', 'show the newest series'],
  ['o', 'the microscope: voltage, angle, step, rotation'],
  ['p', 'copy as Python'],
  ['Tab', 'from control to control'],
  ['?', 'this help'],
];

/** Moves a slider or a number field by its step, or by its large step. */
export function nudge(input, sign, isLarge) {
  const step = Number(isLarge ? input.dataset.large : input.dataset.step);
  const least = input.type === 'range' ? Number(input.min) : -Infinity, most = input.type === 'range' ? Number(input.max) : Infinity;
  const now = Number.parseFloat(input.value);
  const value = Math.min(Math.max((Number.isFinite(now) ? now : 0) + sign * step, least), most);
  input.value = String(Number(value.toFixed(6)));
  input.dispatchEvent(new Event('input', { bubbles: true }));
}

const ARROWS = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 };

/** Listens to keys. `actions`: choose(name), stretch(factor), nextMap(), nextSlider(), slider(), newest(), optics(), python(). */
export function attachKeys(actions) {
  const help = byId('help');
  byId('help-keys').append(...HELP.map(([key, text]) => element('tr', {}, element('td', {}, element('kbd', {}, key)), element('td', {}, text))));
  byId('help-open').onclick = () => help.showModal();
  document.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]')) return;
    const target = event.target;
    if (event.key in ARROWS) {
      const input = target.dataset?.step ? target : isFree(target) ? actions.slider() : null;
      if (!input || input.disabled) return;
      // Left and right walk through the digits of a number field.
      if (input.type === 'number' && (event.key === 'ArrowLeft' || event.key === 'ArrowRight')) return;
      event.preventDefault();
      nudge(input, ARROWS[event.key], event.shiftKey);
      return;
    }
    if (target.matches?.('input[type="number"], select, textarea')) return;
    const entry = IMAGES.find(({ key }) => key === event.key);
    const action = entry ? () => actions.choose(entry.name) : {
      '+': () => actions.stretch(1.5),
      '=': () => actions.stretch(1.5),
      '-': () => actions.stretch(1 / 1.5),
      c: actions.nextMap,
      s: actions.nextSlider,
      n: actions.newest,
      o: actions.optics,
      p: actions.python,
      '?': () => help.showModal(),
    }[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
}

function isFree(target) {
  return !target.matches?.('input, select, textarea, summary');
}
