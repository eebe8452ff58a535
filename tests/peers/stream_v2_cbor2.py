"""Reads a series of stream v2 with pyzmq and cbor2, and compares it with the chunks of the set that was replayed.

    stream_v2_cbor2.py tcp://HOST:PORT MASTER

Built from DECTRIS's description of stream v2 alone. Ends with 0 when every frame is byte for byte its chunk.
"""

import sys

import cbor2
import h5py
import zmq


def chunks(master):
    """Every frame of a set as it is stored, in order."""
    with h5py.File(master) as file:
        group = file["/entry/data"]
        for name in sorted(name for name in group if name.startswith("data")):
            data = group[name]
            for frame in range(data.shape[0]):
                yield data.id.read_direct_chunk((frame, 0, 0))[1], data.shape[1:], data.dtype.itemsize


def main():
    address, master = sys.argv[1:]
    socket = zmq.Context().socket(zmq.PULL)
    socket.setsockopt(zmq.RCVTIMEO, 20_000)
    socket.connect(address)
    start = cbor2.loads(socket.recv())
    assert start["type"] == "start", start["type"]
    expected = list(chunks(master))
    assert start["number_of_images"] == len(expected), start["number_of_images"]
    seen = 0
    while True:
        message = cbor2.loads(socket.recv())
        assert message["series_id"] == start["series_id"]
        assert message["series_unique_id"] == start["series_unique_id"]
        if message["type"] == "end":
            break
        assert message["image_id"] == seen, (message["image_id"], seen)
        data = message["data"]["threshold_1"]
        chunk, shape, item_bytes = expected[seen]
        assert data.tag == 40
        dimensions, typed = data.value
        assert tuple(dimensions) == shape, dimensions
        assert typed.tag == {1: 64, 2: 69, 4: 70}[item_bytes], typed.tag
        assert typed.value.tag == 56500, typed.value.tag
        algorithm, elements, packed = typed.value.value
        assert (algorithm, elements) == ("bslz4", item_bytes), (algorithm, elements)
        assert packed == chunk, f"frame {seen} differs"
        seen += 1
    assert seen == len(expected), seen
    print(f"{seen} frames identical, cbor2 {getattr(cbor2, '__version__', '')} pyzmq {zmq.__version__}")


main()
