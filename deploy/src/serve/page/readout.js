// What the pointer is over, in words; and the image of a power spectrum with its axes.

import { length, quantity, significant } from './format.js';

/** Image of a power spectrum of `source`: its header names the axes in 1/nm (or 1 over whatever the source has). */
export function spectrumImage(source, spectrum) {
  const { header } = source;
  const step = header.pixel_size ?? [1, 1];
  const unit = header.pixel_size ? header.pixel_unit : 'px';
  return {
    ...spectrum,
    header: {
      name: 'fft',
      title: `Power spectrum of ${header.title}`,
      unit: 'log10 power',
      axes: 'fft',
      shape: [spectrum.rows, spectrum.cols],
      pixel_size: [1 / (spectrum.rows * step[0]), 1 / (spectrum.cols * step[1])],
      pixel_unit: `1/${unit}`,
      version: header.version,
      missing: [],
    },
  };
}

/** Position and value of pixel (`row`, `col`); `centre` [row, col] px is the beam of a detector image. */
export function readout(image, row, col, centre = null) {
  const { header, cols, values } = image;
  const value = values[row * cols + col];
  const place = `row ${row}, col ${col}`;
  const text = Number.isFinite(value) ? quantity(value, header.unit) : 'no frame here yet';
  const size = header.pixel_size;
  if (!size) return `(${place})  ${text}`;
  if (header.axes === 'fft') {
    const g = Math.hypot((row - image.rows / 2) * size[0], (col - cols / 2) * size[1]);
    const spacing = g > 0 && header.pixel_unit === '1/nm' ? `, d = ${length(1 / g, 'nm')}` : '';
    return `(${place})  |g| = ${significant(g)} ${header.pixel_unit}${spacing}  ${text}`;
  }
  if (header.axes === 'detector') {
    if (!centre) return `(${place})  ${text}`;
    const distance = Math.hypot((row - centre[0]) * size[0], (col - centre[1]) * size[1]);
    return `(${place})  ${significant(distance)} ${header.pixel_unit} from the centre  ${text}`;
  }
  return `(${place})  ${length(row * size[0], header.pixel_unit)}, ${length(col * size[1], header.pixel_unit)}  ${text}`;
}
