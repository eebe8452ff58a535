"""Writes the counts of a DECTRIS filewriter set and its pixel mask as raw little-endian numbers: python h5py_counts.py MASTER.h5 COUNTS.u16 MASK.u32"""
import sys

import h5py
import numpy as np

from h5py_decode import blocks

master, counts, mask = sys.argv[1:]
with open(counts, "wb") as out:
    for block in blocks(master, 512):
        out.write(np.ascontiguousarray(block, "<u2").tobytes())
with h5py.File(master, "r") as h, open(mask, "wb") as out:
    out.write(np.ascontiguousarray(h["entry/instrument/detector/detectorSpecific/pixel_mask"][()], "<u4").tobytes())
