// The state of the daemon in words: pure functions of the status JSON.

import { bytes, count, significant } from './format.js';

const LOW_DISK_BYTES = 10e9;
const LOW_MEMORY_BYTES = 1e9;

/** {word, detail, part (0..1 or null), tone} for the large line. */
export function stateLine(status) {
  const { state, series, stream } = status;
  const word = state.toUpperCase();
  const tone = { failed: 'bad', partial: 'amber', complete: 'good', receiving: 'blue' }[state] ?? '';
  if (state === 'armed') return { word, detail: 'waiting for the first frame', part: null, tone: 'amber' };
  if (state === 'listening' || !series) return { word, detail: `for the detector at ${stream.address}`, part: null, tone };
  const { received, expected } = series.frames;
  return { word, detail: `${count(received)} of ${count(expected)} frames`, part: expected > 0 ? received / expected : null, tone };
}

/** [{term, value, tone, title}] for the figures beside it. */
export function figures(status) {
  const { series, recording, memory, stream } = status;
  const missing = series?.frames.missing ?? 0;
  const dropped = status.detector_dropped;
  return [
    { term: 'rate', value: series ? `${significant(series.frames_per_s, 3)} frames/s` : '–' },
    { term: 'missing', value: series ? `${count(missing)} frames` : '–', tone: missing > 0 ? 'bad' : '' },
    recordingFigure(recording),
    {
      term: memory.free_bytes === null ? 'memory' : `memory (${bytes(memory.free_bytes)} free)`,
      value: bytes(memory.resident_bytes),
      tone: memory.free_bytes !== null && memory.free_bytes < LOW_MEMORY_BYTES ? 'amber' : '',
      title: 'what the counts take in memory, and what is free on this machine',
    },
    {
      term: 'disk left',
      value: status.disk_free_bytes === null ? 'not known' : bytes(status.disk_free_bytes),
      tone: status.disk_free_bytes !== null && status.disk_free_bytes < LOW_DISK_BYTES ? 'bad' : '',
    },
    {
      term: 'detector dropped',
      value: dropped === null ? 'not known' : `${count(dropped)} frames`,
      tone: dropped > 0 ? 'bad' : '',
      title: 'frames that the detector itself says it could not send',
    },
    {
      term: 'stream',
      value: stream.connected ? 'connected' : 'not connected',
      tone: stream.connected ? 'good' : 'amber',
      title: `${stream.address}: ${count(stream.messages)} messages, ${bytes(stream.bytes)}; ${count(stream.connections)} connections, ${count(stream.failures)} failures`,
    },
  ];
}

function recordingFigure(recording) {
  if (recording === null) return { term: 'durable', value: 'not recorded', title: 'no recording is configured' };
  const title = `recording to ${recording.folder}`;
  if (recording.not_saved > 0 || recording.last_error) {
    const value = recording.not_saved > 0 ? `NOT SAVED: ${count(recording.not_saved)} messages` : 'NOT SAVED';
    return { term: 'durable', value, tone: 'bad', title: recording.last_error ?? title };
  }
  return { term: 'messages durable', value: `${count(recording.durable)} of ${count(recording.received)}`, title };
}

/** [{text, isBad}] of everything that should not be overlooked; `series` is the one shown. */
export function warnings(status, series) {
  const list = [];
  const say = (text, isBad = false) => text && list.push({ text, isBad });
  const { recording, stream } = status;
  if (recording && (recording.not_saved > 0 || recording.last_error)) {
    say(`NOT SAVED: ${count(recording.not_saved)} messages are not on disk${recording.last_error ? ` (${recording.last_error})` : ''}`, true);
  }
  if (recording?.removed_segments > 0) say(`${count(recording.removed_segments)} segments of the log were removed to keep within its quota`);
  if (series?.not_written) say(`results NOT WRITTEN: ${series.not_written}`, true);
  if (series?.export?.state === 'failed') say(`NOT EXPORTED: ${series.export.problem}`, true);
  if (series?.calibration?.text) say(series.calibration.text);
  for (const text of status.armed?.warnings ?? []) say(`next series: ${text}`);
  if (status.detector_dropped > 0) say(`the detector dropped ${count(status.detector_dropped)} messages`, true);
  if (series?.problem) say(`series ${series.number}: ${series.problem}`, true);
  for (const text of series?.warnings ?? []) if (!isSaid(text)) say(text);
  if (series) {
    const { late, doubled, corrupt } = series.frames;
    if (corrupt > 0) say(`${count(corrupt)} frames corrupt`, true);
    if (doubled > 0) say(`${count(doubled)} frames came twice`);
    if (late > 0) say(`${count(late)} frames came too late`);
  }
  if (stream.ring_full > 0) say(`the receiver's ring was full ${count(stream.ring_full)} times`);
  if (stream.garbage > 0) say(`${count(stream.garbage)} messages were not understood`);
  if (stream.last_error) say(`stream: ${stream.last_error}`);
  return list;
}

// What has a line of its own above.
const isSaid = (text) => text.startsWith('results NOT WRITTEN');

/** One line about a series: what was scanned with what. */
export function facts(series) {
  if (!series) return 'no series yet';
  const { optics } = series;
  const parts = [
    `series ${series.number}, id ${series.id}${series.channel ? `, ${series.channel}` : ''}`,
    `scan ${series.scan_shape.join(' × ')}`,
    `detector ${series.detector_shape?.join(' × ') ?? 'not known'} px`,
    series.count_type ?? 'count type not known',
  ];
  if (optics) {
    if (optics.voltage_kv !== null) parts.push(`${significant(optics.voltage_kv)} kV`);
    if (optics.semi_angle_mrad !== null) parts.push(`${significant(optics.semi_angle_mrad)} mrad`);
    if (optics.scan_step_nm) parts.push(`step ${optics.scan_step_nm.map((step) => significant(step, 3)).join(' × ')} nm`);
  }
  if (series.ending) parts.push(`ended: ${series.ending}`);
  return parts.join(' · ');
}

/** True while more frames or a better phase may come. */
export function isRunning(series) {
  return series?.state === 'receiving' || series?.state === 'reconstructing';
}

/** [{text, tone}] beside the phase. */
export function phaseBadges(phase, pixelsUsed = phase?.pixels_used) {
  if (!phase) return [];
  return [
    { text: phase.badge, tone: phase.badge === 'final' ? 'good' : 'amber' },
    { text: String(phase.device).toUpperCase(), tone: '' },
    { text: `${count(pixelsUsed)} BF pixels used`, tone: '' },
  ];
}
