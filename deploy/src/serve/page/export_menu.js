// The export menu: every image as npy, tiff and png, and where the results lie.

import { address, imagePath, imageQuery, postJson } from './api.js';
import { byId, copyText, element, toast } from './dom.js';
import { namesOf, titleOf } from './names.js';

const FORMATS = ['npy', 'tiff', 'png'];

/** Fills the menu when it opens. `shown()` is the series on the page, `ringQuery(name)` its rings. */
export function attachExportMenu({ shown, ringQuery, hasOwnPhase }) {
  const menu = byId('export');
  menu.addEventListener('toggle', () => {
    if (menu.open) byId('export-body').replaceChildren(...contents(shown(), ringQuery, hasOwnPhase()));
  });
  menu.addEventListener('keydown', (event) => {
    if (event.key !== 'Escape') return;
    menu.open = false;
    menu.querySelector('summary').focus();
  });
  document.addEventListener('pointerdown', (event) => {
    if (menu.open && !menu.contains(event.target)) menu.open = false;
  });
}

function contents(series, ringQuery, hasOwnPhase) {
  if (namesOf(series).length === 0) return [element('p', { className: 'muted' }, 'no image to export yet')];
  const rows = namesOf(series).map((name) => {
    const links = FORMATS.map((format) => element('td', {}, element('a', {
      href: address(imagePath(series.number, name), imageQuery(format, ringQuery(name))),
      download: `series${series.number}_${name}.${format}`,
    }, format)));
    return element('tr', {}, element('td', {}, titleOf(name)), ...links);
  });
  const parts = [element('table', {}, element('tbody', {}, ...rows))];
  parts.push(element('p', { className: 'muted' }, 'npy: exact values; tiff: 32-bit float, calibrated; png: to look at. BF, ADF and DF with the rings as drawn.'));
  if (hasOwnPhase) parts.push(element('p', { className: 'muted' }, 'Phase: as the daemon holds it. "copy as Python" has the values of the sliders.'));
  const set = series.export;
  if (set) parts.push(element('p', { className: set.state === 'failed' ? 'bad' : '' }, `DECTRIS files: ${set.state} `, element('code', {}, set.path ?? set.problem ?? '')));
  if (series.folder && set?.state !== 'done') {
    const make = element('button', {}, 'export as DECTRIS files');
    make.onclick = () => postJson(`/api/v1/series/${series.number}/export`).then(() => toast('the export begins'), (error) => toast(`not exported: ${error.message}`));
    parts.push(element('p', {}, make));
  }
  if (series.folder) {
    const copy = element('button', {}, 'copy');
    copy.onclick = () => copyText(series.folder, 'the path of the result folder');
    parts.push(element('p', {}, 'result folder: ', element('code', {}, series.folder), ' ', copy));
  } else {
    parts.push(element('p', { className: 'muted' }, 'no result folder yet'));
  }
  return parts;
}
