// The images by name, in the order of the number keys.

/** Name, key, short label, title, axes; and the unit, for files that do not tell theirs. */
export const IMAGES = [
  { name: 'bf', key: '1', label: 'BF', title: 'Bright field', axes: 'scan', unit: 'counts' },
  { name: 'adf', key: '2', label: 'ADF', title: 'Annular dark field', axes: 'scan', unit: 'counts' },
  { name: 'df', key: '3', label: 'DF', title: 'Dark field', axes: 'scan', unit: 'counts' },
  { name: 'com_row', key: '4', label: 'CoM row', title: 'Centre of mass, row', axes: 'scan', unit: 'px' },
  { name: 'com_col', key: '5', label: 'CoM col', title: 'Centre of mass, column', axes: 'scan', unit: 'px' },
  { name: 'frame_sum', key: '6', label: 'Sum', title: 'All counts of a frame', axes: 'scan', unit: 'counts' },
  { name: 'phase', key: '7', label: 'Phase', title: 'Phase, single sideband', axes: 'scan', unit: 'rad' },
  { name: 'amplitude', key: '8', label: 'Amplitude', title: 'Amplitude, single sideband', axes: 'scan', unit: 'arb. unit' },
  { name: 'mean_pattern', key: '9', label: 'Pattern', title: 'Mean diffraction pattern', axes: 'detector', unit: 'counts a position' },
  { name: 'fft', key: '0', label: 'FFT', title: 'Power spectrum', axes: 'fft', unit: 'log10 power' },
];

const OTHER_TITLES = { detector_total: 'Counts of a detector pixel, all frames', mean_phase: 'Mean phase, single sideband' };

/** Title of a name, also of one that is not shown but can be exported. */
export function titleOf(name) {
  return entryOf(name)?.title ?? OTHER_TITLES[name] ?? name;
}

/** Entry of a name; undefined for one this page does not show. */
export function entryOf(name) {
  return IMAGES.find((entry) => entry.name === name);
}

/** Names that can be asked for of a series: those it lists, or all that a result folder may have. */
export function namesOf(series) {
  if (!series) return [];
  if (series.images.length > 0) return series.images;
  return isStored(series) ? IMAGES.map(({ name }) => name).filter((name) => name !== 'fft') : [];
}

/** True when a series is out of the daemon's memory and its images lie in its result folder. */
export function isStored(series) {
  return series.images.length === 0 && series.folder !== null;
}

/** Header for an image of a stored series, of what the series itself tells. */
export function storedHeader(series, name, shape) {
  const { title, unit, axes } = entryOf(name) ?? { title: name, unit: '', axes: 'scan' };
  const size = axes === 'scan' ? series.optics?.scan_step_nm : series.bright_field?.sampling_mrad;
  return { name, title, unit, axes, shape, pixel_size: size ?? null, pixel_unit: !size ? 'px' : axes === 'scan' ? 'nm' : 'mrad', version: 0, missing: [] };
}
