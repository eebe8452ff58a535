#!/usr/bin/env bash
# The C decoders that the bslz4 benchmark compares with, as shared objects in target/peers: bitshuffle (K. Masui) with its LZ4,
# as LiberTEM builds it (-O3, SSE2), and DECTRIS's compression library. Their sources come from the Python package index; the
# benchmark finds the objects by itself.   usage: tests/peers/fetch-c-decoders.sh
set -euo pipefail
root="$(cd "$(dirname "$0")/../.." && pwd)"
peers="${CARGO_TARGET_DIR:-$root/target}/peers"
mkdir -p "$peers"
cd "$peers"

fetch() { # PACKAGE VERSION
    [ -d "$1-$2" ] && return
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --no-binary "$1" "$1==$2"
    tar xzf "$1-$2.tar.gz"
}

fetch bitshuffle 0.5.2
fetch dectris-compression 0.3.1

gcc -O3 -std=c99 -fno-strict-aliasing -fPIC -shared -I bitshuffle-0.5.2/src -I bitshuffle-0.5.2/lz4 -o libbitshuffle.so \
    bitshuffle-0.5.2/src/{bitshuffle_core,bitshuffle,iochain}.c bitshuffle-0.5.2/lz4/lz4.c
dectris=dectris-compression-0.3.1
gcc -O3 -fPIC -shared -I $dectris -I $dectris/third_party -I $dectris/third_party/lz4/lib \
    -o libdectris_compression.so $dectris/src/compression.c $dectris/third_party/bitshuffle/src/bitshuffle.c \
    $dectris/third_party/lz4/lib/lz4.c
ls -l "$peers"/*.so
