// A stand-in for `sideband serve`: the page and the HTTP API v1 with synthetic images, no packages needed.
//
//   node tests/peers/page_fake.mjs [--port 8041] [--rate 1000] [--scan 64] [--token T]
//
// POST /fake/next begins a series, /fake/hold stops the frames, /fake/drop closes the event streams,
// /fake/set {...} lays members over the status, /fake/requests tells what was asked.

import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { fileURLToPath } from 'node:url';

const PAGE = new URL('../../deploy/src/serve/page/', import.meta.url);
const TYPES = { html: 'text/html; charset=utf-8', css: 'text/css; charset=utf-8', js: 'text/javascript; charset=utf-8' };
const DETECTOR = 96;
const BRIGHT_FIELD = { centre_px: [46.5, 48.2], radius_px: 14.2, sampling_mrad: [2.11, 2.11] };
const OPTICS = { voltage_kv: 300, semi_angle_mrad: 30, scan_step_nm: [0.016, 0.016], rotation_deg: -12.5, c10_nm: -6.3, c12_nm: 1.8, phi12_deg: 11.6 };
// Positions that never come, row-major, half-open.
const HOLES = [[700, 716], [1500, 1502]];

/** Starts the stand-in; `port` 0 takes a free one. Gives {port, state, close()}. */
export async function startFake({ port = 0, rate = 1000, scan = 64, token = null } = {}) {
  const state = { series: [], listeners: new Set(), requests: [], over: {}, isHeld: false, scan, rate, token };
  const server = createServer((request, response) => {
    answer(state, request, response).catch((error) => send(response, 500, { error: error.message }));
  });
  server.on('upgrade', (request, socket) => upgrade(state, request, socket));
  await new Promise((resolve) => server.listen(port, '127.0.0.1', resolve));
  const clock = setInterval(() => tick(state), 50);
  const close = () => {
    clearInterval(clock);
    for (const socket of state.listeners) socket.destroy();
    server.closeAllConnections();
    server.close();
  };
  return { port: server.address().port, state, close };
}

// ---- the scan ------------------------------------------------------------------------------------------------------

function beginSeries(state) {
  const rows = state.scan, cols = state.scan;
  // As the daemon does: one series in memory, the others in their result folders.
  for (const older of state.series) older.images = [];
  state.series.unshift({
    number: state.series.length + 1, id: 10 + state.series.length, unique_id: null, state: 'receiving', started_utc: new Date().toISOString(),
    frames: { expected: rows * cols, received: 0, missing: 0, doubled: 0, late: 0, corrupt: 0 }, frames_per_s: 0,
    scan_shape: [rows, cols], detector_shape: [DETECTOR, DETECTOR], count_type: 'uint16', ending: null, problem: null, warnings: [], folder: null,
    bright_field: null, optics: null, phase: null, images: [], front: 0, began: Date.now(),
  });
}

function tick(state) {
  const [series] = state.series;
  if (!series || series.state !== 'receiving' || state.isHeld) return;
  const { expected } = series.frames, cols = series.scan_shape[1];
  series.front = Math.min(expected, series.front + state.rate / 20);
  const front = Math.floor(series.front);
  const missing = HOLES.reduce((sum, [start, end]) => sum + Math.max(0, Math.min(end, front) - start), 0);
  series.frames = { ...series.frames, received: front - missing, missing };
  series.frames_per_s = (1000 * front) / Math.max(1, Date.now() - series.began);
  if (front > 0) series.images = ['frame_sum', 'mean_pattern', 'detector_total'];
  if (front >= cols) {
    series.bright_field = BRIGHT_FIELD;
    series.optics = OPTICS;
    series.images = ['bf', 'adf', 'df', 'com_row', 'com_col', ...series.images];
  }
  if (front >= 8 * cols) {
    const rowsFinal = Math.max(0, Math.floor(front / cols) - 6);
    if (series.phase?.rows_final !== rowsFinal) {
      series.phase = { version: (series.phase?.version ?? 0) + 1, badge: 'preview', rows_final: rowsFinal, pixels_used: 597, device: 'cpu', can_be_made_again: false };
    }
    series.images = [...series.images, 'phase', 'amplitude'];
    series.warnings = ['the scan is undersampled along rows: step 0.016 nm, at most 0.0164 nm for 30 mrad'];
  }
  if (front >= expected) {
    series.state = 'complete';
    series.ending = 'every frame came';
    series.folder = `/data/results/series-${series.number}`;
    series.phase = { ...series.phase, version: series.phase.version + 1, badge: 'final', rows_final: series.scan_shape[0], can_be_made_again: true };
  }
  broadcast(state);
}

