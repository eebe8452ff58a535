// The event stream of the daemon: status by WebSocket, tried again with back-off, watched for silence.

import { address, fetchJson } from './api.js';
import { parseRaw } from './raw.js';

const FIRST_WAIT_MILLIS = 500;
const LONGEST_WAIT_MILLIS = 10000;
const SILENCE_MILLIS = 5000;
const PATIENCE_MILLIS = 8000;

/** Wait before attempt `attempt` (1, 2, ...): doubles up to ten seconds; `chance` in 0..1 spreads many pages. */
export function backoffMillis(attempt, chance = Math.random()) {
  const wait = Math.min(FIRST_WAIT_MILLIS * 2 ** (attempt - 1), LONGEST_WAIT_MILLIS);
  return Math.round(wait * (0.8 + 0.4 * chance));
}

/** What tells the daemon that an image is wanted, and every newer one of it. */
export function subscription(id, number, name, ringQuery) {
  const ring = Object.fromEntries([...ringQuery].map(([key, value]) => [key, Number(value)]));
  return JSON.stringify({ subscribe: { id, series: number, name, ...ring } });
}

/**
 * Keeps a WebSocket to the daemon open. `onStatus(status)` for every status; `onImage(image)` for every image that was
 * subscribed to; `onLink(link)` when the link changes: {up: true} or {up: false, attempt, retryAt (ms of Date.now()) or
 * null while trying, reason}.
 */
export class Connection {
  #socket = null;
  #attempt = 0;
  #lastHeard = 0;
  #timer = null;
  #reason = 'connecting';
  #wanted = new Map();

  constructor({ onStatus, onImage, onLink }) {
    this.onStatus = onStatus;
    this.onImage = onImage;
    this.onLink = onLink;
    setInterval(() => this.#watch(), SILENCE_MILLIS);
  }

  /** Wants an image by this name of the page: the text is that of `subscription`. */
  subscribe(id, text) {
    if (this.#wanted.get(id) === text) return;
    this.#wanted.set(id, text);
    this.#say(text);
  }

  /** Wants no more of an image. */
  unsubscribe(id) {
    if (this.#wanted.delete(id)) this.#say(JSON.stringify({ unsubscribe: id }));
  }

  /** Whether an image is wanted. */
  wants(id) {
    return this.#wanted.has(id);
  }

  /** Names of the images that are wanted. */
  get wanted() {
    return [...this.#wanted.keys()];
  }

  #say(text) {
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(text);
  }

  /** Connects now, whatever the back-off says. */
  async connect() {
    clearTimeout(this.#timer);
    this.onLink({ up: false, attempt: this.#attempt, retryAt: null, reason: this.#reason });
    try {
      // The status code of a refused WebSocket is hidden from a page; a plain request tells "token needed" from "down".
      this.onStatus(await fetchJson('/api/v1/status', PATIENCE_MILLIS));
    } catch (error) {
      this.#again(error.status === 401 || error.status === 403 ? `${error.message}: add ?token=... to the address` : 'the daemon does not answer');
      return;
    }
    const url = new URL(address('/api/v1/events'), location.href);
    url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:';
    const socket = new WebSocket(url);
    socket.binaryType = 'arraybuffer';
    this.#socket = socket;
    const tooLong = setTimeout(() => socket.close(), PATIENCE_MILLIS);
    socket.onopen = () => {
      clearTimeout(tooLong);
      this.#attempt = 0;
      this.#lastHeard = Date.now();
      for (const text of this.#wanted.values()) socket.send(text);
      this.onLink({ up: true });
    };
    socket.onmessage = ({ data }) => {
      this.#lastHeard = Date.now();
      if (typeof data !== 'string') {
        const image = parseRaw(data);
        if (this.wants(image.header.subscription)) this.onImage(image);
        return;
      }
      const said = JSON.parse(data);
      if (said.error === undefined) this.onStatus(said);
      else console.warn(said.error);
    };
    socket.onclose = () => {
      clearTimeout(tooLong);
      if (this.#socket === socket) this.#again('the event stream was closed');
    };
  }

  #again(reason) {
    this.#socket = null;
    this.#attempt += 1;
    this.#reason = reason;
    const wait = backoffMillis(this.#attempt);
    this.onLink({ up: false, attempt: this.#attempt, retryAt: Date.now() + wait, reason });
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.connect(), wait);
  }

  // Silence is no proof of a dead link (nothing may have changed), an unanswered question is.
  async #watch() {
    const socket = this.#socket;
    if (socket?.readyState !== WebSocket.OPEN || Date.now() - this.#lastHeard < SILENCE_MILLIS) return;
    try {
      await fetch(address('/healthz'), { cache: 'no-store', signal: AbortSignal.timeout(SILENCE_MILLIS - 500) });
    } catch {
      if (this.#socket !== socket) return;
      socket.onclose = null;
      socket.close();
      this.#again('the daemon does not answer');
    }
  }
}
