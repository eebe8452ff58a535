// Sliders and number fields for the aberrations and the rotation of the phase.

import { byId, element, setText } from './dom.js';
import { niceLength } from './scale_bar.js';

/** What can be changed: key of the API, label, unit, step, step with shift, range. */
export const PARAMETERS = [
  { key: 'c10_nm', label: 'C10, defocus', unit: 'nm', step: 0.1, large: 1, reach: 20 },
  { key: 'c12_nm', label: 'C12, astigmatism', unit: 'nm', step: 0.1, large: 1, reach: 10 },
  { key: 'phi12_deg', label: 'φ12, its angle', unit: 'deg', step: 1, large: 10, fixed: [-90, 90] },
  { key: 'rotation_deg', label: 'scan rotation', unit: 'deg', step: 0.5, large: 5, fixed: [-180, 180] },
];

/** Ends of a slider about `value`: fixed ones, or a nice reach of at least twice the value. */
export function sliderRange(parameter, value) {
  if (parameter.fixed) return parameter.fixed;
  let reach = parameter.reach;
  while (reach < 2 * Math.abs(value)) reach = niceLength(reach * 2.5);
  return [-reach, reach];
}

/** Follows the daemon's optics until the user changes something; then says which parameters to reconstruct with. */
export class PhasePanel {
  #fields = new Map();
  #values = {};
  #own = null;
  #selected = PARAMETERS[0].key;
  #isEnabled = false;

  /** `onChange()` whenever `parameters()` changed. */
  constructor(onChange) {
    this.onChange = onChange;
    for (const parameter of PARAMETERS) this.#addField(parameter);
    byId('phase-reset').onclick = () => this.reset();
    this.#select(this.#selected);
  }

  /** What to reconstruct with, or null for the daemon's own phase. */
  parameters() {
    return this.#own === null ? null : { ...this.#values };
  }

  /** Shows `optics` (null: unknown) unless the user has set something; `note` says why when not enabled. */
  follow(optics, isEnabled, note) {
    this.#isEnabled = isEnabled;
    if (this.#own === null) this.#values = this.#valuesOf(optics);
    this.#show();
    setText(byId('phase-note'), note);
    byId('phase-note').hidden = note === '';
  }

  /** Another series: whatever the user set was for the old one. */
  forget() {
    this.#own = null;
    this.#values = {};
  }

  /** Back to the daemon's values. They are asked for by name: the daemon may hold what was last posted. */
  reset() {
    if (this.#own === null) return;
    this.#values = { ...this.#own };
    this.#show();
    this.onChange();
  }

  /** Slider that the arrow keys move. */
  get selected() {
    return this.#fields.get(this.#selected).range;
  }

  /** Selects the next slider. */
  selectNext() {
    const keys = PARAMETERS.map(({ key }) => key);
    this.#select(keys[(keys.indexOf(this.#selected) + 1) % keys.length]);
    return PARAMETERS.find(({ key }) => key === this.#selected).label;
  }

  #valuesOf(optics) {
    return Object.fromEntries(PARAMETERS.map(({ key }) => [key, optics?.[key]]).filter(([, value]) => Number.isFinite(value)));
  }

  #isChanged() {
    return this.#own !== null && PARAMETERS.some(({ key }) => this.#values[key] !== this.#own[key]);
  }

  #addField(parameter) {
    const { key, label, unit, step, large } = parameter;
    const range = element('input', { type: 'range', step: 'any', id: `slider-${key}`, 'aria-label': `${label} in ${unit}` });
    const number = element('input', { type: 'number', step: 'any', id: `field-${key}`, 'aria-label': `${label} in ${unit}` });
    for (const input of [range, number]) {
      input.dataset.step = step;
      input.dataset.large = large;
      input.addEventListener('focus', () => this.#select(key));
      input.addEventListener('input', () => {
        const value = Number.parseFloat(input.value);
        if (Number.isFinite(value)) this.#set(parameter, input === range ? Math.round(value / (step / 10)) * (step / 10) : value, input);
      });
    }
    number.addEventListener('change', () => this.#show());
    const name = element('label', { htmlFor: range.id }, label);
    byId('phase-fields').append(name, range, number, element('span', {}, unit));
    this.#fields.set(key, { parameter, range, number, name });
  }

  #set(parameter, value, source) {
    this.#own ??= { ...this.#values };
    this.#values[parameter.key] = Number(value.toPrecision(8));
    this.#show(source);
    this.onChange();
  }

  #select(key) {
    this.#selected = key;
    for (const [name, field] of this.#fields) field.name.classList.toggle('selected', name === key);
  }

  #show(source = null) {
    for (const [key, { parameter, range, number }] of this.#fields) {
      const value = this.#values[key];
      range.disabled = number.disabled = !this.#isEnabled;
      const [least, most] = sliderRange(parameter, value ?? 0);
      // A range that grew under the pointer would run away from it.
      if (source !== range) {
        range.min = least;
        range.max = most;
        if (document.activeElement !== range || source !== null || Number(range.value) !== value) range.value = value ?? 0;
      }
      // Half-typed numbers stay as they are.
      if (source !== number && (document.activeElement !== number || source !== null)) number.value = value === undefined ? '' : String(Number(value.toFixed(4)));
    }
    byId('phase-reset').disabled = !this.#isEnabled || !this.#isChanged();
  }
}
