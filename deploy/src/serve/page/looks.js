// How each image is looked at: its percentiles and its colour map, and the panel that changes them.

import { COLOUR_MAPS, colourTable, defaultMap } from './colour.js';
import { DEFAULT_PERCENTILES, histogram, limits, percentile, sortedFinite, stretched } from './contrast.js';
import { byId, element, setText } from './dom.js';
import { quantity } from './format.js';

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

/** Handles, histogram and colour map of the large image. `onChange(name)` when the user changed them. */
export class LooksPanel {
  #name = 'bf';
  #image = null;
  #drawn = [];

  constructor(looks, onChange) {
    this.looks = looks;
    this.onChange = onChange;
    byId('colour-map').append(...COLOUR_MAPS.map((map) => element('option', { value: map }, map)));
    byId('colour-map').addEventListener('change', () => this.#change({ map: byId('colour-map').value }));
    byId('contrast-reset').onclick = () => this.#change({ ...DEFAULT_PERCENTILES });
    const low = byId('contrast-low'), high = byId('contrast-high');
    for (const input of [low, high]) {
      input.dataset.step = 0.1;
      input.dataset.large = 1;
    }
    low.addEventListener('input', () => this.#change({ low: Math.min(Number(low.value), Number(high.value) - 0.1) }));
    high.addEventListener('input', () => this.#change({ high: Math.max(Number(high.value), Number(low.value) + 0.1) }));
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

  #change(change) {
    this.looks.change(this.#name, change);
    this.onChange(this.#name);
  }

  /** Shows the settings of an image. */
  show(name, image) {
    this.#name = name;
    this.#image = image;
    const { low, high, map } = this.looks.settings(name);
    byId('colour-map').value = map;
    byId('contrast-low').value = low;
    byId('contrast-high').value = high;
    for (const id of ['contrast-low', 'contrast-high']) byId(id).disabled = image === null || map === 'cyclic' && image.header.unit === 'rad';
    byId('contrast-low').setAttribute('aria-valuetext', `${low} per cent`);
    byId('contrast-high').setAttribute('aria-valuetext', `${high} per cent`);
    if (image === null) {
      setText(byId('limits'), '');
    } else {
      const look = this.looks.of(name, image);
      const unit = image.header.unit;
      const isTurn = look.period !== null && unit === 'rad';
      const part = (percent) => (map === 'diverging' || isTurn ? '' : ` (${percent} %)`);
      setText(byId('limits'), isTurn ? '−π rad\nto π rad, cyclic' : `${quantity(look.low, unit)}${part(low)}\nto ${quantity(look.high, unit)}${part(high)}`);
    }
    this.#draw();
  }

  // Counts as a silhouette by percentile of value, and the colours below it where the two ends lie.
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
    const sorted = this.looks.sorted(image), settings = this.looks.settings(this.#name);
    const bins = histogram(sorted, Math.min(120, width)), most = Math.sqrt(bins.reduce((a, b) => Math.max(a, b), 1));
    context.fillStyle = '#6b7785';
    const strip = Math.round(7 * ratio);
    bins.forEach((number, bin) => {
      const high = Math.ceil((Math.sqrt(number) / most) * (height - strip - 2));
      context.fillRect((bin * width) / bins.length, height - strip - high, Math.ceil(width / bins.length), high);
    });
    const look = this.looks.of(this.#name, image), table = colourTable(settings.map);
    const first = sorted[0], span = sorted[sorted.length - 1] - first || 1;
    for (let x = 0; x < width; x++) {
      const value = first + (x / width) * span;
      const place = (value - look.low) / (look.high - look.low || 1);
      const index = 3 * Math.min(255, Math.max(0, Math.round(255 * place)));
      context.fillStyle = `rgb(${table[index]}, ${table[index + 1]}, ${table[index + 2]})`;
      context.fillRect(x, height - strip, 1, strip);
    }
    context.fillStyle = '#ffffff';
    for (const percent of [settings.low, settings.high]) {
      context.fillRect(((percentile(sorted, percent) - first) / span) * (width - ratio), 0, ratio, height);
    }
  }
}
