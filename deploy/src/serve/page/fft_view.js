// Power spectra of the chosen image, in a worker, newest first.

import { powerSpectrum } from './fft.js';
import { LatestWins } from './latest.js';
import { spectrumImage } from './readout.js';

/** Largest image that is transformed on the page's own thread where there is no worker. */
const MOST_WITHOUT_WORKER = 1024 * 1024;

/** Holds the spectrum of one image at a time. `onSpectrum()` when a new one is there. */
export class FftView {
  #worker = null;
  #latest = new LatestWins((source) => this.#transform(source));
  #asked = null;
  #waiting = null;
  #era = 0;
  image = null;

  constructor(onSpectrum) {
    this.onSpectrum = onSpectrum;
    try {
      this.#worker = new Worker('/page/fft_worker.js', { type: 'module' });
      this.#worker.onmessage = ({ data }) => this.#waiting?.resolve(data);
      this.#worker.onerror = () => {
        this.#worker = null;
        this.#waiting?.resolve(null);
      };
    } catch {
      this.#worker = null;
    }
  }

  /** Wants the spectrum of `source` (null: of nothing). */
  want(source) {
    if (source === this.#asked) return;
    this.#asked = source;
    if (source === null) {
      this.#latest.forget();
      this.#era += 1;
      this.image = null;
    } else {
      this.#latest.ask(source);
    }
  }

  async #transform(source) {
    const { values, rows, cols } = source;
    const era = this.#era;
    let spectrum = null;
    if (this.#worker) {
      const answer = new Promise((resolve) => { this.#waiting = { resolve }; });
      this.#worker.postMessage({ id: 0, values, rows, cols });
      spectrum = await answer;
    }
    if (spectrum === null && rows * cols <= MOST_WITHOUT_WORKER) spectrum = powerSpectrum(values, rows, cols);
    if (spectrum === null || era !== this.#era) return;
    this.image = spectrumImage(source, spectrum);
    this.onSpectrum();
  }
}
