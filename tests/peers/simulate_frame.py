"""Recomputes frames of a simulated SrTiO3 set (one slice, one cell thick) in plain numpy: python simulate_frame.py FOLDER [NAME]

Shares nothing with the simulator but truth.json: complex128, in the scan's frame, a window twice as wide, no band limit, no fast transform on the
detector's side (every sample of a pixel is its own Fourier sum). Make the set with many electrons and wide counts, for instance

    sideband simulate --out FOLDER --scan-shape 3x3 --count-type u32 --electrons-per-frame 1e9

Prints, for every frame, chi squared a pixel of the counts about the numpy means (1 when they agree to within counting: 0.14 % a bright pixel at 1e9 electrons) inside the
disk and outside it, and the largest difference at its edge, where the two differ in how they sample the aperture. Exits 1 above 2, 2 and 3 % of the brightest pixel.
"""
import json
import math
import os
import sys

import h5py
import hdf5plugin  # noqa: F401
import numpy as np

CELL = 3.905  # angstrom, as every length below
SITES = [("Sr", 0, 0), ("Ti", .5, .5), ("O", .5, .5), ("O", .5, 0), ("O", 0, .5)]
CORNER = (0.13, -0.21)
# Peng, Ren, Dudarev, Whelan, Acta Cryst. A52 (1996) 257, table 1; Debye-Waller factor last.
PENG = {
    "Sr": ((0.6703, 1.4926, 3.3368, 4.4600, 3.1501), (0.3190, 2.2287, 10.3504, 52.3291, 151.2216), 0.62),
    "Ba": ((0.9049, 2.6076, 4.8498, 5.1603, 4.7388), (0.3066, 2.4363, 12.1821, 54.6135, 161.9978), 0.62),
    "Ti": ((0.3825, 1.2598, 2.0008, 3.0617, 2.0694), (0.3040, 2.4863, 9.2783, 39.0751, 109.4583), 0.44),
    "O": ((0.0974, 0.2921, 0.6910, 0.6990, 0.2039), (0.2067, 1.3815, 4.6943, 12.7105, 32.4726), 0.73),
}
SYMMETRY = {"C10": 0, "C12": 2, "C21": 1, "C23": 3, "C30": 0, "C32": 2, "C34": 4}


def atoms(truth, half):
    """(element, row, col) of all atoms within `half` of the scan's middle, defects applied."""
    changed = {}
    for defect in truth["defects"]:
        row, col, depth = defect["position_A"]
        kind = defect["kind"]
        # Two oxygen sites share a column with another atom: the depth tells which atom is meant.
        changed[(kind.split()[0].split("-")[0], round(row, 3), round(col, 3), round(depth, 2))] = "Ba" if kind.endswith("Ba") else None
    depths = (.25, .75, .25, .75, .75)
    cells = range(-math.ceil(half / CELL) - 1, math.ceil(half / CELL) + 2)
    for i in cells:
        for j in cells:
            for (element, r, c), depth in zip(SITES, depths):
                row, col = (i + CORNER[0] + r) * CELL, (j + CORNER[1] + c) * CELL
                element = changed.get((element, round(row, 3), round(col, 3), round(depth * CELL, 2)), element)
                if element:
                    yield element, row, col


def phase(truth, rows, cols):
    """Projected phase on the grid rows x cols, every Gaussian to its end."""
    gamma = 1 + truth["voltage_V"] / 510998.95
    out = np.zeros((len(rows), len(cols)))
    half = max(abs(rows).max(), abs(cols).max()) + 8
    places = {}
    for element, row, col in atoms(truth, half):
        places.setdefault(element, []).append((row, col))
    for element, found in places.items():
        found = np.array(found)
        for a, b in zip(*PENG[element][:2]):
            b += PENG[element][2]
            height = gamma * truth["wavelength_m"] * 1e10 * a * 4 * math.pi / b
            fall = 4 * math.pi ** 2 / b
            out += height * np.exp(-fall * (rows[:, None] - found[:, 0]) ** 2) @ np.exp(-fall * (found[:, 1, None] - cols) ** 2)
    return out


def probe(truth, row, col):
    """P at angles [rad] of the scan's frame."""
    alpha, turn = np.hypot(row, col), np.arctan2(col, row)
    chi = np.zeros_like(alpha)
    for name, m in SYMMETRY.items():
        n = int(name[1])
        angle = truth["aberrations"].get(f"phi{name[1:]}_scan_frame_rad", 0.0)
        chi += truth["aberrations"].get(name + "_m", 0.0) * alpha ** (n + 1) / (n + 1) * np.cos(m * (turn - angle))
    chi += truth["specimen_thickness_m"] / 2 * alpha ** 2 / 2  # to mid depth
    pitch = truth["detector_sampling_rad_per_px"] / truth["pixel_samples"]
    open_part = np.clip((truth["semiangle_rad"] - alpha) / pitch + 0.5, 0, 1)
    return open_part * np.exp(-2j * math.pi / truth["wavelength_m"] * chi)


