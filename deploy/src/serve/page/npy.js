// numpy files of versions 1 to 3: how the daemon hands out the images of a series that is no longer in memory.

/** {rows, cols, values (single precision)} of a C-ordered, two-dimensional file of real numbers. */
export function parseNpy(buffer) {
  const bytes = new Uint8Array(buffer);
  const isNpy = bytes.length >= 12 && bytes[0] === 0x93 && String.fromCharCode(...bytes.subarray(1, 6)) === 'NUMPY';
  if (!isNpy) throw new Error('no .npy file');
  const view = new DataView(buffer);
  const first = bytes[6] === 1 ? 10 : 12;
  const headerBytes = bytes[6] === 1 ? view.getUint16(8, true) : view.getUint32(8, true);
  if (first + headerBytes > bytes.length) throw new Error('.npy: the header is cut off');
  const header = new TextDecoder().decode(bytes.subarray(first, first + headerBytes));
  const [, order, kind] = /'descr':\s*'([<>|=])([a-z]\d+)'/.exec(header) ?? [];
  const [, rows, cols] = (/'shape':\s*\((\d+),\s*(\d+),?\s*\)/.exec(header) ?? []).map(Number);
  if (!READERS[kind] || !(rows >= 0 && cols >= 0) || !/'fortran_order':\s*False/.test(header)) {
    throw new Error(`.npy: ${header.trim()} is no image that this page reads`);
  }
  const [size, read] = READERS[kind], start = first + headerBytes;
  if (bytes.length - start !== rows * cols * size) {
    throw new Error(`.npy: ${bytes.length - start} bytes of values, expected ${rows * cols * size} for ${rows} x ${cols}`);
  }
  const isLittle = order !== '>';
  return { rows, cols, values: Float32Array.from({ length: rows * cols }, (_, index) => read(view, start + index * size, isLittle)) };
}

/**
 * `image` with NaN where `frameSums` counted nothing: the files of a partial scan hold a number where no frame came, and
 * a frame without a single count is one that did not come. The header gets the runs, half-open.
 */
export function withHoles(image, frameSums) {
  if (frameSums.values.length !== image.values.length) return image;
  const values = image.values.slice(), missing = [];
  frameSums.values.forEach((sum, position) => {
    if (sum > 0) return;
    values[position] = NaN;
    if (missing.at(-1)?.[1] === position) missing.at(-1)[1] += 1;
    else missing.push([position, position + 1]);
  });
  return { ...image, values, header: { ...image.header, missing } };
}

const READERS = {
  f4: [4, (view, at, isLittle) => view.getFloat32(at, isLittle)],
  f8: [8, (view, at, isLittle) => view.getFloat64(at, isLittle)],
  u1: [1, (view, at) => view.getUint8(at)],
  u2: [2, (view, at, isLittle) => view.getUint16(at, isLittle)],
  u4: [4, (view, at, isLittle) => view.getUint32(at, isLittle)],
  u8: [8, (view, at, isLittle) => Number(view.getBigUint64(at, isLittle))],
  i4: [4, (view, at, isLittle) => view.getInt32(at, isLittle)],
  i8: [8, (view, at, isLittle) => Number(view.getBigInt64(at, isLittle))],
};
