// One picture on a canvas: values as colours, nearest neighbour, sharp on any display; hatched where no frame came.

import { colourTable, paint } from './colour.js';
import { scaleBar } from './scale_bar.js';

const HATCH_DARK = '#1c2128', HATCH_LINE = '#4b5665';

/** Where an image of `rows` x `cols` pixels (`aspect` = height / width of one) lies in a canvas, in its pixels. */
export function placement(canvasWidth, canvasHeight, rows, cols, aspect = 1) {
  if (!(rows > 0 && cols > 0)) return null;
  const scaleCol = Math.min(canvasWidth / cols, canvasHeight / (rows * aspect));
  const scaleRow = scaleCol * aspect;
  return { x: (canvasWidth - cols * scaleCol) / 2, y: (canvasHeight - rows * scaleRow) / 2, scaleRow, scaleCol };
}

/** A canvas that shows an image. `onHover(row, col)` whole pixels, or `onHover(null)` when the pointer leaves. */
export class Picture {
  #canvas;
  #context;
  #image = null;
  #look = null;
  #message = '';
  #finalRows = null;
  #place = null;
  #ratio = 1;
  #drawAsked = false;
  #raster = null;
  /** Draws over the picture: (context, picture, ratio). */
  overlay = null;
  onHover = null;

  constructor(canvas) {
    this.#canvas = canvas;
    this.#context = canvas.getContext('2d');
    new ResizeObserver(() => this.redraw()).observe(canvas);
    canvas.addEventListener('pointermove', (event) => this.#hover(event));
    canvas.addEventListener('pointerleave', () => this.onHover?.(null));
  }

  get canvas() {
    return this.#canvas;
  }

  get image() {
    return this.#image;
  }

  /** Shows `image` with `look` {map, low, high, period}, or `message` without one; rows from `finalRows` on fade. */
  show(image, look, { message = '', finalRows = null } = {}) {
    if (image !== this.#image || look !== this.#look) this.#raster = null;
    this.#image = image;
    this.#look = look;
    this.#message = message;
    this.#finalRows = finalRows;
    this.redraw();
  }

  /** Draws with the next frame of the display, once however often it is asked. */
  redraw() {
    if (this.#drawAsked) return;
    this.#drawAsked = true;
    requestAnimationFrame(() => {
      this.#drawAsked = false;
      this.#draw();
    });
  }

  /** [row, col] in image pixels (centres at whole numbers) under a pointer, or null outside the canvas's image. */
  pixelAt(event) {
    if (!this.#place) return null;
    const box = this.#canvas.getBoundingClientRect();
    const x = (event.clientX - box.left) * this.#ratio, y = (event.clientY - box.top) * this.#ratio;
    return [(y - this.#place.y) / this.#place.scaleRow - 0.5, (x - this.#place.x) / this.#place.scaleCol - 0.5];
  }

  /** Canvas pixels [x, y] of [row, col]. */
  toCanvas([row, col]) {
    return [this.#place.x + (col + 0.5) * this.#place.scaleCol, this.#place.y + (row + 0.5) * this.#place.scaleRow];
  }

  /** Canvas pixels of one image pixel: [row, col]; css pixels of one are this over the display's ratio. */
  get scale() {
    return this.#place ? [this.#place.scaleRow, this.#place.scaleCol] : [1, 1];
  }

  get ratio() {
    return this.#ratio;
  }

  #hover(event) {
    const place = this.#image ? this.pixelAt(event) : null;
    if (!place) return;
    const [row, col] = place.map(Math.round);
    const isInside = row >= 0 && row < this.#image.rows && col >= 0 && col < this.#image.cols;
    this.onHover?.(isInside ? row : null, col);
  }

  #draw() {
    const canvas = this.#canvas, context = this.#context;
    this.#ratio = window.devicePixelRatio || 1;
    const width = Math.round(canvas.clientWidth * this.#ratio), height = Math.round(canvas.clientHeight * this.#ratio);
    if (width === 0 || height === 0) return;
    if (canvas.width !== width || canvas.height !== height) {
      canvas.width = width;
      canvas.height = height;
    }
    context.clearRect(0, 0, width, height);
    const image = this.#image;
    this.#place = image ? placement(width, height, image.rows, image.cols, aspectOf(image)) : null;
    if (!this.#place) {
      this.#drawMessage(width, height);
      return;
    }
    const { x, y, scaleRow, scaleCol } = this.#place;
    const wide = image.cols * scaleCol, high = image.rows * scaleRow;
    context.fillStyle = this.#hatch();
    context.fillRect(x, y, wide, high);
    context.imageSmoothingEnabled = false;
    context.drawImage(this.#rastered(), x, y, wide, high);
    this.#fadeUnsettled(x, y, wide, high, scaleRow);
    this.overlay?.(context, this, this.#ratio);
    this.#drawScaleBar(x, y, wide, high, scaleCol);
  }

  #rastered() {
    if (!this.#raster) {
      const { values, rows, cols } = this.#image, { map, low, high, period } = this.#look;
      this.#raster = document.createElement('canvas');
      this.#raster.width = cols;
      this.#raster.height = rows;
      const rgba = paint(values, colourTable(map), low, high, period);
      this.#raster.getContext('2d').putImageData(new ImageData(rgba, cols, rows), 0, 0);
    }
    return this.#raster;
  }

  #hatch() {
    const step = Math.max(4, Math.round(6 * this.#ratio));
    const tile = document.createElement('canvas');
    tile.width = tile.height = step;
    const context = tile.getContext('2d');
    context.fillStyle = HATCH_DARK;
    context.fillRect(0, 0, step, step);
    context.strokeStyle = HATCH_LINE;
    context.lineWidth = this.#ratio;
    context.beginPath();
    for (const shift of [-step, 0, step]) {
      context.moveTo(shift - 1, step + 1);
      context.lineTo(shift + step + 1, -1);
    }
    context.stroke();
    return this.#context.createPattern(tile, 'repeat');
  }

  // Rows the scan has not left far enough behind: seen, but not yet final.
  #fadeUnsettled(x, y, wide, high, scaleRow) {
    const rows = this.#finalRows;
    if (rows === null || rows >= this.#image.rows) return;
    const top = y + rows * scaleRow;
    this.#context.fillStyle = 'rgba(16, 20, 26, 0.5)';
    this.#context.fillRect(x, top, wide, y + high - top);
    this.#context.fillStyle = '#e3b341';
    this.#context.fillRect(x, top - this.#ratio / 2, wide, this.#ratio);
  }

  #drawScaleBar(x, y, wide, high, scaleCol) {
    const { header } = this.#image, context = this.#context, ratio = this.#ratio;
    const bar = scaleBar(header.pixel_size?.[1], header.pixel_unit, scaleCol, 0.4 * wide);
    if (!bar) return;
    context.font = `600 ${12 * ratio}px system-ui, sans-serif`;
    const text = context.measureText(bar.label).width;
    const pad = 5 * ratio, boxWide = Math.max(text, bar.screen) + 2 * pad, boxHigh = 26 * ratio;
    const left = x + 6 * ratio, top = y + high - boxHigh - 6 * ratio;
    context.fillStyle = 'rgba(10, 13, 17, 0.72)';
    context.fillRect(left, top, boxWide, boxHigh);
    context.fillStyle = '#ffffff';
    context.fillRect(left + (boxWide - bar.screen) / 2, top + boxHigh - 7 * ratio, bar.screen, 3 * ratio);
    context.textAlign = 'center';
    context.textBaseline = 'top';
    context.fillText(bar.label, left + boxWide / 2, top + 3 * ratio);
  }

  #drawMessage(width, height) {
    const context = this.#context;
    context.fillStyle = '#8b95a1';
    context.font = `${13 * this.#ratio}px system-ui, sans-serif`;
    context.textAlign = 'center';
    context.textBaseline = 'middle';
    const lines = wrapped(context, this.#message, width - 16 * this.#ratio);
    lines.forEach((line, index) => {
      context.fillText(line, width / 2, height / 2 + (index - (lines.length - 1) / 2) * 18 * this.#ratio);
    });
  }
}

function wrapped(context, text, width) {
  const lines = [''];
  for (const word of text.split(' ')) {
    const longer = `${lines.at(-1)} ${word}`.trim();
    if (context.measureText(longer).width <= width) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines.filter((line) => line !== '');
}

// Height over width of one pixel; a nonsense calibration must not make a picture vanish.
function aspectOf({ header, rows, cols }) {
  const size = header.pixel_size;
  if (!size || !(size[0] > 0 && size[1] > 0)) return 1;
  const aspect = size[0] / size[1];
  return rows > 0 && cols > 0 && aspect >= 0.2 && aspect <= 5 ? aspect : 1;
}
