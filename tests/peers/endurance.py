"""Long runs of the daemon: `endurance.py --run RUN... [--seconds S] [--rate R] [--kills N] [--fills N] [--seed N] SIDEBAND MASTER FLAGS...`

RUN is steady, clients, kills, full, or all; FLAGS are the microscope as `sideband serve` takes it. A detector (`sideband replay`)
sends the frames of MASTER over loopback, series after series. Each run prints its figures and ends with PASS or FAIL; the exit
code is 1 when one failed.

steady   S seconds at R frames/s with the recorder on: frames lost, memory, how full the ring was, what is durable
clients  the same without a recorder, with 32 pages that do not read beside 32 that read a byte a second, and with none, in turns
kills    kill -9 at N random moments under load: every durable frame is in the log, byte for byte
full     the disk of the log is full at N random points: images go on, the status says so, durable frames stay as they were
"""

import argparse
import base64
import json
import math
import os
import random
import re
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import h5py
import hdf5plugin  # noqa: F401  registers the filter, for files that are opened elsewhere

from live import Pair

OVER = ("complete", "partial", "failed")


def chunks(master):
    """Every frame of a set as it is stored; none for one that is not there."""
    frames = []
    with h5py.File(master) as file:
        for name in sorted(file["entry/data"]):
            data = file["entry/data"][name]
            there = {data.id.get_chunk_info(at).chunk_offset[0] for at in range(data.id.get_num_chunks())}
            frames += [data.id.read_direct_chunk((at, 0, 0))[1] if at in there else None for at in range(data.shape[0])]
    return frames


def metrics(pair):
    text = pair.ask("/metrics")[1].decode()
    return {name: float(value) for name, value in re.findall(r"^sideband_(\w+) (\S+)$", text, re.M)}


def resident_mb(pid):
    text = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", text).group(1)) / 1e3


def verdict(name, is_fine, what):
    print(f"{name}: {'PASS' if is_fine else 'FAIL'}: {what}", flush=True)
    return is_fine


