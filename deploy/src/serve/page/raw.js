// Raw images: u32 LE length of the header, JSON header (space-padded), f32 LE values row-major, NaN where missing.

/** An image as the page holds it: `header` as sent, `rows` x `cols` values, row-major. */
export function parseRaw(buffer) {
  if (buffer.byteLength < 4) throw new Error(`raw image: got ${buffer.byteLength} bytes, expected at least 4`);
  const headerBytes = new DataView(buffer).getUint32(0, true);
  if (headerBytes > buffer.byteLength - 4) {
    throw new Error(`raw image: header of ${headerBytes} bytes, but only ${buffer.byteLength - 4} came`);
  }
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, headerBytes)));
  const [rows, cols] = Array.isArray(header.shape) ? header.shape : [];
  if (!isCount(rows) || !isCount(cols)) throw new Error('raw image: the header has no shape [rows, cols]');
  const first = 4 + headerBytes;
  if (buffer.byteLength - first !== rows * cols * 4) {
    throw new Error(`raw image: ${buffer.byteLength - first} bytes of values, expected ${rows * cols * 4} for ${rows} x ${cols}`);
  }
  return { header, rows, cols, values: floats(buffer, first, rows * cols) };
}

function isCount(number) {
  return Number.isSafeInteger(number) && number >= 0;
}

// A Float32Array must begin at a multiple of 4 bytes and reads in the order of the machine, little-endian wherever
// browsers run; anything else goes value by value.
function floats(buffer, first, length) {
  const isLittleEndian = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1;
  if (first % 4 === 0 && isLittleEndian) return new Float32Array(buffer, first, length);
  const view = new DataView(buffer);
  return Float32Array.from({ length }, (_, index) => view.getFloat32(first + 4 * index, true));
}
