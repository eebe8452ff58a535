// The bright-field disk and the annular dark-field ring over a diffraction pattern, to be dragged.

import { drag, hit } from './rings.js';

const BF_COLOUR = '#58c4ff', ADF_COLOUR = '#ffb454';
const NEAR_CSS_PX = 7;
const CURSORS = { centre: 'move', bf_outer: 'ew-resize', adf_inner: 'ew-resize', adf_outer: 'ew-resize' };

/** Puts rings on `picture`. `geometry()` is the one now (or null); `onDrag(geometry)` when the pointer changed it. */
export function attachRings(picture, geometry, onDrag) {
  let held = null;
  const shown = () => (picture.image?.header.axes === 'detector' ? geometry() : null);

  const partUnder = (event) => {
    const rings = shown(), point = picture.pixelAt(event);
    if (!rings || !point) return null;
    return hit(rings, point, (NEAR_CSS_PX * picture.ratio) / picture.scale[1]);
  };

  picture.overlay = (context, _, ratio) => {
    const rings = shown();
    if (rings) drawRings(context, picture, rings, ratio, held?.part);
  };

  const { canvas } = picture;
  canvas.addEventListener('pointerdown', (event) => {
    const part = event.button === 0 ? partUnder(event) : null;
    if (!part) return;
    held = { part, from: picture.pixelAt(event), before: shown() };
    canvas.setPointerCapture(event.pointerId);
    event.preventDefault();
  });
  canvas.addEventListener('pointermove', (event) => {
    if (held) onDrag(drag(held.before, held.part, held.from, picture.pixelAt(event)));
    else canvas.style.cursor = CURSORS[partUnder(event)] ?? '';
  });
  const release = () => {
    held = null;
    picture.redraw();
  };
  canvas.addEventListener('pointerup', release);
  canvas.addEventListener('pointercancel', release);
}

function drawRings(context, picture, rings, ratio, held) {
  const [x, y] = picture.toCanvas(rings.centre), [scaleRow, scaleCol] = picture.scale;
  const ellipse = (limit) => {
    context.moveTo(x + limit * rings.radius * scaleCol, y);
    context.ellipse(x, y, limit * rings.radius * scaleCol, limit * rings.radius * scaleRow, 0, 0, 2 * Math.PI);
  };
  context.save();
  context.beginPath();
  context.rect(0, 0, picture.canvas.width, picture.canvas.height);
  context.clip();
  context.beginPath();
  ellipse(rings.adf.inner);
  ellipse(rings.adf.outer);
  context.fillStyle = 'rgba(255, 180, 84, 0.10)';
  context.fill('evenodd');
  const edges = [['bf_outer', BF_COLOUR, []], ['adf_inner', ADF_COLOUR, [5, 3]], ['adf_outer', ADF_COLOUR, [5, 3]]];
  for (const [part, colour, dash] of edges) {
    const [ring, side] = part.split('_');
    context.beginPath();
    context.setLineDash(dash.map((px) => px * ratio));
    ellipse(rings[ring][side]);
    context.strokeStyle = 'rgba(0, 0, 0, 0.6)';
    context.lineWidth = (held === part ? 5 : 3.5) * ratio;
    context.stroke();
    context.strokeStyle = colour;
    context.lineWidth = (held === part ? 3 : 1.5) * ratio;
    context.stroke();
  }
  context.setLineDash([]);
  context.strokeStyle = BF_COLOUR;
  context.lineWidth = (held === 'centre' ? 3 : 1.5) * ratio;
  context.beginPath();
  context.moveTo(x - 6 * ratio, y);
  context.lineTo(x + 6 * ratio, y);
  context.moveTo(x, y - 6 * ratio);
  context.lineTo(x, y + 6 * ratio);
  context.stroke();
  context.restore();
}
