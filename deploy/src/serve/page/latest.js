// Latest wins: never more than one run at a time, and of all that was asked meanwhile only the newest comes next.

/** Runs `run(request)` (a promise) for the newest request, one at a time. */
export class LatestWins {
  #run;
  #next;
  #hasNext = false;
  #gapMillis = 0;
  #timer = null;
  #lastStart = -Infinity;
  busy = false;
  /** How long the last run took, in ms. */
  lastMillis = 0;

  constructor(run) {
    this.#run = run;
  }

  /** Asks for `request`, to begin no sooner than `gapMillis` after the last one began. */
  ask(request, gapMillis = 0) {
    this.#next = request;
    this.#hasNext = true;
    this.#gapMillis = gapMillis;
    clearTimeout(this.#timer);
    this.#timer = null;
    this.#begin();
  }

  /** Forgets what was asked and not begun. */
  forget() {
    clearTimeout(this.#timer);
    this.#timer = null;
    this.#next = undefined;
    this.#hasNext = false;
  }

  #begin() {
    if (this.busy || !this.#hasNext) return;
    const wait = this.#lastStart + this.#gapMillis - performance.now();
    if (wait > 0) {
      this.#timer = setTimeout(() => this.#begin(), wait);
      return;
    }
    const request = this.#next;
    this.forget();
    this.#lastStart = performance.now();
    this.busy = true;
    Promise.resolve()
      .then(() => this.#run(request))
      .catch(() => {})
      .finally(() => {
        this.busy = false;
        this.lastMillis = performance.now() - this.#lastStart;
        this.#begin();
      });
  }
}
