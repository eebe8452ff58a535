// Scale bars of nice lengths: 1, 2 or 5 times a power of ten.

import { length as lengthText } from './format.js';

/** Largest of 1, 2, 5 times a power of ten that is not above `most`; 0 if there is none. */
export function niceLength(most) {
  if (!(most > 0) || !Number.isFinite(most)) return 0;
  const exponent = Math.floor(Math.log10(most));
  // 10 ** -3 is not exactly 0.001; dividing by the power keeps short decimals exact.
  const times = (factor, power) => (power < 0 ? factor / 10 ** -power : factor * 10 ** power);
  for (const factor of [5, 2, 1]) if (times(factor, exponent) <= most * (1 + 1e-12)) return times(factor, exponent);
  return times(5, exponent - 1);
}

/**
 * Bar for an image whose pixels are `pixelSize` `unit` wide and drawn `screenPerPixel` wide: the longest nice one
 * within `most` screen pixels, or null.
 */
export function scaleBar(pixelSize, unit, screenPerPixel, most) {
  if (!(pixelSize > 0) || !(screenPerPixel > 0)) return null;
  const nice = niceLength((most / screenPerPixel) * pixelSize);
  if (nice === 0) return null;
  return { length: nice, screen: (nice / pixelSize) * screenPerPixel, label: lengthText(nice, unit) };
}
