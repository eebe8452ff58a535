// Contrast: which values are the darkest and the brightest colour.

/** Most values that are sorted for percentiles; of larger images every n-th is taken. */
const MOST_SORTED = 131072;

/** What an image begins with, in per cent of its values. */
export const DEFAULT_PERCENTILES = { low: 0.5, high: 99.5 };

/** The finite values (every n-th of a large image), ascending. */
export function sortedFinite(values, most = MOST_SORTED) {
  const stride = Math.max(1, Math.ceil(values.length / most));
  const taken = new Float32Array(Math.ceil(values.length / stride));
  let count = 0;
  for (let i = 0; i < values.length; i += stride) if (Number.isFinite(values[i])) taken[count++] = values[i];
  return taken.subarray(0, count).sort();
}

/** Value below which `percent` of `sorted` lie, on a straight line between neighbours; NaN of nothing. */
export function percentile(sorted, percent) {
  if (sorted.length === 0) return NaN;
  const place = (Math.min(Math.max(percent, 0), 100) / 100) * (sorted.length - 1);
  const below = Math.floor(place), above = Math.min(below + 1, sorted.length - 1);
  return sorted[below] + (place - below) * (sorted[above] - sorted[below]);
}

/** Per cent of `sorted` that lie below `value`, to a hundredth; what `percentile` undoes. */
export function rankOf(sorted, value) {
  if (sorted.length < 2) return 50;
  let below = 0, above = sorted.length;
  while (below < above) {
    const middle = (below + above) >> 1;
    if (sorted[middle] < value) below = middle + 1;
    else above = middle;
  }
  return Math.round(Math.min(below / (sorted.length - 1), 1) * 1e4) / 100;
}

/** Values between which a histogram is worth looking at: single hot pixels do not count. */
export function edges(sorted) {
  const low = percentile(sorted, 0.05), high = percentile(sorted, 99.95);
  const margin = 0.08 * (high - low) || 0.5;
  return [low - margin, high + margin];
}

/**
 * Values of the two ends of a colour map.
 *
 * A diverging map has its middle at the median, a cyclic one goes once round from -pi to pi (radians) and heeds no
 * percentile.
 */
export function limits(sorted, { low, high, map }, unit) {
  if (map === 'cyclic') {
    const period = unit === 'rad' ? 2 * Math.PI : percentile(sorted, high) - percentile(sorted, low) || 1;
    const start = unit === 'rad' ? -Math.PI : percentile(sorted, low);
    return { low: start, high: start + period, period };
  }
  const bottom = percentile(sorted, low), top = percentile(sorted, high);
  if (map !== 'diverging') return { low: bottom, high: top, period: null };
  const middle = percentile(sorted, 50);
  const reach = Math.max(top - middle, middle - bottom);
  return { low: middle - reach, high: middle + reach, period: null };
}

/** Percentiles for more (`factor` > 1) or less contrast: what is clipped at both ends grows by `factor`. */
export function stretched({ low, high }, factor) {
  const clip = (part) => Math.min(Math.max((part < 0.05 && factor > 1 ? 0.05 : part) * factor, 0), 45);
  const tidy = (part) => Math.round(part * 100) / 100;
  return { low: tidy(clip(low)), high: tidy(100 - clip(100 - high)) };
}

/** Counts of `sorted` in `bins` equal steps from `first` to `last`; what lies beyond is left out. */
export function histogram(sorted, bins, first, last) {
  const counts = new Uint32Array(bins);
  for (const value of sorted) {
    const bin = Math.floor(((value - first) / (last - first || 1)) * bins);
    if (bin >= 0 && (bin < bins || value === last)) counts[Math.min(bin, bins - 1)] += 1;
  }
  return counts;
}
