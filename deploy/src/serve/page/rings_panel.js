// Number fields of the virtual detectors: limits in R with px and mrad beside them, and the centre in px.

import { byId, element, setText } from './dom.js';
import { significant } from './format.js';
import { limitIn, withLimit } from './rings.js';

const LIMITS = [
  { part: 'bf_outer', label: 'BF out', ring: 'bf', side: 'outer' },
  { part: 'adf_inner', label: 'ADF in', ring: 'adf', side: 'inner' },
  { part: 'adf_outer', label: 'ADF out', ring: 'adf', side: 'outer' },
];

/** Fields for the rings. `onChange(geometry)` when the user changed one; `onReset()` for the daemon's own. */
export class RingsPanel {
  #limits = new Map();
  #centre = [];
  #geometry = null;
  #radius = element('span', { className: 'muted radius' });

  constructor({ onChange, onReset }) {
    this.onChange = onChange;
    const root = byId('rings-fields');
    LIMITS.forEach((limit, index) => {
      this.#addLimit(root, limit);
      if (index < 2) this.#addCentre(root, ['row', 'col'][index], index);
      else root.append(this.#radius);
    });
    byId('rings-reset').onclick = onReset;
  }

  /** Shows a geometry; null disables the fields, and `note` says why. */
  show(geometry, brightField, note) {
    this.#geometry = geometry;
    byId('rings-unknown').hidden = geometry !== null || note === '';
    setText(byId('rings-unknown'), note);
    byId('rings-reset').disabled = geometry === null;
    for (const [part, { input, text }] of this.#limits) {
      const { ring, side } = LIMITS.find((limit) => limit.part === part);
      input.disabled = geometry === null;
      fill(input, geometry?.[ring][side], 3);
      setText(text, geometry ? inWords(limitIn(geometry, geometry[ring][side], brightField)) : '');
    }
    this.#centre.forEach((input, index) => {
      input.disabled = geometry === null;
      fill(input, geometry?.centre[index], 2);
    });
    setText(this.#radius, geometry ? `R = ${inWords(limitIn(geometry, 1, brightField))}` : '');
  }

  #addLimit(root, { part, label, ring }) {
    const input = element('input', { type: 'number', id: `ring-${part}`, min: 0, step: 0.01, 'aria-label': `${label} limit in bright-field radii` });
    input.dataset.step = 0.01;
    input.dataset.large = 0.1;
    input.addEventListener('input', () => {
      const value = Number.parseFloat(input.value);
      if (this.#geometry && Number.isFinite(value)) this.onChange(withLimit(this.#geometry, part, value));
    });
    const text = element('span', { className: 'muted' });
    const name = element('label', { htmlFor: input.id }, element('span', { className: `swatch ${ring}` }), `${label}, R`);
    root.append(name, input, text);
    this.#limits.set(part, { input, text });
  }

  #addCentre(root, axis, index) {
    const input = element('input', { type: 'number', id: `centre-${axis}`, step: 0.1, 'aria-label': `centre ${axis} in px` });
    input.dataset.step = 0.1;
    input.dataset.large = 1;
    input.addEventListener('input', () => {
      const value = Number.parseFloat(input.value);
      if (!this.#geometry || !Number.isFinite(value)) return;
      const centre = [...this.#geometry.centre];
      centre[index] = value;
      this.onChange({ ...this.#geometry, centre });
    });
    root.append(element('label', { htmlFor: input.id }, `centre ${axis}, px`), input);
    this.#centre.push(input);
  }
}

function fill(input, value, decimals) {
  if (document.activeElement === input && value !== undefined) return;
  input.value = value === undefined ? '' : String(Number(value.toFixed(decimals)));
}

function inWords({ px, mrad }) {
  return `${significant(px, 3)} px${mrad === null ? '' : `, ${significant(mrad, 3)} mrad`}`;
}
