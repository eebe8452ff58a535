"""What two readers make of the same faults: the published libertem-dectris, and sideband.

    faults_libertem.py SIDEBAND [FAULT ...]

SIDEBAND is the built program. For each fault (all of them when none is named) `sideband replay` sends a small simulated scan as
stream v1, once to libertem-dectris, once to `sideband serve`. Prints a table in Markdown. Each reader runs in a process of its
own and is given up after a time.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

ROWS, COLS = 16, 16
FRAMES = ROWS * COLS
STACK = 32
# how long a reader may take beyond a second of frames
PATIENCE_S = 25
FAULTS = [
    [],
    ["lost=5"],
    ["doubled=5"],
    ["swapped=5"],
    ["late=3"],
    ["truncated=5"],
    ["corrupted=5"],
    ["wrong-size=5"],
    ["wrong-type=5"],
    ["wrong-type=@0"],
    ["garbage=5"],
    ["no-start"],
    ["end=late:2"],
    ["end=missing"],
    ["end=early"],
    ["end=other"],
    ["stall=2"],
    ["restart"],
    ["abort-next"],
    ["thief"],
]


class Replay:
    """A detector that has been started; its address is known."""

    def __init__(self, sideband, master, fault):
        command = [sideband, "replay", master, "--stream", "v1", "--stream-port", "0", "--api-port", "0", "--arm"]
        command += ["--series", "2" if "abort-next" in fault else "1", "--rate", "500", "--wait", "20"]
        for switch in fault:
            command += ["--fault", switch]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        line = self.process.stdout.readline()
        self.address = line.split()[1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def libertem(replay, master):
    """What libertem-dectris came to, in words."""
    with tempfile.NamedTemporaryFile("w+", suffix=".json") as report, tempfile.TemporaryFile("w+") as words:
        command = [sys.executable, __file__, "--read", replay.address, master, report.name]
        try:
            code = subprocess.run(command, stdout=words, stderr=words, timeout=PATIENCE_S).returncode
        except subprocess.TimeoutExpired:
            code = None
        report.seek(0)
        said = json.loads(report.read() or "{}")
        words.seek(0)
        lines = words.read().splitlines()
    got, other = said.get("same", 0), said.get("other", 0)
    frames = f"{got} of {FRAMES} frames" + (f", {other} others with counts of another frame or none" if other else "")
    panics = [line for line in lines if "panicked" in line]
    if panics:
        frames += ", a thread panicked"
    if "error" in said:
        return f"{frames}; error: {cell(said['error'])}"
    if code is None:
        return f"{frames}; did not return within {PATIENCE_S} s"
    if code < 0:
        return f"{frames}; ended by signal {-code}"
    if code:
        return f"{frames}; ended with {code}: {cell(lines[-1] if lines else '')}"
    return f"{frames}; returned"


def cell(text):
    """A text that fits a cell of the table."""
    return " ".join(str(text).split()).replace("|", "/")[:120]


def sideband_serve(sideband, replay, folder):
    """What sideband came to, in words."""
    command = [sideband, "serve", "--stream", replay.address.removeprefix("tcp://"), "--listen", "127.0.0.1:0"]
    command += ["--out", folder, "--series", "1", "--silence-s", "3", "--scan-shape", f"{ROWS}x{COLS}"]
    command += ["--voltage-kv", "200", "--semi-angle-mrad", "25", "--scan-step-nm", "0.024", "--rotation-deg", "-12.5"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S + 20)
    except subprocess.TimeoutExpired:
        return f"did not return within {PATIENCE_S + 20} s"
    reports = sorted(Path(folder).glob("*/result.json"))
    if not reports:
        return f"no result; ended with {done.returncode}: {cell(done.stderr)}"
    frames = json.loads(reports[0].read_text())["frames"]
    kinds = {}
    for gap in frames["gaps"]:
        kinds[gap["kind"]] = kinds.get(gap["kind"], 0) + gap["count"]
    holes = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())) or "no holes"
    last = [line for line in done.stdout.splitlines() if " missing (" in line]
    why = last[0].split(" missing (", 1)[1].rsplit(")", 1)[0] if last else "?"
    return f"{frames['received']} of {FRAMES} frames, {holes}; {cell(why)}"


def read(address, master, report):
    """Reads one series and writes down, as it goes, what has come of it."""
    import h5py
    import hdf5plugin  # noqa: F401: registers the filters
    import libertem_dectris
    import numpy as np

    with h5py.File(master) as file:
        group = file["/entry/data"]
        expected = np.concatenate([group[name][()] for name in sorted(group) if name.startswith("data")])
    said = {"same": 0, "other": 0}

    def note(**more):
        said.update(more)
        Path(report).write_text(json.dumps(said))

    handle = os.path.join(tempfile.mkdtemp(), "shm")
    connection = libertem_dectris.DectrisConnection(
        address, STACK, handle, num_slots=256, bytes_per_frame=16384, huge=False
    )
    try:
        connection.start_passive()
        config, until = None, time.monotonic() + 15
        while config is None and time.monotonic() < until:
            config = connection.wait_for_arm(1.0)
        if config is None:
            note(error="no start of a series came within 15 s")
            return
        client = libertem_dectris.CamClient(connection.get_socket_path())
        at = 0
        while at < FRAMES:
            stack = connection.get_next_stack(STACK)
            if stack is None:
                break
            count = len(stack)
            got = np.zeros((count,) + expected.shape[1:], dtype=expected.dtype)
            client.decode_range_into_buffer(stack, got, 0, count)
            same = int((got == expected[at : at + count]).all(axis=(1, 2)).sum())
            note(same=said["same"] + same, other=said["other"] + count - same)
            at += count
            client.done(stack)
    except BaseException as error:  # noqa: BLE001: a panic of the other side is none of Exception
        note(error=f"{type(error).__name__}: {error}")
    # its threads may wait for ever
    os._exit(0)


def main():
    if sys.argv[1] == "--read":
        return read(*sys.argv[2:])
    sideband, *named = sys.argv[1:]
    faults = [[fault] for fault in named] or FAULTS
    with tempfile.TemporaryDirectory() as folder:
        set_folder = os.path.join(folder, "set")
        simulate = [sideband, "simulate", "--out", set_folder, "--scan-shape", f"{ROWS}x{COLS}"]
        simulate += ["--detector-shape", "32x32", "--detector-sampling-mrad", "3", "--quiet"]
        master = subprocess.run(simulate, check=True, capture_output=True, text=True).stdout.strip()
        program = subprocess.run([sideband, "--version"], check=True, capture_output=True, text=True).stdout.strip()
        print(f"| fault | libertem-dectris {version('libertem-dectris')} | {program} |\n|---|---|---|", flush=True)
        for number, fault in enumerate(faults):
            with Replay(sideband, master, fault) as replay:
                theirs = libertem(replay, master)
            with Replay(sideband, master, fault) as replay:
                ours = sideband_serve(sideband, replay, os.path.join(folder, str(number)))
            print(f"| {' '.join(f'`{switch}`' for switch in fault) or 'none'} | {theirs} | {ours} |", flush=True)


main()
