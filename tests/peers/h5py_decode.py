"""Reads every frame of a DECTRIS filewriter set with h5py + hdf5plugin, the way an analyst would: python h5py_decode.py MASTER.h5 [BLOCK [TOTALS.u64]]

Prints one JSON line: frames, seconds to open the files and decode every frame (blocks of BLOCK frames, thrown away), and the seconds of the same with the
detector total and the frame sums accumulated. TOTALS.u64 receives both, detector total first.
"""
import json
import os
import sys
import time

import h5py
import hdf5plugin  # noqa: F401  (registers filter 32008)
import numpy as np


def datasets(master):
    folder = os.path.dirname(os.path.abspath(master))
    with h5py.File(master, "r") as h:
        data = h["entry/data"]
        for key in sorted(data):
            link = data.get(key, getlink=True)
            yield os.path.join(folder, link.filename), link.path


def blocks(master, size):
    for path, name in datasets(master):
        with h5py.File(path, "r") as h:
            data = h[name]
            for first in range(0, data.shape[0], size):
                yield data[first : first + size]


def main():
    master, size = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 512
    start = time.perf_counter()
    frames = sum(len(block) for block in blocks(master, size))
    decode_s = time.perf_counter() - start
    start = time.perf_counter()
    total, sums = 0, []
    for block in blocks(master, size):
        total = total + block.sum(axis=0, dtype=np.uint64)
        sums.append(block.reshape(len(block), -1).sum(axis=1, dtype=np.uint64))
    totals_s = time.perf_counter() - start
    if len(sys.argv) > 3:
        np.concatenate([np.ravel(total), *sums]).astype("<u8").tofile(sys.argv[3])
    versions = dict(h5py=h5py.__version__, hdf5plugin=hdf5plugin.version)
    print(json.dumps(dict(frames=frames, decode_s=decode_s, decode_with_totals_s=totals_s, **versions)))


if __name__ == "__main__":
    main()
