"""Reads a series of stream v1 with the published libertem-dectris, and compares it with the set that was replayed.

    stream_v1_libertem.py tcp://HOST:PORT MASTER

Ends with 0 when every frame has the counts that h5py reads.
"""

import os
import sys
import tempfile
import time

import h5py
import hdf5plugin  # noqa: F401: registers the filters
import libertem_dectris
import numpy as np

STACK = 32


def frames(master):
    """All frames of a set, decoded."""
    with h5py.File(master) as file:
        group = file["/entry/data"]
        names = sorted(name for name in group if name.startswith("data"))
        return np.concatenate([group[name][()] for name in names])


def main():
    address, master = sys.argv[1:]
    expected = frames(master)
    handle = os.path.join(tempfile.mkdtemp(), "shm")
    connection = libertem_dectris.DectrisConnection(
        address, STACK, handle, num_slots=512, bytes_per_frame=16384, huge=False
    )
    connection.start_passive()
    print("ready", flush=True)
    until = time.monotonic() + 20
    config = None
    while config is None and time.monotonic() < until:
        config = connection.wait_for_arm(1.0)
    assert config is not None, "nothing was armed"
    config, _series = config
    assert config.get_num_frames() == len(expected), config.get_num_frames()
    client = libertem_dectris.CamClient(connection.get_socket_path())
    seen = 0
    while seen < len(expected) and time.monotonic() < until:
        stack = connection.get_next_stack(STACK)
        if stack is None:
            continue
        count = len(stack)
        got = np.zeros((count,) + expected.shape[1:], dtype=expected.dtype)
        client.decode_range_into_buffer(stack, got, 0, count)
        assert (got == expected[seen : seen + count]).all(), f"frames {seen} to {seen + count} differ"
        client.done(stack)
        seen += count
    connection.close()
    assert seen == len(expected), seen
    print(f"{seen} frames identical, libertem-dectris 0.3.2")


main()
