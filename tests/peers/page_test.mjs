// Claims about the pure modules of the live page. Run: node --test tests/peers/page_test.mjs

import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { test } from 'node:test';

import { rawBytes } from './page_fake.mjs';

// The page's files are ES modules named .js with no package.json beside them; data addresses make node read them so.
const PAGE = new URL('../../deploy/src/serve/page/', import.meta.url);
const loaded = new Map();

async function load(name) {
  if (!loaded.has(name)) {
    let text = await readFile(new URL(name, PAGE), 'utf8');
    for (const [whole, other] of text.matchAll(/from '\.\/([a-z_]+\.js)'/g)) text = text.replaceAll(whole, `from '${(await load(other)).address}'`);
    const address = `data:text/javascript;base64,${Buffer.from(text).toString('base64')}`;
    loaded.set(name, { address, module: await import(address) });
  }
  return loaded.get(name);
}

const [raw, fft, colour, contrast, scaleBar, rings, format, latest, connection, python, readout, stateText, picture, api, npy, names, optics, recorded, store] = (
  await Promise.all(['raw', 'fft', 'colour', 'contrast', 'scale_bar', 'rings', 'format', 'latest', 'connection', 'python', 'readout', 'state_text', 'picture', 'api', 'npy', 'names', 'optics_panel', 'recorded_list', 'store'].map(async (name) => (await load(`${name}.js`)).module))
);

function bytesOf(header, values) {
  const buffer = rawBytes({ ...header, values: Float32Array.from(values) });
  return buffer.buffer.slice(buffer.byteOffset, buffer.byteOffset + buffer.byteLength);
}

// ---- raw images ----

test('a raw image comes back with its header, its shape and its holes', () => {
  const parsed = raw.parseRaw(bytesOf({ name: 'bf', unit: 'counts', shape: [2, 3] }, [1, 2, 3, NaN, 5, -6.5]));
  assert.equal(parsed.header.unit, 'counts');
  assert.deepEqual([parsed.rows, parsed.cols], [2, 3]);
  assert.deepEqual([...parsed.values], [1, 2, 3, NaN, 5, -6.5]);
});

test('an empty raw image has no values', () => {
  assert.equal(raw.parseRaw(bytesOf({ shape: [0, 7] }, [])).values.length, 0);
});

test('a raw image cut at any length is refused', () => {
  const whole = bytesOf({ shape: [2, 2] }, [1, 2, 3, 4]);
  for (let length = 0; length < whole.byteLength; length++) assert.throws(() => raw.parseRaw(whole.slice(0, length)), `at ${length}`);
});

test('a shape that is no shape, or is not that of the values, is refused', () => {
  for (const shape of [[2], [-1, -4], [1.5, 2], ['2', '2'], null, [4, 2]]) assert.throws(() => raw.parseRaw(bytesOf({ shape }, [1, 2, 3, 4])), /shape|expected/);
});

test('values that do not begin at a multiple of four are read all the same', () => {
  const text = '{"shape":[1,2]} ', bytes = new Uint8Array(4 + text.length + 1 + 8), view = new DataView(bytes.buffer);
  view.setUint32(0, text.length + 1, true);
  bytes.set(new TextEncoder().encode(`${text} `), 4);
  view.setFloat32(4 + text.length + 1, 1.5, true);
  view.setFloat32(4 + text.length + 5, -2, true);
  assert.deepEqual([...raw.parseRaw(bytes.buffer).values], [1.5, -2]);
});

// ---- numpy files ----

function npyOf(descr, shape, body) {
  const head = `{'descr': '${descr}', 'fortran_order': False, 'shape': (${shape.join(', ')}, ), }\n`;
  const bytes = new Uint8Array(10 + head.length + body.byteLength);
  bytes.set([0x93, ...new TextEncoder().encode('NUMPY'), 1, 0, head.length & 255, head.length >> 8]);
  bytes.set(new TextEncoder().encode(head), 10);
  bytes.set(new Uint8Array(body.buffer), 10 + head.length);
  return bytes.buffer;
}

