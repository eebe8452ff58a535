"""Measures the live part and checks it: `live.py SIDEBAND MASTER FLAGS...`, FLAGS the microscope as `sideband serve` takes it.

Prints Markdown. A detector (`sideband replay`) sends the frames of MASTER over loopback to a daemon (`sideband serve`); the arrays
that come of it must be those of `sideband run` byte for byte, and what was durable before a `kill -9` must be in the log byte for
byte. `--rounds N` kills N times (default 3), `--rate R` is the rate of the long run in frames/s, `--long S` its seconds.
"""

import argparse
import http.client
import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

import h5py
import hdf5plugin  # noqa: F401  registers the filter, for files that are opened elsewhere

EXACT = ["phase", "amplitude", "bf", "adf", "df", "com_row", "com_col", "frame_sum", "detector_total", "mean_pattern"]


class Pair:
    """A detector and a daemon that listens to it."""

    def __init__(self, args, out, version="v2", rate=20000, arm=True, record=None, patience=5, series=1, **options):
        replay = [args.sideband, "replay", args.master, "--stream", version, "--stream-port", "0", "--api-port", "0"]
        replay += ["--rate", str(rate), "--patience", str(patience)] + (["--arm", "--series", str(series)] if arm else [])
        quiet = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
        self.replay = subprocess.Popen(replay, **quiet)
        stream = re.search(r"tcp://(\S+)", self.replay.stdout.readline()).group(1)
        self.api = None if arm else re.search(r"http://(\S+)", self.replay.stdout.readline()).group(1).rstrip("/")
        serve = [args.sideband, "serve", "--stream", stream, "--listen", "127.0.0.1:0", "--out", str(out)] + args.flags
        self.serve = subprocess.Popen(serve + (["--record", str(record)] if record else []), **quiet, **options)
        while True:
            line = self.serve.stdout.readline()
            if not line:
                sys.exit("the daemon did not start")
            if line.startswith("page "):
                break
        # what they go on to say is kept, so that neither waits for a reader of its words
        self.said = {"replay": [], "serve": []}
        self.drains = []
        for name, process in (("replay", self.replay), ("serve", self.serve)):
            drain = threading.Thread(target=lambda lines=self.said[name], out=process.stdout: lines.extend(out), daemon=True)
            drain.start()
            self.drains.append(drain)
        self.page = http.client.HTTPConnection(re.search(r"http://([^/\s]+)", line).group(1), timeout=60)

    def ask(self, path, body=None):
        # the daemon ends connections that are idle
        head = {"Connection": "close"} | ({"Content-Type": "application/json"} if body else {})
        self.page.request("POST" if body else "GET", path, body, head)
        answer = self.page.getresponse()
        return answer.status, answer.read()

    def status(self):
        return json.loads(self.ask("/api/v1/status")[1])

    def put(self, path, body=b""):
        request = urllib.request.Request(f"http://{self.api}/{path}", method="PUT", data=body)
        return urllib.request.urlopen(request, timeout=60).read()

    def wait(self, seconds=600):
        until = time.time() + seconds
        while time.time() < until:
            status = self.status()
            if status["series"] and status["series"]["state"] in ("complete", "partial", "failed"):
                return status
            time.sleep(0.005)
        sys.exit(f"nothing came of it: {status}")

    def end(self):
        for process in (self.serve, self.replay):
            process.kill()
            process.wait()
        for drain in self.drains:
            drain.join()


def same_as_files(args, folder):
    """Both versions at 20,000 frames/s against `sideband run`."""
    expected = folder / "run"
    subprocess.run([args.sideband, "run", args.master, "--out", expected, "-q"] + args.flags, check=True, stdout=subprocess.DEVNULL)
    for version in ("v1", "v2"):
        out = folder / f"live-{version}"
        pair = Pair(args, out, version, arm=False)
        pair.put("stream/api/1.8.0/config/header_detail", b'{"value":"all"}')
        pair.put("detector/api/1.8.0/command/arm")
        status = pair.wait()
        pair.end()
        (result,) = out.iterdir()
        differ = [name for name in EXACT if (result / f"{name}.npy").read_bytes() != (expected / f"{name}.npy").read_bytes()]
        frames = status["series"]["frames"]
        assert not differ and frames["missing"] == 0, (version, differ, frames)
        print(f"| {version} at 20,000 frames/s | {frames['received']} of {frames['expected']} frames, {len(EXACT)} of {len(EXACT)} arrays those of `sideband run` byte for byte |")


