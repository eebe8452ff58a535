// Virtual detectors: rings about the beam centre, limits in units of the bright-field radius R.
//
// A geometry is {centre: [row, col] px, radius: px, bf: {inner, outer}, adf: {inner, outer}}; pixel centres lie at
// whole numbers. Every function gives a new geometry back and leaves the old one as it is.

/** Limits a run begins with. */
export const DEFAULT_RINGS = { bf: { inner: 0, outer: 0.9 }, adf: { inner: 1.2, outer: 1.85 } };

const THINNEST = 0.02;
const FARTHEST = 20;

/** Geometry of a series, with what the user changed; null without a bright field. */
export function geometryOf(brightField, rings = DEFAULT_RINGS, centre = null) {
  if (!brightField || !(brightField.radius_px > 0)) return null;
  return { centre: centre ?? brightField.centre_px, radius: brightField.radius_px, bf: { ...rings.bf }, adf: { ...rings.adf } };
}

/** Part under `point` [row, col] px: an edge within `tolerance` px (the nearest), else the disk by its inside. */
export function hit(geometry, point, tolerance) {
  const distance = Math.hypot(point[0] - geometry.centre[0], point[1] - geometry.centre[1]);
  const edges = [
    ['bf_outer', geometry.bf.outer],
    ['adf_inner', geometry.adf.inner],
    ['adf_outer', geometry.adf.outer],
  ].map(([part, limit]) => [part, Math.abs(distance - limit * geometry.radius)]);
  edges.sort((one, other) => one[1] - other[1]);
  // A disk of a few pixels would be all edge: the middle half of it always moves the centre.
  if (distance < 0.5 * geometry.bf.outer * geometry.radius) return 'centre';
  if (edges[0][1] <= tolerance) return edges[0][0];
  return distance < geometry.bf.outer * geometry.radius ? 'centre' : null;
}

/** Geometry after `part` was dragged from `from` to `to` ([row, col] px); edges follow the pointer's radius. */
export function drag(geometry, part, from, to) {
  if (part === 'centre') {
    const [row, col] = geometry.centre;
    return { ...geometry, centre: [row + to[0] - from[0], col + to[1] - from[1]] };
  }
  return withLimit(geometry, part, Math.hypot(to[0] - geometry.centre[0], to[1] - geometry.centre[1]) / geometry.radius);
}

/** Geometry with one limit set, in R, kept so that no ring is empty. */
export function withLimit(geometry, part, limit) {
  const { bf, adf } = geometry;
  const within = (least, most) => Math.min(Math.max(limit, least), most);
  if (part === 'bf_outer') return { ...geometry, bf: { ...bf, outer: within(bf.inner + THINNEST, FARTHEST) } };
  if (part === 'adf_inner') return { ...geometry, adf: { ...adf, inner: within(0, adf.outer - THINNEST) } };
  if (part === 'adf_outer') return { ...geometry, adf: { ...adf, outer: within(adf.inner + THINNEST, FARTHEST) } };
  return geometry;
}

/**
 * Query of an image for this geometry. The limits are always named, so that the picture has the rings that are drawn
 * whatever the daemon's own are; the centre only where it was moved, as the daemon's may still be refined.
 */
export function ringQuery(name, geometry, brightField) {
  const query = new URLSearchParams();
  if (!geometry || !['bf', 'adf', 'df'].includes(name)) return query;
  const ring = geometry[name];
  if (ring) {
    query.set('inner', short(ring.inner));
    query.set('outer', short(ring.outer));
  }
  if (geometry.centre.some((place, axis) => place !== brightField.centre_px[axis])) {
    query.set('row', short(geometry.centre[0]));
    query.set('col', short(geometry.centre[1]));
  }
  return query;
}

/** A limit in px and, where the sampling is known, in mrad. */
export function limitIn(geometry, limit, brightField) {
  const px = limit * geometry.radius;
  const sampling = brightField?.sampling_mrad;
  return { px, mrad: sampling ? px * 0.5 * (sampling[0] + sampling[1]) : null };
}

function short(number) {
  return String(Math.round(number * 1e4) / 1e4);
}