def main():
    folder, name = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "simulated"
    truth = json.load(open(os.path.join(folder, "truth.json")))
    assert truth["specimen"] == "sto" and truth["n_slices"] == 1
    with h5py.File(os.path.join(folder, f"{name}_master.h5"), "r") as h:
        counts = np.concatenate([h["entry/data"][key][()] for key in sorted(h["entry/data"])])
        bad = h["entry/instrument/detector/detectorSpecific/pixel_mask"][()] != 0
    for pixel in truth["hot_pixels"]:
        bad[pixel["row"], pixel["col"]] = True
    wavelength, step = truth["wavelength_m"] * 1e10, truth["scan_step_m"] * 1e10
    pixel_rad, samples = truth["detector_sampling_rad_per_px"], truth["pixel_samples"]
    # The window: twice the simulator's; its reciprocal points lie a quarter of a sample off any round number.
    pitch = pixel_rad / samples / 2
    window = wavelength / pitch
    size = 2 * round(window / 0.085 / 2)
    dx = window / size
    indices = np.arange(-math.ceil(truth["semiangle_rad"] / pitch) - 2, math.ceil(truth["semiangle_rad"] / pitch) + 3)
    angles = (indices + 0.25) * pitch
    aperture = probe(truth, angles[:, None] + 0 * angles, angles + 0 * angles[:, None])
    # Detector pixels: each third one along both axes, all their samples.
    rows, cols = np.nonzero(~bad)
    chosen = (rows % 3 == 1) & (cols % 3 == 1)
    rows, cols = rows[chosen], cols[chosen]
    offsets = (np.arange(samples) + 0.5) / samples - 0.5
    det = np.stack(np.broadcast_arrays(rows[:, None, None] + offsets[:, None], cols[:, None, None] + offsets), -1)
    det = (det - truth["bf_centre_row_col_px"]) * pixel_rad
    if truth["transpose"]:
        det = det[..., ::-1]
    c, s = math.cos(truth["detector_to_scan_rotation_rad"]), math.sin(truth["detector_to_scan_rotation_rad"])
    k_row, k_col = ((c * det[..., 0] - s * det[..., 1]) / wavelength).ravel(), ((s * det[..., 0] + c * det[..., 1]) / wavelength).ravel()
    scan = truth["scan_shape"]
    bad_run = False
    for frame in range(len(counts)):
        at = [(frame // scan[1] - (scan[0] - 1) / 2) * step, (frame % scan[1] - (scan[1] - 1) / 2) * step]
        around = (np.arange(size) - size // 2) * dx
        r_row, r_col = at[0] + around, at[1] + around
        wave = np.exp(2j * math.pi / wavelength * np.outer(around, angles)) @ aperture @ np.exp(2j * math.pi / wavelength * np.outer(angles, around))
        wave /= np.sqrt((abs(wave) ** 2).sum() * dx * dx)
        wave *= np.exp(1j * phase(truth, r_row, r_col))
        half = np.exp(-2j * math.pi * np.outer(k_row, r_row)) @ wave
        amplitude = np.einsum("kc,kc->k", half, np.exp(-2j * math.pi * np.outer(k_col, r_col))) * dx * dx
        means = (abs(amplitude) ** 2).reshape(len(rows), -1).sum(1) * (pixel_rad / samples / wavelength) ** 2 * truth["dose_electrons_per_frame"]
        seen = counts[frame][rows, cols].astype(float)
        from_edge = np.hypot(*(np.stack([rows, cols], 1) - truth["bf_centre_row_col_px"]).T) - truth["bf_radius_px"]
        chi_squared = [((seen - means) ** 2 / means)[part].mean() for part in (from_edge < -2, from_edge > 2)]
        edge = abs(seen - means)[abs(from_edge) <= 2].max() / means.max()
        print(f"frame {frame}: chi squared a pixel {chi_squared[0]:.2f} in the bright field, {chi_squared[1]:.2f} outside; at the edge at most {edge:.4f} of the brightest pixel")
        bad_run |= not (chi_squared[0] < 2 and chi_squared[1] < 2 and edge < 0.03)
    sys.exit(bad_run)


if __name__ == "__main__":
    main()
