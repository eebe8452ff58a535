// The state line, the banner and the warnings on the page.

import { byId, element, setText } from './dom.js';
import { facts, figures, isRunning, stateLine, warnings } from './state_text.js';

let announced = '';

/** Shows the status; `link` is the connection's, `shown` the series on the page. */
export function showState(status, link, shown) {
  const line = status ? stateLine(status) : { word: 'CONNECTING', detail: '', part: null, tone: '' };
  const word = link.up || !status ? line.word : 'NO CONNECTION';
  setText(byId('state-word'), word);
  byId('state-word').className = `state-word ${link.up ? line.tone : 'bad'}`;
  setText(byId('state-count'), link.up ? line.detail : status ? `last: ${line.detail}` : '');
  byId('state-progress').value = line.part ?? 0;
  document.title = `${word} ${link.up ? line.detail : ''} – sideband`;
  if (status) showFigures(figures(status));
  byId('figures').classList.toggle('old', !link.up);
  showWarnings(status ? warnings(status, shown) : []);
  setText(byId('facts'), facts(shown));
  byId('facts').title = facts(shown);
  const unknown = shown?.calibration?.text;
  byId('uncalibrated').hidden = !shown || (!unknown && shown.optics !== null && shown.bright_field !== null);
  setText(byId('uncalibrated'), unknown ?? 'calibration unknown');
  announce(word, line, status);
}

function showFigures(list) {
  const root = byId('figures');
  while (root.children.length < list.length) root.append(element('div', {}, element('dt'), element('dd')));
  list.forEach(({ term, value, tone, title }, index) => {
    const [dt, dd] = root.children[index].children;
    setText(dt, term);
    setText(dd, value);
    dd.className = tone ?? '';
    root.children[index].title = title ?? '';
  });
}

function showWarnings(list) {
  byId('warnings').hidden = list.length === 0;
  const text = list.map(({ text: words }) => words).join('\n');
  const root = byId('warning-list');
  if (root.dataset.shown === text) return;
  root.dataset.shown = text;
  root.replaceChildren(...list.map(({ text: words, isBad }) => element('li', { className: isBad ? 'bad' : '' }, words)));
}

// The figures change ten times a second; what is read aloud changes with the state and every quarter of a scan.
function announce(word, line, status) {
  const quarter = line.part === null ? null : Math.floor(line.part * 4);
  const mark = `${word} ${status?.series?.number} ${quarter}`;
  if (mark === announced) return;
  announced = mark;
  byId('announcer').textContent = `${word.toLowerCase()} ${line.detail}`;
}

/** The line below the state: a lost link, or an older series on the page. */
export function showBanner({ link, shown, newest, onConnect, onNewest }) {
  const banner = byId('banner'), act = byId('banner-act');
  banner.classList.toggle('down', !link.up);
  if (!link.up) {
    const wait = link.retryAt === null ? 'trying now' : `trying again in ${Math.max(0, Math.ceil((link.retryAt - Date.now()) / 1000))} s`;
    setText(byId('banner-text'), `No connection: ${link.reason}; ${wait}${link.attempt > 0 ? ` (attempt ${link.attempt + 1})` : ''}. Pictures and figures are not of now.`);
    setText(act, 'try now');
    act.onclick = onConnect;
    banner.hidden = link.attempt === 0;
  } else if (shown && newest && shown.number !== newest.number) {
    setText(byId('banner-text'), `Shown: series ${shown.number}. The newest, ${newest.number}, is ${isRunning(newest) ? `${newest.state} now` : newest.state}.`);
    setText(act, 'show the newest');
    act.onclick = onNewest;
    banner.hidden = false;
  } else {
    banner.hidden = true;
  }
}