function told({ front, began, ...series }) {
  return series;
}

function statusOf(state) {
  const [series] = state.series;
  return {
    version: '0.1.0', state: series?.state ?? 'listening',
    stream: { address: '127.0.0.1:31001', connected: true, connections: 1, failures: 0, messages: series?.frames.received ?? 0, bytes: 5000 * (series?.frames.received ?? 0), ring_full: 0, garbage: 0, last_error: null },
    recording: { folder: '/data/log', received: series?.frames.received ?? 0, durable: Math.max(0, (series?.frames.received ?? 0) - 12), not_saved: 0, last_error: null },
    series: series ? told(series) : null,
    memory: { resident_bytes: 812e6, free_bytes: 11.2e9 }, disk_free_bytes: 431e9, detector_dropped: 0,
    ...state.over,
  };
}

// ---- images --------------------------------------------------------------------------------------------------------

function scanValues(series, value) {
  const [rows, cols] = series.scan_shape;
  const values = new Float32Array(rows * cols).fill(NaN);
  for (let i = 0; i < Math.floor(series.front); i++) {
    if (!HOLES.some(([start, end]) => start <= i && i < end)) values[i] = value(Math.floor(i / cols), i % cols);
  }
  return values;
}

function missingOf({ front, frames }) {
  const came = Math.floor(front);
  return [...HOLES.filter(([, end]) => end <= came), [came, frames.expected]].filter(([start, end]) => start < end);
}

function atoms(row, col, step = 12) {
  const near = (x) => ((x % step) + step) % step - step / 2;
  return Math.exp(-(near(row) ** 2 + near(col) ** 2) / 6) + 0.45 * Math.exp(-(near(row + step / 2) ** 2 + near(col + step / 2) ** 2) / 4);
}

function noise(row, col) {
  const x = Math.sin(row * 127.1 + col * 311.7) * 43758.5453;
  return x - Math.floor(x) - 0.5;
}

/** A synthetic image; the rings change bf, adf and df as they would change real ones: by what they hold. */
export function image(series, name, query = new URLSearchParams(), parameters = OPTICS) {
  const step = { pixel_size: series.optics?.scan_step_nm ?? null, pixel_unit: series.optics ? 'nm' : 'px', axes: 'scan' };
  const centre = [Number(query.get('row') ?? BRIGHT_FIELD.centre_px[0]), Number(query.get('col') ?? BRIGHT_FIELD.centre_px[1])];
  const off = Math.hypot(centre[0] - BRIGHT_FIELD.centre_px[0], centre[1] - BRIGHT_FIELD.centre_px[1]);
  const ring = (inner, outer) => [Number(query.get('inner') ?? inner), Number(query.get('outer') ?? outer)];
  const area = ([inner, outer]) => 600 * (Math.min(outer, 3) ** 2 - inner ** 2);
  const scan = (title, unit, value) => ({ title, unit, ...step, shape: series.scan_shape, values: scanValues(series, value) });
  switch (name) {
    case 'bf': {
      const limits = ring(0, 0.9);
      return scan('Bright field', 'counts', (r, c) => area(limits) * (1 - 0.2 * limits[1] * atoms(r, c) + 0.02 * off * Math.sin(c / 5) + 0.06 * noise(r, c)));
    }
    case 'adf': {
      const limits = ring(1.2, 1.85);
      return scan('Annular dark field', 'counts', (r, c) => 0.02 * area(limits) * (0.3 + atoms(r, c) * (2 - limits[0] / 2) + 0.01 * off + 0.2 * noise(r, c)));
    }
    case 'df': return scan('Dark field', 'counts', (r, c) => 30 * (0.3 + atoms(r, c)) + 5 * noise(r, c));
    case 'com_row': return scan('Centre of mass, row', 'mrad', (r, c) => atoms(r + 1, c) - atoms(r - 1, c) + 0.05 * noise(r, c));
    case 'com_col': return scan('Centre of mass, column', 'mrad', (r, c) => atoms(r, c + 1) - atoms(r, c - 1) + 0.05 * noise(r, c));
    case 'frame_sum': return scan('Frame sum', 'counts', (r, c) => 900 - 20 * atoms(r, c) + 30 * noise(r, c));
    case 'phase': {
      const blur = Math.abs(parameters.c10_nm - OPTICS.c10_nm) + Math.abs(parameters.c12_nm - OPTICS.c12_nm);
      return { ...scan('Phase, single sideband', 'rad', (r, c) => (0.3 * Math.cos(blur / 3) * atoms(r, c)) / (1 + blur / 8) + 0.02 * noise(r, c)), pixels_used: 597 };
    }
    case 'amplitude': return scan('Amplitude, single sideband', '1', (r, c) => 1 - 0.05 * atoms(r, c) + 0.01 * noise(r, c));
    case 'mean_pattern':
    case 'detector_total': return pattern(series, name);
    default: return null;
  }
}