test('numpy files of counts and of floats come back, cut ones and others do not', () => {
  const counts = npyOf('<u8', [2, 2], BigUint64Array.from([1n, 2n, 3n, 70000n]));
  assert.deepEqual([...npy.parseNpy(counts).values], [1, 2, 3, 70000]);
  assert.deepEqual([...npy.parseNpy(npyOf('<f8', [1, 2], Float64Array.from([0.5, NaN]))).values], [0.5, NaN]);
  assert.deepEqual(npy.parseNpy(npyOf('<f4', [1, 3], Float32Array.from([1, 2, 3]))).cols, 3);
  for (let length = 0; length < counts.byteLength; length++) assert.throws(() => npy.parseNpy(counts.slice(0, length)));
  assert.throws(() => npy.parseNpy(npyOf('<c8', [1, 1], new Float32Array(2))), /no image/);
  assert.throws(() => npy.parseNpy(npyOf('<f4', [4], new Float32Array(4))), /no image/);
});

test('a file of counts has its holes where the frame sums have none', () => {
  const image = { rows: 1, cols: 5, values: Float32Array.from([1, 0, 3, 0, 0]), header: { missing: [] } };
  const holed = npy.withHoles(image, { values: Float32Array.from([9, 9, 9, 0, 0]) });
  assert.deepEqual([...holed.values], [1, 0, 3, NaN, NaN]);
  assert.deepEqual(holed.header.missing, [[3, 5]]);
  assert.equal(image.values[3], 0);
});

test('a series out of memory is read from its folder, with the axes the series tells', () => {
  const series = { images: [], folder: '/r', optics: { scan_step_nm: [0.1, 0.2] }, bright_field: null };
  assert.ok(names.isStored(series) && names.namesOf(series).includes('phase'));
  assert.deepEqual(names.storedHeader(series, 'bf').pixel_size, [0.1, 0.2]);
  assert.equal(names.storedHeader(series, 'mean_pattern').pixel_unit, 'px');
  assert.deepEqual(names.namesOf({ images: [], folder: null }), []);
  assert.deepEqual(names.namesOf({ images: ['bf'], folder: '/r' }), ['bf']);
});

// ---- power spectrum ----

test('the FFT equals the sum of its definition at every power of two up to 64', () => {
  for (let length = 1; length <= 64; length *= 2) {
    const re = Float64Array.from({ length }, (_, i) => Math.sin(i * 1.7) + i / 9), im = Float64Array.from({ length }, (_, i) => Math.cos(i * 0.9));
    const outRe = re.slice(), outIm = im.slice();
    new fft.Fft(length).transform(outRe, outIm);
    for (let k = 0; k < length; k++) {
      let sumRe = 0, sumIm = 0;
      for (let j = 0; j < length; j++) {
        const angle = (-2 * Math.PI * j * k) / length;
        sumRe += re[j] * Math.cos(angle) - im[j] * Math.sin(angle);
        sumIm += re[j] * Math.sin(angle) + im[j] * Math.cos(angle);
      }
      assert.ok(Math.hypot(outRe[k] - sumRe, outIm[k] - sumIm) < 1e-10 * length, `length ${length}, k ${k}`);
    }
  }
  assert.throws(() => new fft.Fft(12));
});

test('a lattice has its spots at its own frequency, both sides of the middle', () => {
  const rows = 32, cols = 64, values = Float32Array.from({ length: rows * cols }, (_, i) => 7 + Math.cos((2 * Math.PI * 8 * (i % cols)) / cols));
  const { values: power, rows: outRows, cols: outCols } = fft.powerSpectrum(values, rows, cols);
  assert.deepEqual([outRows, outCols], [32, 64]);
  const brightest = power.indexOf(power.reduce((a, b) => Math.max(a, b)));
  assert.equal(Math.floor(brightest / 64), 16);
  assert.ok([24, 40].includes(brightest % 64));
  assert.ok(Math.abs(power[16 * 64 + 24] - power[16 * 64 + 40]) < 1e-4);
  assert.ok(power[16 * 64 + 32] < power[brightest] - 2, 'the mean is removed');
});

