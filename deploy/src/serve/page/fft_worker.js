// Power spectra away from the page's own thread. In: {id, values, rows, cols}. Out: {id, values, rows, cols}.

import { powerSpectrum } from './fft.js';

self.onmessage = ({ data: { id, values, rows, cols } }) => {
  const spectrum = powerSpectrum(values, rows, cols);
  self.postMessage({ id, ...spectrum }, [spectrum.values.buffer]);
};