function pattern(series, name) {
  const { centre_px: [row, col], radius_px: radius } = BRIGHT_FIELD, times = name === 'mean_pattern' ? 1 : Math.floor(series.front);
  const values = Float32Array.from({ length: DETECTOR * DETECTOR }, (_, i) => {
    const r = Math.floor(i / DETECTOR), c = i % DETECTOR, distance = Math.hypot(r - row, c - col) / radius;
    return times * (1.4 / (1 + Math.exp(30 * (distance - 1))) + 0.08 * Math.exp(-distance) + 0.02 * (0.5 + noise(r, c)));
  });
  const axes = series.bright_field ? { pixel_size: BRIGHT_FIELD.sampling_mrad, pixel_unit: 'mrad' } : { pixel_size: null, pixel_unit: 'px' };
  return { title: name === 'mean_pattern' ? 'Mean pattern' : 'Detector total', unit: 'counts', axes: 'detector', ...axes, shape: [DETECTOR, DETECTOR], values };
}

/** The bytes of a raw image. */
export function rawBytes({ values, ...header }) {
  let text = JSON.stringify(header);
  while (Buffer.byteLength(text) % 4 !== 0) text += ' ';
  const length = Buffer.alloc(4);
  length.writeUInt32LE(Buffer.byteLength(text));
  return Buffer.concat([length, Buffer.from(text), Buffer.from(values.buffer, values.byteOffset, values.byteLength)]);
}

// As files have it: counts know no NaN, so a hole is 0.
function npyBytes({ values: seen, shape }) {
  const values = seen.map((value) => (Number.isFinite(value) ? value : 0));
  let head = `{'descr': '<f4', 'fortran_order': False, 'shape': (${shape[0]}, ${shape[1]}), }`;
  head = head.padEnd(Math.ceil((head.length + 11) / 64) * 64 - 11) + '\n';
  const length = Buffer.alloc(2);
  length.writeUInt16LE(head.length);
  return Buffer.concat([Buffer.from('\x93NUMPY\x01\x00', 'latin1'), length, Buffer.from(head), Buffer.from(values.buffer)]);
}

// ---- HTTP ----------------------------------------------------------------------------------------------------------

async function answer(state, request, response) {
  const url = new URL(request.url, 'http://fake');
  const path = url.pathname;
  if (path === '/' || path.startsWith('/page/')) return sendPage(path, response);
  if (state.token && url.searchParams.get('token') !== state.token) return send(response, 401, { error: 'a token is needed' });
  if (path.startsWith('/fake/')) return command(state, path.slice(6), request, response);
  state.requests.push(`${request.method} ${request.url}`);
  if (path === '/healthz') return send(response, 200, 'ok', 'text/plain');
  if (path === '/api/v1/status') return send(response, 200, statusOf(state));
  if (path === '/api/v1/series') return send(response, 200, { series: state.series.map(told) });
  if (path === '/api/v1/series/current/reconstruct' && request.method === 'POST') return reconstruct(state, request, response);
  const [, which, name] = /^\/api\/v1\/series\/(\w+)\/images\/(\w+)$/.exec(path) ?? [];
  const series = which === 'current' ? state.series[0] : state.series.find(({ number }) => String(number) === which);
  const format = url.searchParams.get('format');
  const isStored = series?.folder && series.images.length === 0 && format !== 'raw';
  if (!series || !(series.images.includes(name) || isStored)) return send(response, 404, { error: `no image ${name} of series ${which}` });
  const made = image(series, name, url.searchParams);
  const whole = { name, missing: made.axes === 'scan' ? missingOf(series) : [], version: series.phase?.version ?? 0, ...made };
  if (format === 'raw') return send(response, 200, rawBytes(whole), 'application/octet-stream');
  if (format === 'npy') return send(response, 200, npyBytes(whole), 'application/octet-stream');
  return send(response, 501, { error: `the stand-in has no ${format}` });
}