test('any size is padded, holes count as the mean, and one value everywhere is flat', () => {
  const holed = Float32Array.from({ length: 5 * 3 }, (_, i) => (i === 4 ? NaN : i));
  const spectrum = fft.powerSpectrum(holed, 5, 3);
  assert.deepEqual([spectrum.rows, spectrum.cols], [8, 4]);
  assert.ok(spectrum.values.every(Number.isFinite));
  assert.ok(fft.powerSpectrum(new Float32Array(12).fill(3), 3, 4).values.every((v) => v === 0));
  assert.equal(fft.powerSpectrum(new Float32Array(1), 1, 1).values.length, 1);
});

// ---- colours ----

test('every map has 256 colours, and all but the cyclic and the diverging one grow lighter', () => {
  const light = (table, i) => 0.2126 * table[3 * i] + 0.7152 * table[3 * i + 1] + 0.0722 * table[3 * i + 2];
  for (const name of colour.COLOUR_MAPS) {
    const table = colour.colourTable(name);
    assert.equal(table.length, 768);
    if (name === 'cyclic' || name === 'diverging') continue;
    for (let i = 1; i < 256; i++) assert.ok(light(table, i) >= light(table, i - 1) - 0.5, `${name} at ${i}`);
  }
});

test('the cyclic map ends where it begins, the diverging one is neutral in the middle', () => {
  const cyclic = colour.colourTable('cyclic'), diverging = colour.colourTable('diverging');
  assert.deepEqual([...cyclic.slice(0, 3)], [...cyclic.slice(765)]);
  const [red, green, blue] = diverging.slice(3 * 128, 3 * 128 + 3);
  assert.ok(Math.abs(red - green) < 4 && Math.abs(green - blue) < 4);
  assert.ok(diverging[2] > diverging[0] && diverging[765] > diverging[767]);
});

test('paint puts the ends at the ends, clips beyond them, and leaves holes clear', () => {
  const rgba = colour.paint([0, 1, -5, 9, NaN, 0.5], colour.colourTable('grey'), 0, 1);
  assert.deepEqual([0, 4, 8, 12].map((i) => rgba[i]), [0, 255, 0, 255]);
  assert.deepEqual([...rgba.slice(16, 20)], [0, 0, 0, 0]);
  assert.equal(rgba[20], 128);
  assert.equal(rgba[23], 255);
});

test('a cyclic phase is the same one turn on', () => {
  const table = colour.colourTable('cyclic');
  const here = colour.paint([1, -3], table, -Math.PI, Math.PI, 2 * Math.PI), on = colour.paint([1 + 2 * Math.PI, -3 - 2 * Math.PI], table, -Math.PI, Math.PI, 2 * Math.PI);
  for (let i = 0; i < 8; i++) assert.ok(Math.abs(here[i] - on[i]) <= 4);
});

// ---- contrast ----

test('percentiles are those of the finite values, on a line between neighbours', () => {
  const sorted = contrast.sortedFinite(Float32Array.from([3, NaN, 1, Infinity, 2, 4, 5]));
  assert.deepEqual([...sorted], [1, 2, 3, 4, 5]);
  assert.deepEqual([0, 25, 50, 90, 100, 400, -7].map((p) => contrast.percentile(sorted, p)), [1, 2, 3, 4.6, 5, 5, 1].map((v) => v));
  assert.ok(Number.isNaN(contrast.percentile(new Float32Array(0), 50)));
});

test('a large image is sampled evenly, a small one is not', () => {
  const values = Float32Array.from({ length: 1000 }, (_, i) => i);
  assert.equal(contrast.sortedFinite(values, 1000).length, 1000);
  const sample = contrast.sortedFinite(values, 100);
  assert.equal(sample.length, 100);
  assert.deepEqual([sample[0], sample[99]], [0, 990]);
});

