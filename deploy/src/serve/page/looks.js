// How each image is looked at: its percentiles and its colour map, and the panel that changes them.

import { COLOUR_MAPS, colourTable, defaultMap } from './colour.js';
import { DEFAULT_PERCENTILES, edges, histogram, limits, percentile, rankOf, sortedFinite, stretched } from './contrast.js';
import { byId, element, setText } from './dom.js';
import { quantity, significant } from './format.js';

/** Looks by image name. */
export class Looks {
  #settings = new Map();
  #sorted = new WeakMap();
  #looks = new Map();

  settings(name) {
    if (!this.#settings.has(name)) this.#settings.set(name, { ...DEFAULT_PERCENTILES, map: defaultMap(name) });
    return this.#settings.get(name);
  }

  change(name, change) {
    this.#settings.set(name, { ...this.settings(name), ...change });
  }

  sorted(image) {
    if (!this.#sorted.has(image)) this.#sorted.set(image, sortedFinite(image.values));
    return this.#sorted.get(image);
  }

  /** {map, low, high, period} of an image; the same object as long as nothing changed. */
  of(name, image) {
    const settings = this.settings(name), held = this.#looks.get(name);
    if (held?.image === image && held.settings === settings) return held.look;
    const look = { map: settings.map, ...limits(this.sorted(image), settings, image.header.unit) };
    this.#looks.set(name, { image, settings, look });
    return look;
  }
}

/** Steps of a handle from one end of the histogram to the other. */
const HANDLE_STEPS = 1000;

/** Handles, histogram and colour map of the large image. `onChange(name)` when the user changed them. */
export class LooksPanel {
  #name = 'bf';
  #image = null;
  #drawn = [];
  #held = null;

  constructor(looks, onChange) {
    this.looks = looks;
    this.onChange = onChange;
    byId('colour-map').append(...COLOUR_MAPS.map((map) => element('option', { value: map }, map)));
    byId('colour-map').addEventListener('change', () => this.#change({ map: byId('colour-map').value }));
    byId('contrast-reset').onclick = () => this.#change({ ...DEFAULT_PERCENTILES });
    for (const end of ['low', 'high']) {
      const input = byId(`contrast-${end}`);
      Object.assign(input, { min: 0, max: HANDLE_STEPS, step: 1 });
      Object.assign(input.dataset, { step: 5, large: 50 });
      input.addEventListener('input', () => this.#move(end, input));
    }
  }

  /** More (`factor` > 1) or less contrast. */
  stretch(factor) {
    this.#change(stretched(this.looks.settings(this.#name), factor));
  }

  /** The next colour map; gives its name. */
  nextMap() {
    const { map } = this.looks.settings(this.#name);
    const next = COLOUR_MAPS[(COLOUR_MAPS.indexOf(map) + 1) % COLOUR_MAPS.length];
    this.#change({ map: next });
    return next;
  }

  // A handle stands at a value, kept as the percentile it is: the contrast follows an image that is still coming in.
  #move(end, input) {
    if (!this.#image) return;
    const sorted = this.looks.sorted(this.#image), [first, last] = edges(sorted);
    const place = Number(input.value) / HANDLE_STEPS;
    const percent = place <= 0 ? 0 : place >= 1 ? 100 : rankOf(sorted, first + place * (last - first));
    const { low, high } = this.looks.settings(this.#name);
    this.#held = input;
    this.#change(end === 'low' ? { low: Math.min(percent, high - 0.05) } : { high: Math.max(percent, low + 0.05) });
    this.#held = null;
  }

  #change(change) {
    this.looks.change(this.#name, change);
    this.onChange(this.#name);
  }

  /** Shows the settings of an image. */
  show(name, image) {
    const isSame = this.#name === name;
    this.#name = name;
    this.#image = image;
    const settings = this.looks.settings(name);
    byId('colour-map').value = settings.map;
    const isTurn = settings.map === 'cyclic' && image?.header.unit === 'rad';
    for (const end of ['low', 'high']) this.#showHandle(byId(`contrast-${end}`), settings[end], isTurn, isSame);
    byId('histogram').parentElement.style.visibility = image ? '' : 'hidden';
    setText(byId('limits'), image ? words(this.looks.of(name, image), settings, image.header.unit, isTurn) : '');
    this.#draw();
  }

  #showHandle(input, percent, isTurn, isSame) {
    input.disabled = this.#image === null || isTurn;
    input.setAttribute('aria-valuetext', `${percent} per cent`);
    // A handle under the pointer is not moved by the image that comes in meanwhile.
    if (this.#image === null || this.#held === input || (isSame && input.dataset.percent === String(percent) && document.activeElement === input)) return;
    const sorted = this.looks.sorted(this.#image), [first, last] = edges(sorted);
    const place = (percentile(sorted, percent) - first) / (last - first);
    input.value = Math.round(HANDLE_STEPS * (percent <= 0 ? 0 : percent >= 100 ? 1 : place)) || 0;
    input.dataset.percent = percent;
  }

  // Counts as a silhouette over their values, and below it the colours they get.
  #draw() {
    const canvas = byId('histogram'), ratio = window.devicePixelRatio || 1;
    const width = Math.round(canvas.clientWidth * ratio), height = Math.round(canvas.clientHeight * ratio);
    const drawn = [this.#image, this.looks.settings(this.#name), width, height];
    if (width === 0 || drawn.every((part, index) => part === this.#drawn[index])) return;
    this.#drawn = drawn;
    canvas.width = width;
    canvas.height = height;
    const context = canvas.getContext('2d'), image = this.#image;
    if (!image) return;
    const sorted = this.looks.sorted(image), [first, last] = edges(sorted);
    const bins = histogram(sorted, Math.min(120, width), first, last), most = Math.sqrt(bins.reduce((a, b) => Math.max(a, b), 1));
    context.fillStyle = '#6b7785';
    const strip = Math.round(7 * ratio);
    bins.forEach((number, bin) => {
      const high = Math.ceil((Math.sqrt(number) / most) * (height - strip - 2));
      context.fillRect((bin * width) / bins.length, height - strip - high, Math.ceil(width / bins.length), high);
    });
    const look = this.looks.of(this.#name, image), table = colourTable(look.map);
    for (let x = 0; x < width; x++) {
      const place = (first + (x / width) * (last - first) - look.low) / (look.high - look.low || 1);
      const index = 3 * Math.min(255, Math.max(0, Math.round(255 * place)));
      context.fillStyle = `rgb(${table[index]}, ${table[index + 1]}, ${table[index + 2]})`;
      context.fillRect(x, height - strip, 1, strip);
    }
    context.fillStyle = '#ffffff';
    for (const value of [look.low, look.high]) {
      context.fillRect(((value - first) / (last - first)) * (width - ratio), 0, ratio, height);
    }
  }
}

function words(look, { low, high, map }, unit, isTurn) {
  if (isTurn) return '−π to π rad\nonce round';
  const middle = map === 'diverging' ? ', centred' : '';
  return `${significant(look.low)} to ${quantity(look.high, unit)}\n${low} % to ${high} %${middle}`;
}
