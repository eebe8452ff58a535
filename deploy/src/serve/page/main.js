// The live page: joins the daemon's status, its images, and the controls.

import { fetchImage, fetchJson, imagePath, imageQuery, pageToken } from './api.js';
import { Connection, subscription } from './connection.js';
import { byId, copyText, element, setText, toast } from './dom.js';
import { attachExportMenu } from './export_menu.js';
import { FftView } from './fft_view.js';
import { attachKeys } from './keys.js';
import { Looks, LooksPanel } from './looks.js';
import { entryOf, IMAGES, isStored, namesOf, storedHeader } from './names.js';
import { OpticsPanel } from './optics_panel.js';
import { PhasePanel } from './phase_panel.js';
import { Picture } from './picture.js';
import { isOlderThan, pythonSnippet } from './python.js';
import { readout } from './readout.js';
import { attachRings } from './ring_overlay.js';
import { DEFAULT_RINGS, geometryOf, ringQuery } from './rings.js';
import { RecordedList } from './recorded_list.js';
import { RingsPanel } from './rings_panel.js';
import { SeriesList } from './series_list.js';
import { showBanner, showState } from './state_panel.js';
import { isRunning, phaseBadges } from './state_text.js';
import { ImageStore, REFRESH_MILLIS } from './store.js';
import { captionTile, makeTiles, TILES } from './tiles.js';

const DRAG_MILLIS = 30;

let status = null;
let link = { up: false, attempt: 0, retryAt: null, reason: 'connecting' };
let seriesList = [];
let recorded = null;
let pinned = null;
let shownIdentity = null;
let chosen = 'bf';
let chosenByUser = false;
let fftSource = 'bf';
let rings = DEFAULT_RINGS;
let centre = null;

const looks = new Looks();
const store = new ImageStore({ fetchImage, onChange: imageChanged });
const fft = new FftView(() => drawImage('fft'));
const big = new Picture(byId('big'));
const tiles = makeTiles(choose);
const looksPanel = new LooksPanel(looks, drawImage);
const phasePanel = new PhasePanel(() => refresh(DRAG_MILLIS));
const ringsPanel = new RingsPanel({ onChange: changeRings, onReset: resetRings });
const seriesPanel = new SeriesList({ fetchImage, onSelect: select });
const recordedPanel = new RecordedList(loadSeriesList);
const opticsPanel = new OpticsPanel(shown);
const connection = new Connection({ onStatus: heard, onImage: imageCame, onLink: linkChanged });

// ---- what is shown -------------------------------------------------------------------------------------------------

function newest() {
  return status?.series ?? null;
}

function shown() {
  const latest = newest();
  if (pinned === null || pinned === latest?.number) return latest;
  return seriesList.find(({ number }) => number === pinned) ?? latest;
}

function geometry() {
  const series = shown();
  // The files of a stored series have the rings they were written with.
  return series && !isStored(series) ? geometryOf(series.bright_field, rings, centre) : null;
}

function queryOfRings(name) {
  const series = shown();
  return series?.bright_field ? ringQuery(name, geometry(), series.bright_field) : new URLSearchParams();
}

function select(number) {
  pinned = number === newest()?.number ? null : number;
  showAll();
}

function choose(name) {
  chosen = name;
  chosenByUser = true;
  if (name !== 'fft') fftSource = name;
  showAll();
}

// ---- what arrives --------------------------------------------------------------------------------------------------

function heard(next) {
  const before = newest();
  status = next;
  const now = newest();
  if (now?.number !== before?.number || now?.state !== before?.state) loadSeriesList();
  showAll();
}

function linkChanged(next) {
  const wasUp = link.up;
  link = next;
  if (link.up && !wasUp) loadSeriesList();
  showAll();
}

async function loadSeriesList() {
  try {
    ({ series: seriesList, recorded = null } = await fetchJson('/api/v1/series'));
    recordedPanel.show(recorded);
    showAll();
  } catch {
    // The list is asked for again with the next change; the newest series is in every status anyway.
  }
}