test('a diverging map is centred on the median and reaches the farther end', () => {
  const sorted = Float32Array.from([-1, 0, 1, 2, 9]);
  assert.deepEqual(contrast.limits(sorted, { low: 0, high: 100, map: 'diverging' }, 'mrad'), { low: -7, high: 9, period: null });
  assert.deepEqual(contrast.limits(sorted, { low: 0, high: 100, map: 'grey' }, 'mrad'), { low: -1, high: 9, period: null });
  assert.equal(contrast.limits(sorted, { low: 0, high: 100, map: 'cyclic' }, 'rad').period, 2 * Math.PI);
});

test('more contrast clips more at both ends, less clips less, and neither crosses', () => {
  const more = contrast.stretched({ low: 0.5, high: 99.5 }, 1.5);
  assert.deepEqual(more, { low: 0.75, high: 99.25 });
  let now = { low: 0, high: 100 };
  for (let i = 0; i < 60; i++) now = contrast.stretched(now, 1.5);
  assert.deepEqual(now, { low: 45, high: 55 });
  for (let i = 0; i < 60; i++) now = contrast.stretched(now, 1 / 1.5);
  assert.ok(now.low < 0.1 && now.high > 99.9);
});

test('a histogram counts every value once', () => {
  const sorted = Float32Array.from([0, 0, 1, 2, 4]);
  assert.deepEqual([...contrast.histogram(sorted, 4, 0, 4)], [2, 1, 1, 1]);
  assert.deepEqual([...contrast.histogram(sorted, 2, 1, 3)], [1, 1]);
  assert.equal(contrast.histogram(Float32Array.from([3, 3]), 5, 3, 3).reduce((a, b) => a + b), 2);
});

test('the rank of a percentile is that percentile', () => {
  const sorted = Float32Array.from({ length: 2001 }, (_, i) => i * i);
  for (const percent of [0, 0.5, 12.5, 50, 99.5, 100]) assert.ok(Math.abs(contrast.rankOf(sorted, contrast.percentile(sorted, percent)) - percent) <= 0.06);
  assert.deepEqual([contrast.rankOf(sorted, -1), contrast.rankOf(sorted, 1e9)], [0, 100]);
});

test('a hot pixel does not make the histogram a line', () => {
  const sorted = Float32Array.from({ length: 10000 }, (_, i) => (i === 9999 ? 1e6 : i / 10000));
  const [low, high] = contrast.edges(sorted);
  assert.ok(low < 0 && low > -0.2 && high > 0.99 && high < 1.2, `${low} ${high}`);
  const [flatLow, flatHigh] = contrast.edges(Float32Array.from([5, 5, 5]));
  assert.ok(flatLow < 5 && flatHigh > 5);
});

// ---- scale bar ----

test('nice lengths are the largest of 1, 2, 5 times a power of ten that fit', () => {
  const nice = [[1, 1], [1.99, 1], [2, 2], [4.9, 2], [5, 5], [9.99, 5], [10, 10], [0.3, 0.2], [0.05, 0.05], [0.00099, 0.0005], [7300, 5000]];
  for (const [most, expected] of nice) assert.equal(scaleBar.niceLength(most), expected, `within ${most}`);
  for (const none of [0, -1, NaN, Infinity]) assert.equal(scaleBar.niceLength(none), 0);
});

test('a scale bar is as long on the screen as it says', () => {
  const bar = scaleBar.scaleBar(0.016, 'nm', 10, 260);
  assert.deepEqual([bar.length, bar.label], [0.2, '0.2 nm']);
  assert.ok(Math.abs(bar.screen - (0.2 / 0.016) * 10) < 1e-9);
  assert.equal(scaleBar.scaleBar(0.001, 'nm', 10, 260).label, '20 pm');
  assert.equal(scaleBar.scaleBar(undefined, 'nm', 10, 260), null);
});

// ---- rings ----

const FIELD = { centre_px: [40, 50], radius_px: 10, sampling_mrad: [2, 4] };