async function reconstruct(state, request, response) {
  const parameters = { ...OPTICS, ...JSON.parse(await body(request)) };
  state.requests.push(`reconstruct ${JSON.stringify(parameters)}`);
  await new Promise((resolve) => setTimeout(resolve, 80));
  const made = image(state.series[0], 'phase', undefined, parameters);
  return send(response, 200, rawBytes({ name: 'phase', missing: [], version: state.series[0].phase?.version ?? 0, ...made }), 'application/octet-stream');
}

async function command(state, name, request, response) {
  if (name === 'next') beginSeries(state);
  if (name === 'hold') state.isHeld = !state.isHeld;
  if (name === 'set') state.over = JSON.parse(await body(request));
  if (name === 'drop') for (const socket of state.listeners) socket.destroy();
  const requests = name === 'requests' ? state.requests.splice(0) : [];
  broadcast(state);
  return send(response, 200, { requests });
}

async function body(request) {
  const parts = [];
  for await (const part of request) parts.push(part);
  return Buffer.concat(parts).toString() || '{}';
}

async function sendPage(path, response) {
  const name = path === '/' ? 'index.html' : path.slice(6);
  if (!/^[a-z_]+\.(html|css|js)$/.test(name)) return send(response, 404, { error: 'no such page' });
  const bytes = await readFile(new URL(name, PAGE)).catch(() => null);
  if (!bytes) return send(response, 404, { error: 'no such page' });
  // What a careful daemon says; a page that needs more would show here.
  response.setHeader('Content-Security-Policy', "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'");
  return send(response, 200, bytes, TYPES[name.split('.')[1]]);
}

function send(response, code, content, type = 'application/json') {
  const isBytes = Buffer.isBuffer(content) || typeof content === 'string';
  response.writeHead(code, { 'Content-Type': type, 'Cache-Control': 'no-store' });
  response.end(isBytes ? content : JSON.stringify(content));
}

// ---- events --------------------------------------------------------------------------------------------------------

function upgrade(state, request, socket) {
  const url = new URL(request.url, 'http://fake');
  if (url.pathname !== '/api/v1/events' || (state.token && url.searchParams.get('token') !== state.token)) return socket.destroy();
  const key = createHash('sha1').update(`${request.headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64');
  socket.write(`HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${key}\r\n\r\n`);
  state.listeners.add(socket);
  socket.on('close', () => state.listeners.delete(socket));
  socket.on('error', () => socket.destroy());
  // A close frame (opcode 8) of the page ends the stream; what else it sends is of no matter.
  socket.on('data', (bytes) => (bytes[0] & 15) === 8 && socket.end());
  socket.write(textFrame(JSON.stringify(statusOf(state))));
  return undefined;
}

function broadcast(state) {
  const frame = textFrame(JSON.stringify(statusOf(state)));
  for (const socket of state.listeners) socket.write(frame);
}

function textFrame(text) {
  const payload = Buffer.from(text);
  const head = payload.length < 126 ? Buffer.from([0x81, payload.length]) : Buffer.alloc(4);
  if (payload.length >= 126) {
    head.writeUInt16BE(0x817e);
    head.writeUInt16BE(payload.length, 2);
  }
  return Buffer.concat([head, payload]);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const flag = (name, plain) => (process.argv.includes(name) ? process.argv[process.argv.indexOf(name) + 1] : plain);
  const fake = await startFake({ port: Number(flag('--port', 8041)), rate: Number(flag('--rate', 1000)), scan: Number(flag('--scan', 64)), token: flag('--token', null) });
  console.log(`http://127.0.0.1:${fake.port}/`);
}
