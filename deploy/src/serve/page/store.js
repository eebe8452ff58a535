// The images the page holds, each refetched when its key changes: one request in flight each, newest wins.

import { LatestWins } from './latest.js';

const RETRY_MILLIS = 2000;

/** Shortest time between two refreshes of an image that came of themselves; a drag or a slider may go faster. */
export const REFRESH_MILLIS = 200;

/** Images by name. `onChange(name)` when one came, failed or began to load. */
export class ImageStore {
  #slots = new Map();
  #era = 0;

  constructor({ fetchImage, onChange }) {
    this.fetchImage = fetchImage;
    this.onChange = onChange;
  }

  /** {image, error, busy, key} of a name: `image` null before there is one, `key` what it was asked with. */
  get(name) {
    const slot = this.#slots.get(name);
    return { image: slot?.image ?? null, error: slot?.error ?? null, busy: slot?.latest.busy ?? false, key: slot?.shownKey ?? null };
  }

  /** Forgets every image: another series is shown; answers still under way are dropped. */
  clear() {
    this.#era += 1;
    const names = [...this.#slots.keys()];
    for (const slot of this.#slots.values()) slot.latest.forget();
    this.#slots.clear();
    for (const name of names) this.onChange(name);
  }

  /** Wants `request` ({key, path, query, parameters}) for `name`; nothing is asked while the key stays the same. */
  want(name, request, gapMillis = REFRESH_MILLIS) {
    const slot = this.#slot(name);
    if (slot.askedKey === request.key || Date.now() < slot.retryAt && slot.failedKey === request.key) return;
    slot.askedKey = request.key;
    // An image that takes the daemon long is refreshed less often: half of the time it is left in peace.
    slot.latest.ask(request, gapMillis < REFRESH_MILLIS ? gapMillis : Math.max(gapMillis, 2 * slot.latest.lastMillis));
    this.onChange(name);
  }

  /** Takes an image that came of itself; an answer that is under way is older. */
  put(name, image) {
    const slot = this.#slot(name);
    slot.latest.forget();
    slot.era += 1;
    slot.image = image;
    slot.error = slot.askedKey = slot.failedKey = slot.shownKey = null;
    this.onChange(name);
  }

  #slot(name) {
    if (!this.#slots.has(name)) {
      const era = this.#era;
      const slot = { image: null, error: null, askedKey: null, shownKey: null, failedKey: null, retryAt: 0, era: 0 };
      slot.latest = new LatestWins((request) => this.#load(name, slot, era, request));
      this.#slots.set(name, slot);
    }
    return this.#slots.get(name);
  }

  async #load(name, slot, era, request) {
    const ownEra = slot.era;
    try {
      const image = await this.fetchImage(request);
      if (era !== this.#era || ownEra !== slot.era) return;
      slot.image = image;
      slot.error = null;
      slot.shownKey = request.key;
    } catch (error) {
      if (era !== this.#era || ownEra !== slot.era) return;
      slot.error = error.message;
      slot.failedKey = request.key;
      slot.retryAt = Date.now() + RETRY_MILLIS;
      if (slot.askedKey === request.key) slot.askedKey = null;
    }
    // One turn later the run has ended and `busy` says so.
    setTimeout(() => era === this.#era && this.onChange(name));
  }
}