test('edges are hit within the tolerance, the nearest first, the disk by its inside', () => {
  const g = rings.geometryOf(FIELD);
  assert.equal(rings.hit(g, [40, 59], 1), 'bf_outer');
  assert.equal(rings.hit(g, [52.2, 50], 1), 'adf_inner');
  assert.equal(rings.hit(g, [40, 31.2], 1), 'adf_outer');
  assert.equal(rings.hit(g, [41, 51], 1), 'centre');
  assert.equal(rings.hit(g, [40, 65], 1), null);
  assert.equal(rings.hit(g, [40, 60.4], 9), 'bf_outer');
  assert.equal(rings.hit(g, [40, 60.6], 9), 'adf_inner');
  assert.equal(rings.geometryOf(null), null);
});

test('a small disk can still be moved by its middle when the tolerance covers it', () => {
  assert.equal(rings.hit(rings.geometryOf({ ...FIELD, radius_px: 3 }), [40.5, 50], 9), 'centre');
});

test('dragging an edge follows the pointer in R and never empties a ring', () => {
  const g = rings.geometryOf(FIELD);
  assert.equal(rings.drag(g, 'bf_outer', [0, 0], [40, 57]).bf.outer, 0.7);
  assert.ok(rings.drag(g, 'bf_outer', [0, 0], [40, 50]).bf.outer > 0);
  const crossed = rings.drag(g, 'adf_inner', [0, 0], [40, 90]).adf;
  assert.ok(crossed.inner < crossed.outer);
  const squeezed = rings.drag(g, 'adf_outer', [0, 0], [40, 51]).adf;
  assert.ok(squeezed.outer > squeezed.inner);
  assert.deepEqual(rings.drag(g, 'centre', [41, 50], [44, 49]).centre, [43, 49]);
  assert.deepEqual(g, rings.geometryOf(FIELD), 'the old geometry stays as it is');
});

test('the limits drawn are always asked for, the centre when it was moved', () => {
  const g = rings.geometryOf(FIELD);
  assert.equal(rings.ringQuery('bf', g, FIELD).toString(), 'inner=0&outer=0.9');
  assert.equal(rings.ringQuery('bf', null, FIELD).toString(), '');
  const smaller = rings.withLimit(g, 'bf_outer', 0.5);
  assert.equal(rings.ringQuery('bf', smaller, FIELD).toString(), 'inner=0&outer=0.5');
  assert.equal(rings.ringQuery('adf', smaller, FIELD).toString(), 'inner=1.2&outer=1.85');
  const moved = { ...g, centre: [41, 50] };
  assert.equal(rings.ringQuery('df', moved, FIELD).toString(), 'row=41&col=50');
  assert.equal(rings.ringQuery('phase', moved, FIELD).toString(), '');
  assert.deepEqual(rings.limitIn(g, 0.9, FIELD), { px: 9, mrad: 27 });
});

// ---- words ----

test('numbers keep four digits and bytes their unit', () => {
  assert.deepEqual([4096, 0, NaN].map(format.count), ['4,096', '0', '–']);
  assert.deepEqual([0, 1234.56, 0.0123456, -2.5, 1e9, 2e-6].map((v) => format.significant(v)), ['0', '1,235', '0.01235', '−2.5', '1.000e9', '2.000e−6']);
  assert.deepEqual([0, 999, 1000, 812e6, 999.9e6, 431e9].map(format.bytes), ['0 B', '999 B', '1 kB', '812 MB', '1 GB', '431 GB']);
  assert.deepEqual([format.length(0.05, 'nm'), format.length(2000, 'nm'), format.length(20, 'mrad')], ['50 pm', '2 µm', '20 mrad']);
});

const STATUS = {
  state: 'receiving',
  stream: { address: 'a:1', connected: true, connections: 1, failures: 0, messages: 9, bytes: 9, ring_full: 0, garbage: 0, last_error: null },
  recording: { folder: '/r', received: 9, durable: 7, not_saved: 0, last_error: null },
  series: { number: 1, frames: { expected: 4096, received: 2048, missing: 0, doubled: 0, late: 0, corrupt: 0 }, frames_per_s: 1000, warnings: [], problem: null },
  memory: { resident_bytes: 1e9, free_bytes: null }, disk_free_bytes: 5e11, detector_dropped: null,
};

