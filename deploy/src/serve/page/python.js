// "Copy as Python": lines that load the image on the page into numpy, with its axes.

const MOST_RUNS = 200;

/** Lines for an image. `origin` scheme, host and port; `header` of the raw image; `centre` [row, col] px of the beam; `query` asks for npy or for raw. */
export function pythonSnippet({ origin, path, query, header, centre = null, parameters = null, needsToken = false, spectrum = false }) {
  const url = query?.toString() ? `${origin}${path}?${query}` : `${origin}${path}`;
  const isRaw = parameters !== null || query?.get('format') === 'raw';
  return [
    ...imports(needsToken, isRaw),
    '',
    ...(parameters ? posted(url, parameters, needsToken) : got(url, needsToken)),
    ...(isRaw ? rawLines() : ['    image = np.load(io.BytesIO(response.read()))']),
    `# image: ${header.title}, ${header.unit}, shape ${header.shape[0]} x ${header.shape[1]} (rows, cols)`,
    ...(isRaw ? ['# NaN where no frame is; counts above 2**24 are rounded'] : missingLines(header.missing ?? [])),
    ...axisLines(header, centre),
    ...(spectrum ? spectrumLines(header) : []),
    '',
  ].join('\n');
}

/** True when the holes of a scan image are not those of its series: it was made before the last frames came. */
export function isOlderThan({ axes, missing = [] }, frames) {
  return axes === 'scan' && missing.reduce((sum, [start, end]) => sum + end - start, 0) !== frames.missing;
}

function imports(needsToken, isRaw) {
  return [
    ...(needsToken ? ['import getpass'] : []),
    isRaw ? 'import json' : 'import io',
    ...(needsToken ? ['import os'] : []),
    'import urllib.request',
    '',
    'import numpy as np',
    ...(needsToken ? ['', 'token = os.environ.get("SIDEBAND_TOKEN") or getpass.getpass("sideband token: ")'] : []),
  ];
}

const BEARER = '"Authorization": f"Bearer {token}"';

function got(url, needsToken) {
  return [
    needsToken
      ? `request = urllib.request.Request("${url}", headers={${BEARER}})`
      : `request = urllib.request.Request("${url}")`,
    'with urllib.request.urlopen(request) as response:',
  ];
}

function posted(url, parameters, needsToken) {
  const values = Object.entries(parameters).map(([name, value]) => `"${name}": ${value}`).join(', ');
  return [
    `parameters = {${values}}`,
    'request = urllib.request.Request(',
    `    "${url}",`,
    '    data=json.dumps(parameters).encode(),',
    `    headers={"Content-Type": "application/json"${needsToken ? `, ${BEARER}` : ''}},`,
    ')',
    'with urllib.request.urlopen(request) as response:',
  ];
}

function rawLines() {
  return [
    '    raw = response.read()',
    'length = int.from_bytes(raw[:4], "little")',
    'header = json.loads(raw[4 : 4 + length])',
    'image = np.frombuffer(raw, "<f4", offset=4 + length).reshape(header["shape"])',
  ];
}

// Files of counts hold 0 where no frame came.
function missingLines(runs) {
  if (runs.length === 0) return [];
  if (runs.length > MOST_RUNS) return [`# ${runs.length} runs of positions have no frame: see "missing" in the header of format=raw`];
  return [
    'image = image.astype(float)',
    `for start, end in ${JSON.stringify(runs)}:  # positions without a frame`,
    '    image.flat[start:end] = np.nan',
  ];
}

function axisLines(header, centre) {
  const size = header.pixel_size;
  if (!size) return ['# the calibration is unknown: axes in px'];
  const unit = header.pixel_unit.replace('/', '_per_');
  const [row, col] = header.axes === 'detector' && centre ? centre.map((place) => Math.round(place * 1e4) / 1e4) : [0, 0];
  const offset = (place) => (place === 0 ? '' : ` - ${place}`);
  const axis = (index, place) => (place === 0 ? `np.arange(image.shape[${index}])` : `(np.arange(image.shape[${index}])${offset(place)})`);
  return [
    `row_${unit} = ${axis(0, row)} * ${size[0]}  # ${header.pixel_unit}${row ? ', 0 at the beam' : ''}`,
    `col_${unit} = ${axis(1, col)} * ${size[1]}  # ${header.pixel_unit}${col ? ', 0 at the beam' : ''}`,
  ];
}

function spectrumLines(header) {
  const size = header.pixel_size ?? [1, 1], unit = header.pixel_size ? header.pixel_unit : 'px';
  return [
    'filled = np.where(np.isfinite(image), image, np.nanmean(image)) - np.nanmean(image)',
    'window = np.hanning(image.shape[0] + 2)[1:-1, None] * np.hanning(image.shape[1] + 2)[None, 1:-1]',
    'power = np.abs(np.fft.fftshift(np.fft.fft2(filled * window))) ** 2',
    `g_row = np.fft.fftshift(np.fft.fftfreq(image.shape[0], ${size[0]}))  # 1/${unit}`,
    `g_col = np.fft.fftshift(np.fft.fftfreq(image.shape[1], ${size[1]}))  # 1/${unit}`,
  ];
}