// ---- images --------------------------------------------------------------------------------------------------------

/** What to ask for `name` of `series`; its key changes whenever the answer would. */
function requestFor(series, name) {
  if (isStored(series)) {
    return {
      key: JSON.stringify([series.number, 'stored']),
      path: imagePath(series.number, name),
      query: imageQuery('npy'),
      header: storedHeader(series, name),
      sums: series.frames.received < series.frames.expected && entryOf(name)?.axes === 'scan' ? imagePath(series.number, 'frame_sum') : null,
    };
  }
  const isPhase = name === 'phase' || name === 'amplitude';
  const parameters = name === 'phase' && series.number === newest()?.number ? phasePanel.parameters() : null;
  const { received } = series.frames, { phase } = series;
  if (parameters !== null) {
    // Without the version: a reconstruction with one's own parameters may itself count it up.
    const rows = Math.floor(received / Math.max(1, series.scan_shape[1]));
    return {
      key: JSON.stringify([series.number, parameters, rows, phase?.rows_final, phase?.badge]),
      path: '/api/v1/series/current/reconstruct',
      parameters,
    };
  }
  const rings = queryOfRings(name);
  const age = isPhase ? [phase?.version, phase?.badge] : [received, series.state, series.bright_field];
  return {
    key: JSON.stringify([series.number, rings.toString(), ...age]),
    path: imagePath(series.number, name),
    query: imageQuery('raw', rings),
  };
}

function refresh(gapMillis = REFRESH_MILLIS) {
  const series = shown();
  const names = !series || document.hidden ? [] : [...new Set([...TILES, chosen === 'fft' ? fftSource : chosen])];
  const requests = new Map(names.filter((name) => namesOf(series).includes(name)).map((name) => [name, requestFor(series, name)]));
  // Of a series in memory the daemon sends what is newer; what is from files or by own parameters is asked for.
  const isSent = (name) => status?.events?.images && requests.has(name) && !requests.get(name).parameters && !isStored(series);
  for (const name of connection.wanted) if (!isSent(name)) connection.unsubscribe(name);
  if (!link.up) return;
  for (const [name, request] of requests) {
    if (isSent(name)) connection.subscribe(name, subscription(name, series.number, name, queryOfRings(name)));
    else store.want(name, request, gapMillis);
  }
}

function imageCame(image) {
  if (image.header.series === shown()?.number) store.put(image.header.subscription, image);
}

function imageChanged(name) {
  drawImage(name);
  const { image } = store.get(name);
  if (name === 'bf' && image && shown()) seriesPanel.lend(shown().number, image);
}

function imageOf(name) {
  return name === 'fft' ? fft.image : store.get(name).image;
}

function messageFor(name) {
  const series = shown();
  const { error } = store.get(name === 'fft' ? fftSource : name);
  if (error) return `not loaded: ${error}`;
  if (!series) return 'no series yet';
  const isPhase = (name === 'phase' || name === 'amplitude') && !namesOf(series).includes(name);
  if (isPhase) return isRunning(series) ? 'the phase comes as soon as rows are there' : 'no phase of this series';
  return namesOf(series).includes(name) || name === 'fft' ? 'loading' : 'not there yet';
}

function drawImage(name) {
  if (name === fftSource || name === 'fft') {
    fft.want(chosen === 'fft' ? store.get(fftSource).image : null);
  }
  const tile = tiles.get(name);
  if (tile) drawInto(tile.picture, name);
  if (tile) captionTile(tile, tileWords(name));
  if (name === chosen) {
    drawInto(big, name);
    const image = imageOf(name);
    looksPanel.show(name, image);
    setText(byId('big-title'), name === 'fft' ? entryOf(name).title : image?.header.title ?? entryOf(name).title);
    byId('copy-python').disabled = !image;
    setText(byId('big-note'), noteFor(name));
  }
}

