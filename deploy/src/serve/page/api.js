// The HTTP API v1 of the daemon, with the token of the page's own address on every request.

import { parseNpy, withHoles } from './npy.js';
import { parseRaw } from './raw.js';

/** Longest wait for an answer, in ms; a reconstruction on a small machine takes seconds. */
const PATIENCE_MILLIS = 60000;

/** An address of the daemon with `query` and, where the page has one, the token. */
export function address(path, query = new URLSearchParams(), token = pageToken()) {
  const all = new URLSearchParams(query);
  if (token) all.set('token', token);
  const text = all.toString();
  return text ? `${path}?${text}` : path;
}

/** The token of the page's own address, or null. */
export function pageToken() {
  return globalThis.location ? new URLSearchParams(location.search).get('token') : null;
}

/** Path of an image of a series. */
export function imagePath(number, name) {
  return `/api/v1/series/${number}/images/${name}`;
}

/** Query for an image in `format`, with ring limits and centre where there are any. */
export function imageQuery(format, ringQuery = new URLSearchParams()) {
  const query = new URLSearchParams({ format });
  for (const [key, value] of ringQuery) query.set(key, value);
  return query;
}

/** A refusal of the daemon: its status code and its words. */
export class Refused extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

async function answered(url, init = {}) {
  const response = await fetch(url, { cache: 'no-store', signal: AbortSignal.timeout(PATIENCE_MILLIS), ...init });
  if (response.ok) return response;
  const text = await response.json().then((body) => body.error, () => null);
  throw new Refused(response.status, text ?? `the daemon answered ${response.status} ${response.statusText}`);
}

/** JSON at `path`; what takes longer than `patienceMillis` has failed. */
export async function fetchJson(path, patienceMillis = PATIENCE_MILLIS) {
  return (await answered(address(path), { signal: AbortSignal.timeout(patienceMillis) })).json();
}

async function sendJson(method, path, body) {
  const init = { method, headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) };
  return (await answered(address(path), init)).json();
}

/** Sets something of the daemon; gives what it is then. */
export function putJson(path, body) {
  return sendJson('PUT', path, body);
}

/** Asks the daemon for something that it does by and by; gives how far it is. */
export function postJson(path, body = {}) {
  return sendJson('POST', path, body);
}

/**
 * An image: raw by GET, raw by POST when `parameters` are given, or of a .npy file when its `header` is given; the holes
 * of a file are those of the frame sums at `sums`.
 */
export async function fetchImage({ path, query, parameters, header, sums }) {
  const init = parameters === undefined ? {} : {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(parameters),
  };
  const bytes = await (await answered(address(path, query), init)).arrayBuffer();
  if (header === undefined) return parseRaw(bytes);
  const file = parseNpy(bytes);
  const image = { ...file, header: { ...header, shape: [file.rows, file.cols] } };
  if (!sums) return image;
  return withHoles(image, parseNpy(await (await answered(address(sums, query))).arrayBuffer()));
}
