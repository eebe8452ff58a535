// Colour maps: 256 colours each, from a few control points [position, red, green, blue], straight lines between.

const POINTS = {
  grey: [[0, 0, 0, 0], [1, 255, 255, 255]],
  lagoon: [[0, 34, 10, 62], [0.25, 52, 76, 136], [0.5, 30, 140, 140], [0.75, 110, 198, 92], [1, 252, 232, 66]],
  ember: [[0, 4, 2, 14], [0.3, 92, 18, 96], [0.6, 214, 62, 52], [0.85, 252, 170, 54], [1, 255, 250, 200]],
  diverging: [[0, 36, 80, 200], [0.5, 236, 236, 236], [1, 196, 44, 36]],
  cyclic: [[0, 228, 220, 228], [0.25, 90, 122, 196], [0.5, 44, 18, 54], [0.75, 184, 90, 74], [1, 228, 220, 228]],
};

/** Names of the maps, in the order in which the key c walks through them. */
export const COLOUR_MAPS = Object.keys(POINTS);

const tables = new Map();

/** 256 x (red, green, blue) of a map. */
export function colourTable(name) {
  if (!tables.has(name)) tables.set(name, tableFrom(POINTS[name] ?? POINTS.grey));
  return tables.get(name);
}

function tableFrom(points) {
  const table = new Uint8ClampedArray(256 * 3);
  for (let i = 0; i < 256; i++) {
    const position = i / 255;
    let upper = points.findIndex(([p]) => p >= position);
    if (upper < 1) upper = 1;
    const [from, ...low] = points[upper - 1], [to, ...high] = points[upper];
    const part = (position - from) / (to - from);
    for (let channel = 0; channel < 3; channel++) {
      table[3 * i + channel] = Math.round(low[channel] + part * (high[channel] - low[channel]));
    }
  }
  return table;
}

/** Map an image begins with. */
export function defaultMap(name) {
  if (name === 'com_row' || name === 'com_col') return 'diverging';
  if (name === 'mean_pattern' || name === 'fft') return 'ember';
  return 'grey';
}

/** RGBA bytes of `values`: transparent where not finite; round the circle of `period` from `low` when it is given. */
export function paint(values, table, low, high, period = null) {
  const rgba = new Uint8ClampedArray(values.length * 4);
  const scale = period === null ? 255 / (high > low ? high - low : 1) : 256 / period;
  for (let i = 0; i < values.length; i++) {
    const value = values[i];
    if (!Number.isFinite(value)) continue;
    let index = Math.floor((value - low) * scale + (period === null ? 0.5 : 0));
    if (period !== null) index = ((index % 256) + 256) % 256;
    else index = index < 0 ? 0 : index > 255 ? 255 : index;
    rgba[4 * i] = table[3 * index];
    rgba[4 * i + 1] = table[3 * index + 1];
    rgba[4 * i + 2] = table[3 * index + 2];
    rgba[4 * i + 3] = 255;
  }
  return rgba;
}