function figure(status, term) {
  return stateText.figures(status).find((entry) => entry.term === term);
}

test('the state line counts frames, and says for what it waits', () => {
  assert.deepEqual(stateText.stateLine(STATUS), { word: 'RECEIVING', detail: '2,048 of 4,096 frames', part: 0.5, tone: 'blue' });
  assert.match(stateText.stateLine({ ...STATUS, state: 'listening', series: null }).detail, /a:1/);
});

test('what is not saved and what the detector dropped is red, no recorder is not', () => {
  assert.match(figure(STATUS, 'messages durable').value, /^7 of 9/);
  const lost = { ...STATUS, recording: { ...STATUS.recording, not_saved: 2 } };
  assert.match(figure(lost, 'durable').value, /^NOT SAVED/);
  assert.equal(figure(lost, 'durable').tone, 'bad');
  assert.match(stateText.warnings(lost, lost.series)[0].text, /NOT SAVED: 2/);
  assert.deepEqual([figure({ ...STATUS, recording: null }, 'durable')].map(({ value, tone }) => [value, tone]), [['not recorded', undefined]]);
  assert.equal(figure({ ...STATUS, detector_dropped: 1 }, 'detector dropped').tone, 'bad');
  assert.equal(figure({ ...STATUS, detector_dropped: 0 }, 'detector dropped').tone, '');
  assert.equal(figure(STATUS, 'detector dropped').value, 'not known');
});

test('the pointer reads position, value and unit, in a spectrum the spacing', () => {
  const source = { rows: 4, cols: 4, values: new Float32Array(16).fill(12.5), header: { title: 'BF', unit: 'counts', axes: 'scan', pixel_size: [0.2, 0.1], pixel_unit: 'nm' } };
  assert.equal(readout.readout(source, 2, 3), '(row 2, col 3)  0.4 nm, 0.3 nm  12.5 counts');
  source.values[0] = NaN;
  assert.match(readout.readout(source, 0, 0), /no frame here yet/);
  const spectrum = readout.spectrumImage(source, { rows: 4, cols: 4, values: new Float32Array(16) });
  assert.deepEqual(spectrum.header.pixel_size, [1 / 0.8, 1 / 0.4]);
  assert.match(readout.readout(spectrum, 3, 2), /\|g\| = 1\.25 1\/nm, d = 0\.8 nm/);
});

