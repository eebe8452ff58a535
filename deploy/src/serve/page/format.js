// Numbers as text, each with its unit.

/** Whole number with thousands separators: 4,096. */
export function count(number) {
  return Number.isFinite(number) ? Math.round(number).toLocaleString('en-US') : '–';
}

/** Four significant digits; very large and very small ones with a power of ten. */
export function significant(number, digits = 4) {
  if (!Number.isFinite(number)) return 'not there';
  if (number === 0) return '0';
  const size = Math.abs(number);
  if (size >= 1e7 || size < 1e-4) return number.toExponential(digits - 1).replace('e+', 'e').replace('-', '−');
  const decimals = Math.max(0, digits - 1 - Math.floor(Math.log10(size)));
  return Number(number.toFixed(decimals)).toLocaleString('en-US', { maximumFractionDigits: 10 }).replace('-', '−');
}

/** Bytes in kB, MB, GB, TB of 10^3, 10^6, 10^9, 10^12. */
export function bytes(number) {
  if (!Number.isFinite(number)) return '–';
  const units = ['B', 'kB', 'MB', 'GB', 'TB', 'PB'];
  let size = Math.max(0, number), unit = 0;
  while (size >= 999.5 && unit < units.length - 1) {
    size /= 1000;
    unit += 1;
  }
  return `${unit === 0 ? size : Number(size.toPrecision(3))} ${units[unit]}`;
}

/** A length with its unit, small and large ones in pm and µm: 0.05 nm is 50 pm. */
export function length(number, unit) {
  if (unit === 'nm' && number >= 1000) return `${significant(number / 1000)} µm`;
  if (unit === 'nm' && number > 0 && number < 0.1) return `${significant(number * 1000)} pm`;
  return `${significant(number)} ${unit}`;
}

/** Quantity with unit; a pure number has none. */
export function quantity(number, unit) {
  const text = significant(number);
  return unit && unit !== '1' && Number.isFinite(number) ? `${text} ${unit}` : text;
}
