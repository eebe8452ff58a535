// The series of this daemon, newest first, each with a small bright-field picture.

import { address, imagePath, imageQuery } from './api.js';
import { colourTable, paint } from './colour.js';
import { limits, sortedFinite } from './contrast.js';
import { byId, element, setText } from './dom.js';
import { count } from './format.js';
import { isStored } from './names.js';

const THUMB_CSS_PX = 56;

const stateOf = (series) => `${series.state} ${series.images.length > 0}`;

/** The list at the left. `onSelect(number)` on a click; `fetchImage` loads the small pictures, one at a time. */
export class SeriesList {
  #items = new Map();
  #queue = Promise.resolve();

  constructor({ fetchImage, onSelect }) {
    this.fetchImage = fetchImage;
    this.onSelect = onSelect;
    this.seen = new IntersectionObserver((entries) => {
      for (const entry of entries) if (entry.isIntersecting) this.#load(Number(entry.target.dataset.number));
    });
  }

  /** Shows `list` (newest first); `shown` is the number on the page. */
  show(list, shown) {
    const root = byId('series-list');
    const numbers = list.map(({ number }) => number);
    for (const [number, item] of this.#items) {
      if (numbers.includes(number)) continue;
      this.seen.unobserve(item.row);
      item.row.remove();
      this.#items.delete(number);
    }
    list.forEach((series, index) => {
      const item = this.#items.get(series.number) ?? this.#add(series.number);
      item.series = series;
      setText(item.text, `${series.number}\n${series.state}\n${count(series.frames.received)} / ${count(series.frames.expected)}`);
      item.button.setAttribute('aria-pressed', String(series.number === shown));
      item.button.title = `series ${series.number}${series.channel ? `, ${series.channel}` : ''}, begun ${series.started_utc}, scan ${series.scan_shape.join(' x ')}`;
      if (root.children[index] !== item.row) root.insertBefore(item.row, root.children[index] ?? null);
      if (item.isSeen) this.#load(series.number);
    });
  }

  /** Takes an image that the page has anyway as the small picture of its series. */
  lend(number, image) {
    const item = this.#items.get(number);
    if (item) this.#draw(item, image);
  }

  #add(number) {
    const thumb = element('canvas', { className: 'thumb', width: 1, height: 1, role: 'presentation' });
    const text = element('span');
    text.style.whiteSpace = 'pre-line';
    const button = element('button', { 'aria-pressed': 'false' }, thumb, text);
    button.onclick = () => this.onSelect(number);
    const row = element('li', {}, button);
    row.dataset.number = number;
    const item = { row, button, thumb, text, series: null, isSeen: false, loadedState: null, hasPicture: false };
    this.#items.set(number, item);
    this.seen.observe(row);
    return item;
  }

  // Once for every state of a series that is in sight; one that runs is lent its picture by the page.
  #load(number) {
    const item = this.#items.get(number);
    if (!item?.series) return;
    item.isSeen = true;
    if (item.loadedState === stateOf(item.series)) return;
    item.loadedState = stateOf(item.series);
    if (!item.series.images.includes('bf')) {
      this.#tryPng(item, number);
      return;
    }
    this.#queue = this.#queue
      .then(() => this.fetchImage({ path: imagePath(number, 'bf'), query: imageQuery('raw') }))
      .then((image) => this.#draw(item, image))
      .catch(() => { item.loadedState = null; });
  }

  // A series whose counts are gone may have left pictures in its result folder; a small one that is there stays.
  #tryPng(item, number) {
    if (item.hasPicture || !isStored(item.series)) return;
    const picture = element('img', { className: 'thumb', alt: '', loading: 'lazy' });
    picture.onload = () => {
      item.thumb.replaceWith(picture);
      item.hasPicture = true;
    };
    picture.src = address(imagePath(number, 'bf'), imageQuery('png'));
  }

  #draw(item, { values, rows, cols }) {
    if (!(rows > 0 && cols > 0)) return;
    const { low, high } = limits(sortedFinite(values, 8192), { low: 0.5, high: 99.5, map: 'grey' }, '');
    const whole = element('canvas', { width: cols, height: rows });
    whole.getContext('2d').putImageData(new ImageData(paint(values, colourTable('grey'), low, high), cols, rows), 0, 0);
    const side = THUMB_CSS_PX * (window.devicePixelRatio || 1), scale = side / Math.max(rows, cols);
    item.thumb.width = Math.max(1, Math.round(cols * scale));
    item.thumb.height = Math.max(1, Math.round(rows * scale));
    item.hasPicture = true;
    const context = item.thumb.getContext('2d');
    context.imageSmoothingEnabled = scale < 1;
    context.drawImage(whole, 0, 0, item.thumb.width, item.thumb.height);
  }
}
