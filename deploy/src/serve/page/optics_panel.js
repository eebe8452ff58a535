// The form for the microscope: what is known of it is shown, what is given is asked for of the daemon.

import { putJson } from './api.js';
import { byId, element, setText, toast } from './dom.js';

/** Fields of the form: key of the API, label, unit. */
export const OPTICS = [
  { key: 'voltage_kv', label: 'voltage', unit: 'kV' },
  { key: 'semi_angle_mrad', label: 'semi-convergence angle', unit: 'mrad' },
  { key: 'scan_step_nm', label: 'scan step; row, col where they differ', unit: 'nm' },
  { key: 'rotation_deg', label: 'rotation, detector to scan', unit: 'deg' },
];

/** The shape of a scan as the API takes it; null where nothing is said. Throws what is wrong. */
export function shapeBody(text) {
  if (text.trim() === '') return null;
  const [, rows, cols] = /^\s*(\d+)\s*[x×*,]\s*(\d+)\s*$/.exec(text) ?? [];
  if (!(rows > 0 && cols > 0)) throw new Error(`scan shape: got "${text.trim()}", expected rows x cols, such as 64x64`);
  return { scan_shape: [Number(rows), Number(cols)] };
}

/** What the texts of the fields ask for: {key: number or [row, col]}; only what is new against `known`. Throws what is wrong. */
export function opticsBody(texts, known = {}) {
  const body = {};
  for (const { key, label, unit } of OPTICS) {
    const text = (texts[key] ?? '').trim();
    if (text === '' || text === opticsText(known[key])) continue;
    const numbers = text.split(/[,;]\s*|\s+/).map((part) => (part === '' ? NaN : Number(part)));
    const most = key === 'scan_step_nm' ? 2 : 1;
    if (numbers.length > most || !numbers.every(Number.isFinite)) throw new Error(`${label}: got "${text}", expected ${most === 2 ? 'one number or two' : 'a number'} in ${unit}`);
    body[key] = numbers.length === 1 ? numbers[0] : numbers;
  }
  return body;
}

/** A value of the API as the text of its field; nothing where it is not known. */
export function opticsText(value) {
  if (value === null || value === undefined) return '';
  const [row, col] = Array.isArray(value) ? value : [value, value];
  return row === col ? String(row) : `${row}, ${col}`;
}

/** The dialog. `shown()` is the series on the page, or null. */
export class OpticsPanel {
  #fields = new Map();

  constructor(shown) {
    this.shown = shown;
    const root = byId('optics-fields');
    for (const { key, label, unit } of OPTICS) {
      const input = element('input', { id: `optics-${key}`, inputMode: 'decimal', autocomplete: 'off' });
      root.append(element('label', { htmlFor: input.id }, label), input, element('span', { className: 'muted' }, unit));
      this.#fields.set(key, input);
    }
    const shape = element('input', { id: 'optics-scan_shape', autocomplete: 'off' });
    root.append(element('label', { htmlFor: shape.id }, 'scan shape, rows x cols'), shape, element('span', { className: 'muted' }, 'positions'));
    byId('optics-form').addEventListener('submit', (event) => {
      event.preventDefault();
      this.#apply();
    });
    byId('optics-close').onclick = () => byId('optics').close();
    byId('optics-open').onclick = () => this.open();
    byId('uncalibrated').onclick = () => this.open();
  }

  /** Shows the form with what is known of the series on the page. */
  open() {
    const series = this.shown();
    for (const [key, input] of this.#fields) input.value = opticsText(series?.optics?.[key]);
    byId('optics-scan_shape').value = '';
    byId('optics-scan_shape').placeholder = series?.calibration?.hints?.scan_shape?.join('x') ?? series?.scan_shape?.join('x') ?? '';
    setText(byId('optics-note'), noteFor(series));
    setText(byId('optics-error'), '');
    byId('optics').showModal();
  }

  async #apply() {
    const series = this.shown();
    try {
      const texts = Object.fromEntries([...this.#fields].map(([key, input]) => [key, input.value]));
      const body = opticsBody(texts, series?.optics ?? {});
      const shape = shapeBody(byId('optics-scan_shape').value);
      byId('optics-apply').disabled = true;
      setText(byId('optics-error'), '');
      if (series) await putJson(`/api/v1/series/${series.number}/optics`, body);
      if (byId('optics-next').checked || !series) await putJson('/api/v1/optics', body);
      if (series && shape) await putJson(`/api/v1/series/${series.number}/geometry`, shape);
      if (shape && (byId('optics-next').checked || !series)) await putJson('/api/v1/geometry', shape);
      byId('optics').close();
      toast('the microscope is set');
    } catch (error) {
      setText(byId('optics-error'), error.message);
    } finally {
      byId('optics-apply').disabled = false;
    }
  }
}

function noteFor(series) {
  if (!series) return 'for the next series';
  const hint = series.calibration?.hints?.scan_shape;
  const shape = series.calibration?.missing?.includes('scan_shape')
    ? ` The scan shape is not known${hint ? `; it could be ${hint.join(' × ')}` : ''}.`
    : '';
  return `Series ${series.number}: ${series.calibration?.text ?? 'everything is known'}.${shape}`;
}