function drawInto(picture, name) {
  const image = imageOf(name);
  const phase = shown()?.phase;
  const isPreview = (name === 'phase' || name === 'amplitude') && phase?.badge === 'preview';
  picture.show(image, image ? looks.of(name, image) : null, { message: messageFor(name), finalRows: isPreview ? phase.rows_final : null });
  const words = image ? `${image.header.title}, ${image.rows} by ${image.cols}, in ${image.header.unit}` : `${entryOf(name).title}: ${messageFor(name)}`;
  if (picture.canvas.getAttribute('aria-label') !== words) picture.canvas.setAttribute('aria-label', words);
}

function noteFor(name) {
  const slot = store.get(name === 'fft' ? fftSource : name);
  if (slot.error && slot.image) return `not refreshed: ${slot.error}`;
  if (name === 'phase' && slot.busy && phasePanel.parameters()) return 'reconstructing';
  if (shown() && isStored(shown()) && name !== 'fft') return slot.image ? 'from the result folder' : '';
  if (name === 'fft') return fft.image ? 'Hann window, log scale' : '';
  return '';
}

function tileWords(name) {
  const slot = store.get(name);
  if (slot.error && slot.image) return `not refreshed: ${slot.error}`;
  if (name === 'phase' && slot.busy && phasePanel.parameters()) return 'reconstructing';
  return slot.image?.header.unit ?? '';
}

// ---- rings ---------------------------------------------------------------------------------------------------------

function changeRings(next) {
  rings = { bf: next.bf, adf: next.adf };
  const { bright_field: { centre_px: settled }, detector_shape: shape } = shown();
  const moved = next.centre.map((place, axis) => Math.min(Math.max(place, 0), shape[axis] - 1));
  centre = moved.every((place, axis) => Math.abs(place - settled[axis]) < 5e-5) ? null : moved;
  showRings();
  refresh(DRAG_MILLIS);
}

function resetRings() {
  rings = DEFAULT_RINGS;
  centre = null;
  showRings();
  refresh(DRAG_MILLIS);
}

function showRings() {
  const series = shown();
  const note = series === null ? '' : isStored(series) ? 'pictures from the result folder: rings as they were then'
    : 'calibration unknown: no bright-field disk found yet';
  ringsPanel.show(geometry(), series?.bright_field, note);
  tiles.get('mean_pattern').picture.redraw();
  if (chosen === 'mean_pattern') big.redraw();
}

// ---- everything ----------------------------------------------------------------------------------------------------

function showAll() {
  const series = shown(), latest = newest();
  // A daemon that was started again counts from 1 anew.
  const identity = series ? `${series.number} ${series.started_utc}` : null;
  if (identity !== shownIdentity) {
    shownIdentity = identity;
    centre = null;
    phasePanel.forget();
    store.clear();
  }
  if (!chosenByUser) chosen = fftSource = namesOf(series).includes('phase') ? 'phase' : 'bf';
  showState(status, link, series);
  showBanner({ link, shown: series, newest: latest, onConnect: () => connection.connect(), onNewest: () => select(latest.number) });
  showPhase(series, latest);
  showRings();
  showStale(series, latest);
  showChooser(series);
  seriesPanel.show(latest ? [latest, ...seriesList.filter(({ number }) => number !== latest.number)] : seriesList, series?.number);
  refresh();
  for (const name of new Set([...TILES, chosen])) drawImage(name);
}

function showPhase(series, latest) {
  const isNewest = series !== null && series.number === latest?.number;
  const canReconstruct = link.up && isNewest && series.images.includes('phase') && series.phase?.can_be_made_again;
  phasePanel.follow(series?.optics ?? null, canReconstruct, phaseNote(series, isNewest, canReconstruct));
  const used = store.get('phase').image?.header.pixels_used ?? series?.phase?.pixels_used;
  const badges = phaseBadges(series?.phase ?? null, used);
  const text = JSON.stringify(badges);
  const root = byId('phase-badges');
  if (root.dataset.shown === text) return;
  root.dataset.shown = text;
  root.replaceChildren(...badges.flatMap((badge) => [element('span', { className: `badge ${badge.tone}` }, badge.text), ' ']));
}

