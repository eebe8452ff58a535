"""The page of the daemon itself in headless Chromium: a replayed scan is watched to its phase, a ring is dragged, the scan
is taken for another.

    python tests/peers/page_live.py SIDEBAND

SIDEBAND is the program; SIDEBAND_CHROMIUM names a Chromium, or one is on the path. Where something is missing it prints `not run: ...`.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

# of the demonstration, but for the semi-angle, which is given on the page
KNOWN = ["--scan-step-nm", "0.024", "--rotation-deg", "-12.5", "--scan-shape", "64x64"]
KNOWN += ["--aberration", "C10=-12", "--aberration", "C12=3,20"]
BF, PATTERN, PHASE = "[data-name=bf] canvas", "[data-name=mean_pattern] canvas", "[data-name=phase] canvas"


def started(args):
    return subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def line(process, pattern):
    for text in process.stdout:
        found = re.search(pattern, text)
        if found:
            return found.group(1)
    sys.exit(f"no line with {pattern}")


def pixels(page, selector):
    return page.evaluate("selector => document.querySelector(selector).toDataURL()", selector)


def shown(page, state, seconds=120):
    page.wait_for_function("state => document.querySelector('#state-word').innerText === state", arg=state, timeout=seconds * 1000)


def watch(page, address):
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(address)
    shown(page, "RECEIVING")
    # the voltage came with the stream, the semi-angle did not: rings, but no phase yet
    page.wait_for_selector("#uncalibrated:not([hidden])")
    assert "semi_angle_mrad" in page.inner_text("#uncalibrated"), page.inner_text("#uncalibrated")
    page.click("#uncalibrated")
    page.fill("#optics-semi_angle_mrad", "25")
    page.click("#optics-apply")
    page.wait_for_function("() => document.querySelector('#phase-badges').innerText.length > 0", timeout=120000)
    print("ok the microscope is given on the page, and the phase comes")
    shown(page, "COMPLETE")
    page.wait_for_function("() => document.querySelector('#phase-badges').innerText.includes('final')", timeout=60000)
    page.wait_for_function("() => document.querySelector('[data-name=phase] canvas').getAttribute('aria-label').includes('64 by 64')")
    # all but the small picture in the list of series
    own = [url for url in asked if "/images/" in url and not url.endswith("/images/bf?format=raw")]
    assert not own, f"images come by themselves: {own}"
    print("ok a replayed scan is watched to its phase")
    before, phase = pixels(page, BF), pixels(page, PHASE)
    box = page.locator(PATTERN).bounding_box()
    field = page.locator("#ring-bf_outer")
    centre = [box["x"] + box["width"] / 2, box["y"] + box["height"] / 2]
    half = min(box["width"], box["height"]) / 2
    rows = page.evaluate("() => document.querySelector('[data-name=mean_pattern] canvas').getAttribute('aria-label')")
    side = int(re.search(r"(\d+) by", rows).group(1))
    radius = float(re.search(r"([\d.]+) px", page.inner_text("#rings-fields")).group(1)) * 2 * half / side
    page.mouse.move(centre[0] + radius, centre[1])
    page.mouse.down()
    page.mouse.move(centre[0] + 0.5 * radius, centre[1], steps=10)
    page.mouse.up()
    page.wait_for_function("before => document.querySelector('[data-name=bf] canvas').toDataURL() !== before", arg=before, timeout=30000)
    assert float(field.input_value()) < 0.7, field.input_value()
    assert pixels(page, PHASE) == phase, "a ring is no matter of the phase"
    print("ok a ring is dragged and its image changes")
    for path in ("snake", "raster"):
        page.click("#optics-open")
        page.wait_for_function("() => document.querySelector('#optics-scan_shape').value === '64x64'")
        page.select_option("#optics-scan_path", path)
        page.uncheck("#optics-next")
        before = pixels(page, BF)
        page.click("#optics-apply")
        page.wait_for_function("before => document.querySelector('[data-name=bf] canvas').toDataURL() !== before", arg=before, timeout=60000)
    print("ok the frames of a scan are counted otherwise on the page, and as before")


def main():
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        print("not run: playwright is not installed")
        return
    chromium = os.environ.get("SIDEBAND_CHROMIUM") or shutil.which("chromium-headless-shell") or shutil.which("chromium")
    if chromium is None:
        print("not run: there is no Chromium")
        return
    sideband = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sideband, "demo", "--out", f"{folder}/demo"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        master = next(Path(folder).glob("demo/acquisition/*_master.h5"))
        replay = started([sideband, "replay", str(master), "--stream-port", "0", "--api-port", "0", "--rate", "400", "--patience", "60"])
        stream, api = line(replay, r"tcp://(\S+)"), line(replay, r"http://([^/\s]+)")
        serve = started([sideband, "serve", "--stream", stream, "--listen", "127.0.0.1:0", "--out", f"{folder}/out", *KNOWN])
        try:
            address = line(serve, r"page (http://\S+)")
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
                page = browser.new_page(viewport={"width": 1280, "height": 800})
                trouble = []
                page.on("pageerror", lambda error: trouble.append(str(error)))
                subprocess.run([sideband, "arm", "--api", api], check=True, stdout=subprocess.DEVNULL)
                subprocess.run([sideband, "trigger", "--api", api], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                watch(page, address)
                assert not trouble, trouble
                browser.close()
        finally:
            for process in (serve, replay):
                process.terminate()
                process.wait(20)


if __name__ == "__main__":
    sys.exit(main())
