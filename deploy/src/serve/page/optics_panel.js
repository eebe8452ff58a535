// The form for the microscope: what is known of it is shown, what is given is asked for of the daemon.

import { fetchJson, putJson } from './api.js';
import { byId, element, setText, toast } from './dom.js';

/** Fields of the form: key of the API, label, unit. */
export const OPTICS = [
  { key: 'voltage_kv', label: 'voltage', unit: 'kV' },
  { key: 'semi_angle_mrad', label: 'semi-convergence angle', unit: 'mrad' },
  { key: 'scan_step_nm', label: 'scan step; row, col where they differ', unit: 'nm' },
  { key: 'rotation_deg', label: 'rotation, detector to scan', unit: 'deg' },
];

/** How frames are counted into positions: key of the API, label, unit, least number. */
export const FRAMES = [
  { key: 'frames_per_position', label: 'frames of a position, summed', unit: 'frames', least: 1 },
  { key: 'flyback_frames', label: 'fly-back after each scan line', unit: 'frames', least: 0 },
  { key: 'skip_frames', label: 'before the first scan line', unit: 'frames', least: 0 },
];

/** The scan as the API takes it; null where nothing is said that is new against `known`. Throws what is wrong. */
export function geometryBody(texts, known = {}) {
  const body = {};
  const shape = (texts.scan_shape ?? '').trim();
  if (shape !== '') {
    const [, rows, cols] = /^(\d+)\s*[x×*,]\s*(\d+)$/.exec(shape) ?? [];
    if (!(rows > 0 && cols > 0)) throw new Error(`scan shape: got "${shape}", expected rows x cols, such as 64x64`);
    body.scan_shape = [Number(rows), Number(cols)];
  }
  if (texts.scan_path) body.scan_path = texts.scan_path;
  for (const { key, label, least } of FRAMES) {
    const text = (texts[key] ?? '').trim();
    if (text === '') continue;
    if (!/^\d+$/.test(text) || Number(text) < least) throw new Error(`${label}: got "${text}", expected a whole number from ${least} on`);
    body[key] = Number(text);
  }
  const isNew = Object.entries(body).filter(([key, value]) => JSON.stringify(known[key]) !== JSON.stringify(value));
  return isNew.length > 0 ? Object.fromEntries(isNew) : null;
}

/** The scan as the texts of its fields. */
export function geometryTexts(known = {}) {
  const text = (value) => (value === null || value === undefined ? '' : String(value));
  const texts = Object.fromEntries(FRAMES.map(({ key }) => [key, text(known[key])]));
  return { ...texts, scan_shape: known.scan_shape?.join('x') ?? '', scan_path: known.scan_path ?? '' };
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
  #scan = new Map();
  #known = {};

  constructor(shown) {
    this.shown = shown;
    const root = byId('optics-fields');
    for (const { key, label, unit } of OPTICS) {
      const input = element('input', { id: `optics-${key}`, inputMode: 'decimal', autocomplete: 'off' });
      root.append(element('label', { htmlFor: input.id }, label), input, element('span', { className: 'muted' }, unit));
      this.#fields.set(key, input);
    }
    const addScan = (key, label, unit, input) => {
      input.id = `optics-${key}`;
      root.append(element('label', { htmlFor: input.id }, label), input, element('span', { className: 'muted' }, unit));
      this.#scan.set(key, input);
    };
    addScan('scan_shape', 'scan shape, rows x cols', 'positions', element('input', { autocomplete: 'off' }));
    const paths = ['', 'raster', 'snake'].map((value) => element('option', { value }, value === '' ? 'as it is' : value));
    addScan('scan_path', 'order of a scan line', '', element('select', {}, ...paths));
    for (const { key, label, unit } of FRAMES) addScan(key, label, unit, element('input', { inputMode: 'numeric', autocomplete: 'off' }));
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
    this.#showScan({});
    this.#scan.get('scan_shape').placeholder = series?.calibration?.hints?.scan_shape?.join('x') ?? '';
    const unknown = series?.calibration?.missing?.includes('scan_shape');
    // what a series of unknown shape is shown as is no shape to begin with
    fetchJson(series ? `/api/v1/series/${series.number}/geometry` : '/api/v1/geometry').then(
      (values) => byId('optics').open && this.#showScan(unknown ? { ...values, scan_shape: undefined } : values),
      () => {},
    );
    setText(byId('optics-note'), noteFor(series));
    setText(byId('optics-error'), '');
    byId('optics').showModal();
  }

  #showScan(known) {
    this.#known = known ?? {};
    for (const [key, text] of Object.entries(geometryTexts(this.#known))) this.#scan.get(key).value = text;
  }

  async #apply() {
    const series = this.shown();
    try {
      const texts = Object.fromEntries([...this.#fields].map(([key, input]) => [key, input.value]));
      const body = opticsBody(texts, series?.optics ?? {});
      const scan = geometryBody(Object.fromEntries([...this.#scan].map(([key, input]) => [key, input.value])), this.#known);
      byId('optics-apply').disabled = true;
      setText(byId('optics-error'), '');
      if (series) await putJson(`/api/v1/series/${series.number}/optics`, body);
      if (byId('optics-next').checked || !series) await putJson('/api/v1/optics', body);
      if (series && scan) await putJson(`/api/v1/series/${series.number}/geometry`, scan);
      if (scan && (byId('optics-next').checked || !series)) await putJson('/api/v1/geometry', scan);
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
