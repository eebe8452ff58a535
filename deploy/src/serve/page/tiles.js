// The four small pictures at the right: BF, ADF, mean pattern, phase.

import { byId, element, setText } from './dom.js';
import { entryOf } from './names.js';
import { Picture } from './picture.js';

/** Names of the small pictures, in order. */
export const TILES = ['bf', 'adf', 'mean_pattern', 'phase'];

/** Makes the tiles. `onChoose(name)` when one is to be shown large. Gives Map name -> {picture, caption, root, stale}. */
export function makeTiles(onChoose) {
  const tiles = new Map();
  for (const name of TILES) {
    const { label, title } = entryOf(name);
    const canvas = element('canvas', { role: 'img', 'aria-label': `${title}: no image yet` });
    const stale = element('span', { className: 'stale-mark', hidden: true }, 'STALE');
    const caption = element('span');
    const choose = element('button', { title: `${title}: show large` }, label);
    choose.onclick = () => onChoose(name);
    canvas.addEventListener('dblclick', () => onChoose(name));
    const root = element('figure', { className: 'tile' },
      element('div', { className: 'frame' }, canvas, stale),
      element('figcaption', {}, choose, caption));
    root.dataset.name = name;
    byId('tiles').append(root);
    const tile = { picture: new Picture(canvas), caption, root, stale, rest: '' };
    tiles.set(name, tile);
  }
  return tiles;
}

/** Sets the words beside a tile's label. */
export function captionTile(tile, text) {
  setText(tile.caption, text);
  tile.caption.title = text;
}