def steady(args, folder):
    num_series = max(1, math.ceil(args.seconds * args.rate / args.frames))
    pair = Pair(args, folder / "steady", rate=args.rate, record=folder / "steady-log", series=num_series)
    memory, began = [], time.time()
    while True:
        status = pair.status()
        memory.append(resident_mb(pair.serve.pid))
        series = status["series"]
        if series and series["number"] == num_series and series["state"] in OVER:
            break
        if pair.serve.poll() is not None or time.time() - began > 60 + 10 * args.seconds:
            break
        time.sleep(1)
    took = time.time() - began
    until = time.time() + 10
    while time.time() < until and status["recording"]["durable"] < status["recording"]["received"]:
        time.sleep(0.1)
        status = pair.status()
    found, recording = metrics(pair), status["recording"]
    results = [json.loads(path.read_text()) for path in sorted((folder / "steady").glob("*/result.json"))]
    received = sum(result["frames"]["received"] for result in results)
    pair.replay.wait(30)
    pair.end()
    said = re.findall(r"(\d+) frames sent, (\d+) messages dropped, \S+ s, (\d+) frames/s", "".join(pair.said["replay"]))
    dropped = sum(int(dropped) for _, dropped, _ in said)
    slowest = min((int(rate) for _, _, rate in said), default=0)
    # a ring that was full held the detector back: the rate did not hold
    held = slowest >= 0.95 * args.rate and found["ring_full_total"] == 0
    wanted = num_series * args.frames
    # the first series asks for its memory; from then on it may not grow
    half = memory[len(memory) // 4 :]
    earlier, later = max(half[: len(half) // 2 + 1]), max(half[len(half) // 2 :])
    print(f"steady: {num_series} series of {args.frames} frames at {args.rate} frames/s, {took:.0f} s, recorder on")
    print(f"steady: memory, MB, by the second: {' '.join(f'{mb:.0f}' for mb in memory[:: max(1, len(memory) // 60)])}")
    print("steady: ring used p50, p99, most: " + ", ".join(f"{100 * found[f'ring_used_{part}']:.1f} %" for part in ("p50", "p99", "max")))
    print("steady: from memory to reader p50, p99, most: " + ", ".join(f"{1e3 * found[f'ingest_wait_{part}_seconds']:.2f} ms" for part in ("p50", "p99", "max")))
    lost = wanted - received
    is_fine = lost == 0 and dropped == 0 and recording["durable"] == recording["received"] and recording["not_saved"] == 0
    is_flat = later <= 1.1 * earlier + 20
    what = f"{received} of {wanted} frames, {lost} lost, {dropped} messages dropped, durable {recording['durable']} of {recording['received']}"
    what += f", slowest series {slowest} frames/s, ring full {found['ring_full_total']:.0f} times"
    return verdict("steady", is_fine and is_flat and held, f"{what}, memory at most {earlier:.0f} MB, later {later:.0f} MB")


def slow_clients(host, number):
    """Pages that open the events and never read, and as many that read pictures at a byte a second."""
    address, sockets, stop = host.split(":"), [], threading.Event()
    for _ in range(number):
        key = base64.b64encode(os.urandom(16)).decode()
        events = f"GET /api/v1/events HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n"
        images = f"GET /api/v1/series/current/images/bf HTTP/1.1\r\nHost: {host}\r\n\r\n" * 50
        for request in (events, images):
            connection = socket.socket()
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect((address[0], int(address[1])))
            connection.setblocking(False)
            connection.send(request.encode())
            sockets.append(connection)

    def sip():
        while not stop.wait(1):
            for connection in sockets[1::2]:
                try:
                    connection.recv(1)
                except OSError:
                    pass

    threading.Thread(target=sip, daemon=True).start()
    return sockets, stop


def clients(args, folder):
    num_series = max(1, math.ceil(args.seconds * args.rate / args.frames))
    waits = {0: [], 32: []}
    is_fine = True
    for turn in range(2 * args.turns):
        number = 32 * (turn % 2)
        out = folder / f"clients-{turn}"
        pair = Pair(args, out, rate=args.rate, series=num_series)
        sockets, stop = slow_clients(f"{pair.page.host}:{pair.page.port}", number)
        until = time.time() + 60 + 10 * args.seconds
        while time.time() < until:
            series = pair.status()["series"]
            if series and series["number"] == num_series and series["state"] in OVER:
                break
            time.sleep(0.2)
        found = metrics(pair)
        stop.set()
        for connection in sockets:
            connection.close()
        pair.end()
        results = [json.loads(path.read_text()) for path in out.glob("*/result.json")]
        lost = num_series * args.frames - sum(result["frames"]["received"] for result in results)
        p50, p99, most = (1e3 * found[f"ingest_wait_{part}_seconds"] for part in ("p50", "p99", "max"))
        print(f"clients: {number:2} slow pages: p50 {p50:.3f} ms, p99 {p99:.3f} ms, most {most:.1f} ms, {lost} frames lost", flush=True)
        waits[number].append(p99)
        is_fine &= lost == 0
    without, with_them = statistics.median(waits[0]), statistics.median(waits[32])
    change = 100 * (with_them / without - 1)
    spread = 100 * (max(waits[0]) / min(waits[0]) - 1)
    what = f"p99 {without:.3f} ms without, {with_them:.3f} ms with 32 and 32, {change:+.1f} % (bar: +5 %); without them runs differ by {spread:.0f} %"
    return verdict("clients", is_fine and change < 5, what)


def compare(args, log, export, expected, durable):
    """Exports what is in a log. Returns frames there, frames that differ; start and end are messages, too."""
    shutil.rmtree(export, ignore_errors=True)
    done = subprocess.run([args.sideband, "export", log, "--out", export, "--name", "k"], capture_output=True, text=True)
    if done.returncode:
        return 0, f"the export failed: {done.stderr.strip()}"
    frames = chunks(export / "k_master.h5")
    there = sum(frame is not None for frame in frames)
    differ = sum(frame is not None and frame != expected[at] for at, frame in enumerate(frames))
    if differ:
        return there, f"{differ} of {there} frames differ"
    if there < durable - 2:
        return there, f"{there} frames are there, {durable} messages were durable"
    return there, None


def kills(args, folder):
    expected, moments, compared, rounds, wrong = chunks(args.master), random.Random(args.seed), 0, 0, []
    span = min(4, args.frames / args.rate * 1.5)
    while rounds < args.kills:
        log, out = folder / "kill-log", folder / "killed"
        for old in (log, out):
            shutil.rmtree(old, ignore_errors=True)
        version = moments.choice(["v1", "v2"])
        pair = Pair(args, out, version, rate=args.rate, record=log)
        end, durable = time.time() + moments.uniform(0.02, span), 0
        while time.time() < end:
            durable = pair.status()["recording"]["durable"]
            time.sleep(0.002)
        pair.end()
        if durable < 2:
            continue
        rounds += 1
        there, problem = compare(args, log, folder / "kill-export", expected, durable)
        compared += there
        if problem:
            wrong.append(f"round {rounds} ({version}): {problem}")
            print(f"kills: {wrong[-1]}", flush=True)
    return verdict("kills", not wrong, f"kill -9 at {rounds} random moments, {compared} frames compared, {len(wrong)} rounds wrong")


class SmallDisk:
    """A file system of so many bytes where one may be mounted; else a limit of the size of a file."""

    def __init__(self, folder, num_bytes):
        self.folder, self.num_bytes = folder, num_bytes
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", f"size={num_bytes}", "none", str(folder)]
        self.is_mounted = os.geteuid() == 0 and subprocess.run(mount, capture_output=True).returncode == 0
        self.kind = "a tmpfs" if self.is_mounted else "a limit of the size of a file (RLIMIT_FSIZE)"

    def options(self):
        if self.is_mounted:
            return {}
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (self.num_bytes, self.num_bytes))  # noqa: E731
        # SIGXFSZ stays ignored, as Python has it: the write fails, and the program goes on
        return {"preexec_fn": limit, "restore_signals": False}

    def remove(self):
        if self.is_mounted:
            subprocess.run(["umount", str(self.folder)], check=True)


def full(args, folder):
    expected, points, wrong, compared, kind = chunks(args.master), random.Random(args.seed), [], 0, ""
    log_bytes = sum(len(chunk) + 300 for chunk in expected)
    for fill in range(1, args.fills + 1):
        out = folder / "full"
        shutil.rmtree(out, ignore_errors=True)
        # result files are below 2 MB where the size of files is what is limited
        disk = SmallDisk(folder / "small-disk", points.randrange(2_000_000, max(2_100_000, int(0.9 * log_bytes))))
        kind = disk.kind
        version = points.choice(["v1", "v2"])
        pair = Pair(args, out, version, rate=args.rate, record=disk.folder / "log", **disk.options())
        status = pair.wait(120)
        recording, series = status["recording"], status["series"]
        image = pair.ask("/api/v1/series/current/images/bf")[0]
        pair.end()
        problems = []
        if series["frames"]["missing"] or series["frames"]["received"] != args.frames or image != 200:
            problems.append(f"live: {series['frames']}, the image is answered with {image}")
        if not (recording["failing"] or recording["not_saved"]):
            problems.append(f"the status does not say that it is not saved: {recording}")
        there, problem = compare(args, disk.folder / "log", folder / "full-export", expected, recording["durable"])
        disk.remove()
        problems += [problem] if problem else []
        compared += there
        if problems:
            wrong.append(problems)
            print(f"full: point {fill}, {disk.num_bytes} bytes, {version}: {'; '.join(problems)}", flush=True)
    what = f"{args.fills} random points of {kind}, {compared} frames compared, {len(wrong)} wrong; live images went on"
    return verdict("full", not wrong, what)


RUNS = {"steady": steady, "clients": clients, "kills": kills, "full": full}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", action="append", choices=[*RUNS, "all"], required=True)
    parser.add_argument("--seconds", type=float, default=600, help="of the steady run, and of each turn of the clients")
    parser.add_argument("--rate", type=float, default=8000, help="frames/s")
    parser.add_argument("--turns", type=int, default=3, help="turns of the clients, each once without and once with them")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--fills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("sideband")
    parser.add_argument("master")
    args, args.flags = parser.parse_known_args()
    args.frames = len(chunks(args.master))
    chosen = RUNS if "all" in args.run else args.run
    with tempfile.TemporaryDirectory() as folder:
        passed = [RUNS[name](args, Path(folder)) for name in chosen]
    sys.exit(0 if all(passed) else 1)


main()
