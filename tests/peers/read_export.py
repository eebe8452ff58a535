"""Reads an exported set with a package that others have built, and compares every count with the acquisition it is of.

    read_export.py PACKAGE EXPORT_MASTER SOURCE_MASTER ROWS COLS

PACKAGE: h5py, py4DSTEM, libertem, rsciio or ncempy. Frames that the set lists as missing have to be zeros; all others have to be
those of the source, which h5py reads. Ends with 0 and a line when every count is the same.
"""

import importlib.metadata
import sys

import h5py
import hdf5plugin  # noqa: F401  the filters
import numpy as np


def datasets(file):
    """The image datasets that a master links to, in order."""
    group = file["/entry/data"]
    return [group[name] for name in sorted(group) if name.startswith("data_")]


def with_h5py(master, rows, cols):
    with h5py.File(master) as file:
        return np.concatenate([data[...] for data in datasets(file)])


def with_py4dstem(master, rows, cols):
    import py4DSTEM

    cube = py4DSTEM.import_file(master, scan_width=rows)  # tells by the name and the master that it is of an ARINA
    assert cube.shape[:2] == (rows, cols), cube.shape
    return cube.data


def with_libertem(master, rows, cols):
    # It has no reader of DECTRIS sets (the one of LiberTEM-live reads the stream): its HDF5 reader follows the master's links, a
    # dataset at a time. A set exported with --images-per-file N, N all frames, is one dataset.
    import libertem.api
    from libertem.udf.raw import PickUDF

    context = libertem.api.Context.make_with("inline")
    with h5py.File(master) as file:
        names = [(name, file["/entry/data"][name].shape) for name in sorted(file["/entry/data"])]
    parts = []
    for name, (frames, *detector) in names:
        scan = (rows, cols) if frames == rows * cols else (frames,)
        data = context.load("hdf5", path=master, ds_path=f"/entry/data/{name}", nav_shape=scan, sig_shape=detector)
        assert tuple(data.shape) == (*scan, *detector), data.shape
        picked = context.run_udf(dataset=data, udf=PickUDF(), roi=np.ones(scan, bool))
        parts.append(np.asarray(picked["intensity"].data))
    return np.concatenate(parts)


def with_rsciio(master, rows, cols):
    from rsciio.arina import file_reader

    return file_reader(master, navigation_shape=(rows, cols))[0]["data"]


def with_ncempy(master, rows, cols):
    from ncempy.io.dectris import fileDECTRIS

    with fileDECTRIS(master) as file:
        return file.getDataset(assume_shape=(rows, cols))["data"]


READERS = {
    "h5py": with_h5py,
    "py4DSTEM": with_py4dstem,
    "libertem": with_libertem,
    "rsciio": with_rsciio,
    "ncempy": with_ncempy,
}
DISTRIBUTIONS = {"rsciio": "rosettasciio"}


def main():
    package, export, source, rows, cols = sys.argv[1:]
    rows, cols = int(rows), int(cols)
    expected = with_h5py(source, rows, cols)
    assert len(expected) == rows * cols, expected.shape
    with h5py.File(export) as file:
        group = file.get("/entry/sideband/missing_frames")
        missing = [] if group is None else group[...].tolist()
    for first, end in missing:
        expected[first:end] = 0
    got = np.asarray(READERS[package](export, rows, cols))
    got = got.reshape(-1, *got.shape[-2:])
    assert got.shape == expected.shape, (got.shape, expected.shape)
    assert got.dtype.kind in "ui" or np.issubdtype(got.dtype, np.floating)
    wrong = np.flatnonzero((got != expected).any(axis=(1, 2)))
    assert not len(wrong), f"{len(wrong)} frames differ, the first is {wrong[0]}"
    version = importlib.metadata.version(DISTRIBUTIONS.get(package, package))
    holes = sum(end - first for first, end in missing)
    print(f"{package} {version}: {len(got)} frames identical, {holes} of them holes, {int(got.sum(dtype=np.uint64))} counts")


main()