def killed(args, folder):
    """kill -9 at random moments: what was durable is in the log, byte for byte."""
    chunks = []
    with h5py.File(args.master) as master:
        for name in sorted(master["entry/data"]):
            data = master["entry/data"][name]
            chunks += [data.id.read_direct_chunk((at, 0, 0))[1] for at in range(data.shape[0])]
    moments, compared, rounds = random.Random(7), 0, 0
    while rounds < args.rounds:
        log, out, export = folder / "log", folder / "killed", folder / "export"
        for old in (log, out, export):
            shutil.rmtree(old, ignore_errors=True)
        pair = Pair(args, out, moments.choice(["v1", "v2"]), rate=8000, record=log)
        end, durable = time.time() + moments.uniform(0.05, 0.9), 0
        while time.time() < end:
            durable = pair.status()["recording"]["durable"]
        pair.end()
        if durable < 2:
            continue
        rounds += 1
        subprocess.run([args.sideband, "export", log, "--out", export, "--name", "k"], check=True, capture_output=True)
        frames = number = 0
        with h5py.File(export / "k_master.h5") as master:
            for name in sorted(master["entry/data"]):
                data = master["entry/data"][name]
                there = {data.id.get_chunk_info(at).chunk_offset[0] for at in range(data.id.get_num_chunks())}
                for at in range(data.shape[0]):
                    assert at not in there or data.id.read_direct_chunk((at, 0, 0))[1] == chunks[number], number
                    frames += at in there
                    number += 1
        assert frames >= durable - 2, (frames, durable)  # start and end are messages, too
        compared += frames
    print(f"| `kill -9` at {rounds} random moments | every durable frame there; 0 of {compared} frames differ |")


def first_picture(args, folder, rate):
    """How soon the first frames are to be seen, and how smoothly the rest follows, at a rate in frames/s."""
    pair = Pair(args, folder / f"first-{rate}", rate=rate)
    first = picture = changed = None
    kept, longest = 0, 0.0
    while picture is None or time.time() < first + 2:
        series, now = pair.status()["series"], time.time()
        if series and first is None and series["frames"]["received"]:
            first = now
        if first and picture is None and pair.ask("/api/v1/series/current/images/frame_sum")[0] == 200:
            picture = changed = time.time()
        if series and series["frames"]["kept"] == series["frames"]["expected"]:
            break
        if picture and series["frames"]["kept"] != kept:
            kept, longest, changed = series["frames"]["kept"], max(longest, now - changed), now
        time.sleep(0.002)
    pair.end()
    print(f"| first picture after the first frame, at {rate:,} frames/s | {(picture - first) * 1e3:.0f} ms |")
    print(f"| longest from one picture to the next with more frames, at {rate:,} frames/s | {longest * 1e3:.0f} ms |")


def latencies(args, folder):
    """What a person waits for."""
    pair = Pair(args, folder / "waits", rate=20000)
    last = None
    while True:
        status, now = pair.status(), time.time()
        series = status["series"]
        if series and last is None and series["frames"]["received"] == series["frames"]["expected"]:
            last = now
        if last and series["phase"] and series["phase"]["badge"] == "final":
            final = now
            break
        time.sleep(0.002)
    pair.wait()
    def many(number, path, body=lambda at: None):
        took = []
        for at in range(number):
            start = time.time()
            code, _ = pair.ask(path(at), body(at))
            took.append((time.time() - start) * 1e3)
            assert code == 200, code
        return sorted(took)
    rings = many(100, lambda at: f"/api/v1/series/current/images/bf?inner=0&outer={0.5 + at % 40 / 100}")
    phases = many(20, lambda at: "/api/v1/series/current/reconstruct", lambda at: json.dumps({"c10_nm": -5.0 - at}))
    shape = "x".join(map(str, series["scan_shape"]))
    print(f"| {shape}: last frame to the final phase | {(final - last) * 1e3:.0f} ms |")
    print(f"| {shape}: a ring moved to the new image, p50 and p95 | {rings[49]:.0f} and {rings[94]:.0f} ms |")
    print(f"| {shape}: a slider moved to the new phase, p50 | {phases[9]:.0f} ms |")
    pair.end()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--waits-only", action="store_true", help="only what a person waits for, as more rows of a table")
    parser.add_argument("sideband")
    parser.add_argument("master")
    args, args.flags = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        if args.waits_only:
            return latencies(args, folder)
        print("| checked | outcome |\n|---|---|")
        same_as_files(args, folder)
        killed(args, folder)
        for rate in [100, 1000, 20000]:
            first_picture(args, folder, rate)
        latencies(args, folder)


if __name__ == "__main__":
    main()
