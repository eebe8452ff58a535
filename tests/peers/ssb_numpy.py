"""Single-sideband ptychography in numpy, float64, the way its equations read: python ssb_numpy.py COUNTS.u8 PARAMETERS.json PHASE.f64

COUNTS are u8 [pixel][scan_row][scan_col]. Prints one JSON line with the seconds of the spectra and of the reconstruction. Where SIDEBAND_ORACLE names a file
with `spectra`, `Optics` and `reconstruct` of the same meaning, those are timed instead.
"""
import importlib.util
import json
import os
import sys
import time

import numpy as np


def chi(v_row, v_col, p):
    """(2 pi / lambda) sum C alpha^(n+1) cos(m (phi - phi_nm)) / (n + 1), v in 1/m."""
    alpha, phi = p["wavelength_m"] * np.hypot(v_row, v_col), np.arctan2(v_col, v_row)
    total = np.zeros(np.broadcast(v_row, v_col).shape)
    for n, m, size_m, angle_rad in p["aberrations"]:
        total += size_m * alpha ** (n + 1) / (n + 1) * np.cos(m * (phi - angle_rad))
    return 2 * np.pi / p["wavelength_m"] * total


def probe(v_row, v_col, p):
    """A exp(-i chi), A linear over one (square) detector pixel."""
    alpha = p["wavelength_m"] * np.hypot(v_row, v_col)
    aperture = np.clip((p["semiangle_rad"] - alpha) / p["sampling_rad"] + 0.5, 0, 1)
    return aperture * np.exp(-1j * chi(v_row, v_col, p))


def reconstruct(spectra, k, scan, p):
    """arg of the inverse transform of mean_k G conj(gamma) / max(|gamma|, 1e-8), over the full plane."""
    rows, cols = scan
    q_row, q_col = np.fft.fftfreq(rows, p["step_m"])[None, :, None], np.fft.fftfreq(cols, p["step_m"])[None, None, :]
    mirrored_rows, mirrored_cols = (-np.arange(rows)) % rows, cols - np.arange(cols // 2 + 1, cols)
    total = np.zeros(scan, complex)
    chunk = max(1, int(2e7 // (rows * cols)))
    for first in range(0, len(k), chunk):
        half = spectra[first : first + chunk]
        full = np.concatenate([half, np.conj(half[:, mirrored_rows][:, :, mirrored_cols])], axis=2)
        k_row, k_col = k[first : first + chunk, 0, None, None], k[first : first + chunk, 1, None, None]
        at_k = probe(k_row, k_col, p)
        gamma = probe(k_row - q_row, k_col - q_col, p) * np.conj(at_k) - at_k * np.conj(probe(k_row + q_row, k_col + q_col, p))
        total += (full * np.conj(gamma) / np.maximum(np.abs(gamma), 1e-8)).sum(0)
    total /= len(k)
    total[0, 0] = spectra[:, 0, 0].mean()
    return np.angle(np.fft.ifft2(total))


def main():
    counts_path, parameters_path, phase_path = sys.argv[1:]
    with open(parameters_path) as file:
        p = json.load(file)
    scan, k = tuple(p["scan"]), np.array(p["k_per_m"])
    images = np.fromfile(counts_path, np.uint8).reshape(len(k), *scan)
    oracle = os.environ.get("SIDEBAND_ORACLE")
    if oracle:
        spec = importlib.util.spec_from_file_location("oracle", oracle)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        frames = np.ascontiguousarray(images.reshape(len(k), -1).T)[:, None, :]
        start = time.perf_counter()
        spectra = module.spectra(lambda: [frames], np.zeros(len(k), int), np.arange(len(k)), scan)
        spectra_s = time.perf_counter() - start
        names = {(n, m): f"C{n}{m}" for n in range(1, 6) for m in range(7)}
        terms = {names[n, m]: size for n, m, size, _ in p["aberrations"]}
        terms |= {"phi" + names[n, m][1:]: angle for n, m, _, angle in p["aberrations"] if m}
        optics = module.Optics(p["voltage_v"], p["semiangle_rad"], p["step_m"], p["sampling_rad"], aberrations=terms)
        start = time.perf_counter()
        phase = module.reconstruct(spectra, k, scan, optics)["phase"]
    else:
        start = time.perf_counter()
        spectra = np.empty((len(k), scan[0], scan[1] // 2 + 1), complex)
        for first in range(0, len(k), 256):
            spectra[first : first + 256] = np.fft.rfft2(images[first : first + 256].astype(np.float64))
        spectra_s = time.perf_counter() - start
        start = time.perf_counter()
        phase = reconstruct(spectra, k, scan, p)
    reconstruct_s = time.perf_counter() - start
    phase.astype("<f8").tofile(phase_path)
    print(json.dumps(dict(spectra_s=spectra_s, reconstruct_s=reconstruct_s, code="oracle" if oracle else "ssb_numpy.py")))


if __name__ == "__main__":
    main()