function phaseNote(series, isNewest, canReconstruct) {
  if (series === null) return '';
  if (canReconstruct) return series.optics === null ? 'calibration unknown' : '';
  if (!isNewest) return 'only the newest series can be reconstructed again';
  if (series.phase === null) return isRunning(series) ? 'waiting for the first phase' : 'no phase of this series';
  return series.phase.can_be_made_again ? '' : `preview of ${series.phase.rows_final} rows; the sliders work once it is final`;
}

function showStale(series, latest) {
  const isOld = series !== null && series.number !== latest?.number && isRunning(latest);
  const isStale = !link.up || isOld;
  const frames = [[byId('big').parentElement, byId('big-stale')], ...[...tiles.values()].map((tile) => [tile.root, tile.stale])];
  for (const [root, mark] of frames) {
    root.classList.toggle('stale', isStale);
    mark.hidden = !isStale;
  }
}

function showChooser(series) {
  for (const button of byId('image-buttons').children) {
    const { name } = button.dataset;
    button.setAttribute('aria-pressed', String(name === chosen));
    button.disabled = name !== 'fft' && name !== chosen && !namesOf(series).includes(name);
  }
  for (const [name, tile] of tiles) tile.root.classList.toggle('chosen', name === chosen);
  byId('fft-of').hidden = chosen !== 'fft';
  byId('fft-source').value = fftSource;
}

// ---- controls ------------------------------------------------------------------------------------------------------

function hover(name, row, col) {
  const image = imageOf(name);
  const at = row === null || !image ? '' : readout(image, row, col, geometry()?.centre);
  setText(byId('readout'), at ? `${entryOf(name).label} ${at}` : 'move the pointer over a picture');
}

function copyPython() {
  const name = chosen === 'fft' ? fftSource : chosen;
  const series = shown(), { image } = store.get(name);
  if (!series || !image) return;
  const request = requestFor(series, name);
  const isPassing = !isStored(series) && (isRunning(series) || isOlderThan(image.header, series.frames));
  copyText(pythonSnippet({
    origin: location.origin,
    path: request.path,
    query: request.parameters ? null : imageQuery(isPassing ? 'raw' : 'npy', queryOfRings(name)),
    header: image.header,
    centre: geometry()?.centre,
    parameters: request.parameters ?? null,
    needsToken: pageToken() !== null,
    spectrum: chosen === 'fft',
  }), `Python for ${image.header.title}`);
}

function start() {
  byId('image-buttons').append(...IMAGES.map(({ name, key, label, title }) => {
    const button = element('button', { title: `${title} (key ${key})` }, element('kbd', {}, key), label);
    button.dataset.name = name;
    button.onclick = () => choose(name);
    return button;
  }));
  byId('fft-source').append(...IMAGES.filter(({ name }) => name !== 'fft').map(({ name, label }) => element('option', { value: name }, label)));
  byId('fft-source').onchange = () => {
    fftSource = byId('fft-source').value;
    showAll();
  };
  byId('copy-python').onclick = copyPython;
  for (const [name, { picture }] of tiles) picture.onHover = (row, col) => hover(name, row, col);
  big.onHover = (row, col) => hover(chosen, row, col);
  attachRings(big, geometry, changeRings);
  attachRings(tiles.get('mean_pattern').picture, geometry, changeRings);
  attachExportMenu({ shown, ringQuery: queryOfRings, hasOwnPhase: () => phasePanel.parameters() !== null });
  attachKeys({
    choose,
    stretch: (factor) => looksPanel.stretch(factor),
    nextMap: () => toast(`colour map: ${looksPanel.nextMap()}`),
    nextSlider: () => toast(`arrow keys move: ${phasePanel.selectNext()}`),
    slider: () => phasePanel.selected,
    newest: () => newest() && select(newest().number),
    python: copyPython,
    optics: () => opticsPanel.open(),
  });
  document.addEventListener('visibilitychange', showAll);
  // Keys that failed are tried again, the count-down to the next attempt runs.
  setInterval(showAll, 1000);
  showAll();
  connection.connect();
}

start();
