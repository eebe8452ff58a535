// The images by name, in the order of the number keys.

/** Name, key, short label, kind of axes. */
export const IMAGES = [
  { name: 'bf', key: '1', label: 'BF', title: 'Bright field', axes: 'scan' },
  { name: 'adf', key: '2', label: 'ADF', title: 'Annular dark field', axes: 'scan' },
  { name: 'df', key: '3', label: 'DF', title: 'Dark field', axes: 'scan' },
  { name: 'com_row', key: '4', label: 'CoM row', title: 'Centre of mass, row', axes: 'scan' },
  { name: 'com_col', key: '5', label: 'CoM col', title: 'Centre of mass, column', axes: 'scan' },
  { name: 'frame_sum', key: '6', label: 'Frame sum', title: 'Sum of each frame', axes: 'scan' },
  { name: 'phase', key: '7', label: 'Phase', title: 'Phase, single sideband', axes: 'scan' },
  { name: 'amplitude', key: '8', label: 'Amplitude', title: 'Amplitude, single sideband', axes: 'scan' },
  { name: 'mean_pattern', key: '9', label: 'Mean pattern', title: 'Mean diffraction pattern', axes: 'detector' },
  { name: 'fft', key: '0', label: 'FFT', title: 'Power spectrum', axes: 'fft' },
];

/** Entry of a name; undefined for one this page does not show. */
export function entryOf(name) {
  return IMAGES.find((entry) => entry.name === name);
}
