// Power spectrum of an image: mean removed, Hann window, zero-padded to powers of two, log10, zero frequency at
// (rows / 2, cols / 2).

/** Smallest power of two that is not below `length`, at least 1. */
export function nextPowerOfTwo(length) {
  let size = 1;
  while (size < length) size *= 2;
  return size;
}

/** Forward transform exp(-2 pi i j k / n), in place and not normalised, for one length (a power of two). */
export class Fft {
  constructor(length) {
    if (nextPowerOfTwo(length) !== length) throw new Error(`FFT of ${length} points, expected a power of two`);
    this.length = length;
    this.cos = Float64Array.from({ length: length / 2 }, (_, k) => Math.cos((2 * Math.PI * k) / length));
    this.sin = Float64Array.from({ length: length / 2 }, (_, k) => -Math.sin((2 * Math.PI * k) / length));
    this.reversed = new Uint32Array(length);
    for (let i = 1; i < length; i++) this.reversed[i] = (this.reversed[i >> 1] >> 1) | (i & 1 ? length >> 1 : 0);
  }

  transform(re, im) {
    const { length, reversed, cos, sin } = this;
    for (let i = 0; i < length; i++) {
      const j = reversed[i];
      if (i < j) {
        [re[i], re[j]] = [re[j], re[i]];
        [im[i], im[j]] = [im[j], im[i]];
      }
    }
    for (let half = 1; half < length; half *= 2) {
      const stride = length / (2 * half);
      for (let start = 0; start < length; start += 2 * half) {
        for (let k = 0; k < half; k++) {
          const a = start + k, b = a + half;
          const c = cos[k * stride], s = sin[k * stride];
          const bRe = re[b] * c - im[b] * s, bIm = re[b] * s + im[b] * c;
          re[b] = re[a] - bRe;
          im[b] = im[a] - bIm;
          re[a] += bRe;
          im[a] += bIm;
        }
      }
    }
  }
}

/** Hann window that is above zero at both ends, so that small images keep all their rows. */
export function hann(length) {
  return Float64Array.from({ length }, (_, i) => Math.sin((Math.PI * (i + 1)) / (length + 1)) ** 2);
}

/** log10 of the power of `values` (`rows` x `cols`); positions that are not finite count as the mean. */
export function powerSpectrum(values, rows, cols) {
  const outRows = nextPowerOfTwo(rows), outCols = nextPowerOfTwo(cols);
  const re = new Float64Array(outRows * outCols), im = new Float64Array(outRows * outCols);
  const mean = finiteMean(values);
  const rowWindow = hann(rows), colWindow = hann(cols);
  for (let r = 0; r < rows; r++) {
    for (let c = 0; c < cols; c++) {
      const value = values[r * cols + c];
      if (Number.isFinite(value)) re[r * outCols + c] = (value - mean) * rowWindow[r] * colWindow[c];
    }
  }
  const alongCols = new Fft(outCols), alongRows = new Fft(outRows);
  for (let r = 0; r < rows; r++) {
    alongCols.transform(re.subarray(r * outCols, (r + 1) * outCols), im.subarray(r * outCols, (r + 1) * outCols));
  }
  const colRe = new Float64Array(outRows), colIm = new Float64Array(outRows);
  const power = new Float64Array(outRows * outCols);
  let most = 0;
  for (let c = 0; c < outCols; c++) {
    for (let r = 0; r < outRows; r++) {
      colRe[r] = re[r * outCols + c];
      colIm[r] = im[r * outCols + c];
    }
    alongRows.transform(colRe, colIm);
    const outCol = (c + outCols / 2) % outCols | 0;
    for (let r = 0; r < outRows; r++) {
      const outRow = (r + outRows / 2) % outRows | 0;
      const p = colRe[r] * colRe[r] + colIm[r] * colIm[r];
      power[outRow * outCols + outCol] = p;
      if (p > most) most = p;
    }
  }
  // Twelve decades are more than f32 counts carry; below them is rounding, which would swallow the contrast.
  const least = most > 0 ? most * 1e-12 : 1;
  return { values: Float32Array.from(power, (p) => Math.log10(Math.max(p, least))), rows: outRows, cols: outCols };
}

function finiteMean(values) {
  let sum = 0, count = 0;
  for (const value of values) {
    if (Number.isFinite(value)) {
      sum += value;
      count += 1;
    }
  }
  return count > 0 ? sum / count : 0;
}