test('the Python lines name address, axes and parameters', () => {
  const header = { title: 'BF', unit: 'counts', axes: 'scan', shape: [2, 3], pixel_size: [0.2, 0.1], pixel_unit: 'nm' };
  const plain = python.pythonSnippet({ origin: 'http://h:1', path: '/p', query: new URLSearchParams({ format: 'npy' }), header });
  assert.match(plain, /http:\/\/h:1\/p\?format=npy/);
  assert.match(plain, /row_nm = np\.arange\(image\.shape\[0\]\) \* 0\.2 {2}# nm/);
  assert.doesNotMatch(plain, /token/);
  const holes = { ...header, missing: [[1, 2], [4, 6]] };
  const running = python.pythonSnippet({ origin: 'http://h:1', path: '/p', query: new URLSearchParams({ format: 'raw' }), header: holes });
  assert.doesNotMatch(running, /np\.load|start, end/, 'holes that may be filled by now are not written down');
  assert.match(running, /np\.frombuffer/);
  assert.ok(!python.isOlderThan(holes, { missing: 3 }) && python.isOlderThan(holes, { missing: 1 }));
  assert.ok(!python.isOlderThan({ axes: 'detector', missing: [] }, { missing: 3 }), 'an image of the detector has no holes');
  const posted = python.pythonSnippet({ origin: 'http://h:1', path: '/p', query: null, header, parameters: { c10_nm: -3 }, needsToken: true });
  assert.match(posted, /"c10_nm": -3/);
  assert.match(posted, /getpass/);
  assert.doesNotMatch(posted, /np\.load/);
});

// ---- asking ----

test('of many requests the first and the newest run, one at a time', async () => {
  const ran = [];
  let open = 0, most = 0;
  const queue = new latest.LatestWins(async (request) => {
    open += 1;
    most = Math.max(most, open);
    await new Promise((resolve) => setTimeout(resolve, 10));
    ran.push(request);
    open -= 1;
    if (request === 1) throw new Error('a failure does not stop the next');
  });
  for (let i = 1; i <= 9; i++) queue.ask(i);
  // The runs take 20 ms; a machine at work elsewhere may take its time.
  for (let turn = 0; turn < 200 && (ran.length < 2 || queue.busy); turn++) await new Promise((resolve) => setTimeout(resolve, 10));
  assert.deepEqual([ran, most, queue.busy], [[1, 9], 1, false]);
});

test('two refreshes keep their distance', async () => {
  const starts = [];
  const queue = new latest.LatestWins(async () => { starts.push(performance.now()); });
  queue.ask('a', 50);
  await new Promise((resolve) => setTimeout(resolve, 5));
  for (let i = 0; i < 5; i++) queue.ask('b', 50);
  await new Promise((resolve) => setTimeout(resolve, 100));
  assert.equal(starts.length, 2);
  assert.ok(starts[1] - starts[0] >= 48, `${starts[1] - starts[0]} ms`);
});

test('the back-off doubles up to ten seconds and spreads', () => {
  assert.deepEqual([1, 2, 3, 4, 5, 6, 40].map((attempt) => connection.backoffMillis(attempt, 0.5)), [500, 1000, 2000, 4000, 8000, 10000, 10000]);
  assert.equal(connection.backoffMillis(1, 0), 400);
  assert.equal(connection.backoffMillis(1, 1), 600);
});

test('the token goes with every address', () => {
  assert.equal(api.address('/a', new URLSearchParams({ format: 'raw' }), 'T&x'), '/a?format=raw&token=T%26x');
  assert.equal(api.address('/a', undefined, null), '/a');
});

test('a picture is as large as fits, whole and in the middle', () => {
  assert.deepEqual(picture.placement(200, 100, 10, 10), { x: 50, y: 0, scaleRow: 10, scaleCol: 10 });
  assert.deepEqual(picture.placement(100, 200, 10, 10, 2), { x: 0, y: 0, scaleRow: 20, scaleCol: 10 });
  assert.equal(picture.placement(100, 100, 0, 10), null);
});

test('the page is whole: under 200 kB, files under 500 lines, nothing from elsewhere, every import there', async () => {
  const names = await readdir(PAGE);
  let size = 0;
  for (const name of names) {
    const text = await readFile(new URL(name, PAGE), 'utf8');
    size += Buffer.byteLength(text);
    assert.ok(text.split('\n').length <= 500, name);
    assert.doesNotMatch(text, /https?:\/\/|@import|url\(/, name);
    for (const [, other] of text.matchAll(/(?:from '\.|'\/page|"\/page)\/([a-z_]+\.\w+)/g)) assert.ok(names.includes(other), `${name} asks for ${other}`);
  }
  assert.ok(size < 200_000, `${size} bytes`);
});

// ---- what can be changed ----

test('of the microscope what is new is asked for, and nonsense is refused by name', () => {
  const known = { voltage_kv: 300, semi_angle_mrad: null, scan_step_nm: [0.016, 0.017], rotation_deg: null };
  const texts = { voltage_kv: '300', semi_angle_mrad: ' 30 ', scan_step_nm: '0.016, 0.018', rotation_deg: '' };
  assert.deepEqual(optics.opticsBody(texts, known), { semi_angle_mrad: 30, scan_step_nm: [0.016, 0.018] });
  assert.equal(optics.opticsText([0.016, 0.016]), '0.016');
  assert.equal(optics.opticsText(null), '');
  for (const text of ['30 mrad', '1 2', 'x', '1,,2']) assert.throws(() => optics.opticsBody({ semi_angle_mrad: text }), /semi-convergence angle: got/, text);
});

test('a scan shape is rows by columns', () => {
  for (const text of ['64x48', ' 64 × 48 ', '64, 48']) assert.deepEqual(optics.geometryBody({ scan_shape: text }), { scan_shape: [64, 48] });
  assert.equal(optics.geometryBody({ scan_shape: ' ' }), null);
  for (const text of ['64', '0x3', '-1x3', 'axb', '1.5x2']) assert.throws(() => optics.geometryBody({ scan_shape: text }), /scan shape: got/, text);
});

test('of the scan only what is new is asked for, and what cannot be is refused in words', () => {
  const known = { scan_shape: [64, 48], scan_path: 'raster', frames_per_position: 1, flyback_frames: 0, skip_frames: 0 };
  const texts = optics.geometryTexts(known);
  assert.equal(optics.geometryBody(texts, known), null);
  const changed = { ...texts, scan_path: 'snake', flyback_frames: '16' };
  assert.deepEqual(optics.geometryBody(changed, known), { scan_path: 'snake', flyback_frames: 16 });
  assert.equal(optics.geometryTexts({ ...known, scan_shape: undefined }).scan_shape, '');
  for (const [key, text] of [['frames_per_position', '0'], ['flyback_frames', '-1'], ['skip_frames', '1.5'], ['skip_frames', 'x']]) {
    assert.throws(() => optics.geometryBody({ ...texts, [key]: text }, known), /got ".*", expected a whole number/, key);
  }
});

test('an image is subscribed to with its series and its ring', () => {
  const text = connection.subscription('bf', 3, 'bf', new URLSearchParams({ inner: '0', outer: '0.9' }));
  assert.deepEqual(JSON.parse(text), { subscribe: { id: 'bf', series: 3, name: 'bf', inner: 0, outer: 0.9 } });
});

test('an image that came of itself takes the place of an answer that is under way', async () => {
  let answer;
  const images = new store.ImageStore({ fetchImage: () => new Promise((resolve) => { answer = resolve; }), onChange: () => {} });
  images.want('phase', { key: 'own' }, 0);
  await new Promise((resolve) => setTimeout(resolve, 5));
  images.put('phase', 'sent');
  answer('late');
  await new Promise((resolve) => setTimeout(resolve, 5));
  assert.equal(images.get('phase').image, 'sent');
  images.want('phase', { key: 'own' }, 0);
  await new Promise((resolve) => setTimeout(resolve, 5));
  answer('asked again');
  await new Promise((resolve) => setTimeout(resolve, 5));
  assert.equal(images.get('phase').image, 'asked again');
});

test('what the log holds is told with how much of it is durable', () => {
  const entry = { label: '42', channel: null, state: 'unfinished', frames: { expected: 4096, durable: 4095 }, finish: null, export: { state: 'running' } };
  assert.equal(recorded.recordedText(entry), '42\nunfinished\n4,095 / 4,096');
  assert.match(recorded.recordedText({ ...entry, label: '42.2', channel: 'threshold_2' }), /^42\.2 threshold_2\n/);
  assert.equal(recorded.jobText('export', entry.export), 'export: at work');
  assert.equal(recorded.isBusy([entry]), true);
  assert.equal(recorded.isBusy([{ ...entry, export: { state: 'failed' } }]), false);
});

test('what is missing of the microscope, and results that are not on the disk, are said', () => {
  const series = { ...STATUS.series, calibration: { text: 'calibration unknown: voltage_kv' }, not_written: 'disk full', warnings: ['results NOT WRITTEN: disk full'] };
  const texts = stateText.warnings({ ...STATUS, series, armed: { warnings: ['no pixel mask'] } }, series).map(({ text }) => text);
  assert.equal(texts.filter((text) => text.startsWith('results NOT WRITTEN: disk full')).length, 1);
  assert.ok(texts.includes('calibration unknown: voltage_kv') && texts.includes('next series: no pixel mask'));
  assert.doesNotMatch(stateText.facts({ ...series, scan_shape: [1, 1], optics: { voltage_kv: null, semi_angle_mrad: null, scan_step_nm: null } }), /kV|null/);
});
