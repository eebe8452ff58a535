"""The live page in headless Chromium, against the stand-in of page_fake.mjs.

Needs node, playwright from PyPI (made with 1.65.2 and Chromium 148), and a Chromium: SIDEBAND_CHROMIUM, or the one on the path. Where one is missing it
prints `not run: ...`. SIDEBAND_SCREENSHOTS names a folder for pictures of the page.

    python tests/peers/page_test.py
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
SHOTS = os.environ.get("SIDEBAND_SCREENSHOTS")


class Fake:
    """The stand-in as a process."""

    def __init__(self, *flags):
        self.process = subprocess.Popen(
            ["node", HERE / "page_fake.mjs", "--port", "0", *flags], stdout=subprocess.PIPE, text=True
        )
        self.url = self.process.stdout.readline().strip()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(10)

    def command(self, name, body=None, query=""):
        data = json.dumps(body or {}).encode()
        request = urllib.request.Request(f"{self.url}fake/{name}{query}", data=data, method="POST")
        with urllib.request.urlopen(request, timeout=10) as response:
            return json.load(response)

    def requests(self):
        return self.command("requests")["requests"]


def wait(page, text, timeout=15000):
    page.wait_for_function(
        "text => document.querySelector('header').innerText.includes(text)", arg=text, timeout=timeout
    )


def pixels(page, selector):
    return page.evaluate("selector => document.querySelector(selector).toDataURL()", selector)


def settled(page):
    page.wait_for_timeout(600)


def until(page, holds, what):
    """Waits for something the page does of itself; a machine at work elsewhere may take its time."""
    for _ in range(300):
        if holds():
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"not within 15 s: {what}")


def quiet(page, fake):
    """Waits until nothing is asked for any more: what comes then is of what is done then."""
    fake.requests()
    for _ in range(25):
        settled(page)
        if not fake.requests():
            return
    raise AssertionError("the page does not stop asking")


def asked_until(page, fake, holds, what):
    """The requests from now on, until they are what was waited for."""
    asked = []

    def more():
        asked.extend(fake.requests())
        return holds(asked)

    until(page, more, f"{what}: {asked}")
    return asked


def shot(page, name):
    if SHOTS:
        page.screenshot(path=f"{SHOTS}/{name}.png")


def point(page, selector, row, col, rows=96, cols=96):
    """Page position of a pixel of a picture."""
    box = page.locator(selector).bounding_box()
    scale = min(box["width"] / cols, box["height"] / rows)
    x = box["x"] + (box["width"] - cols * scale) / 2 + (col + 0.5) * scale
    y = box["y"] + (box["height"] - rows * scale) / 2 + (row + 0.5) * scale
    return x, y


BIG, PATTERN = "#big", "[data-name=mean_pattern] canvas"
BF, ADF, PHASE = "[data-name=bf] canvas", "[data-name=adf] canvas", "[data-name=phase] canvas"


def watches_a_scan_to_its_phase(page, fake):
    page.goto(fake.url)
    wait(page, "LISTENING")
    shot(page, "1-listening")
    fake.command("next")
    wait(page, "RECEIVING")
    page.wait_for_selector("#phase-badges .badge")
    assert "preview" in page.inner_text("#phase-badges")
    fake.command("hold")
    settled(page)
    shot(page, "2-receiving")
    assert re.search(r"[\d,]+ of 4,096 frames", page.inner_text("#state-count"))
    until(page, lambda: "undersampled" in page.inner_text("#warnings"), "the warning stands")
    early = pixels(page, BF)
    fake.command("hold")
    wait(page, "COMPLETE")
    until(page, lambda: pixels(page, BF) != early, "the bright field goes on")
    until(page, lambda: "final" in page.inner_text("#phase-badges"), "the phase becomes final")
    badges = page.inner_text("#phase-badges")
    assert "CPU" in badges and "597" in badges, badges
    assert "every frame came" in page.inner_text("#facts")
    assert "Phase" in page.inner_text("#big-title"), "the phase is shown large the moment it is there"
    shot(page, "3-complete")


def dragging_a_ring_changes_its_image_only(page, fake):
    quiet(page, fake)
    bf, adf = pixels(page, BF), pixels(page, ADF)
    start = point(page, PATTERN, 46.5, 48.2 + 0.9 * 14.2)
    end = point(page, PATTERN, 46.5, 48.2 + 0.5 * 14.2)
    page.mouse.move(*start)
    page.mouse.down()
    page.mouse.move(*end, steps=12)
    page.mouse.up()
    until(page, lambda: pixels(page, BF) != bf, "the ring's own image changes")
    settled(page)
    asked = [line for line in fake.requests() if "/images/" in line]
    assert asked and all("/bf?" in line and "outer=" in line for line in asked), asked
    assert 0.45 < float(page.input_value("#ring-bf_outer")) < 0.55
    assert pixels(page, ADF) == adf


def dragging_the_disk_moves_the_centre(page, fake):
    quiet(page, fake)
    page.mouse.move(*point(page, PATTERN, 46.5, 48.2))
    page.mouse.down()
    page.mouse.move(*point(page, PATTERN, 56.5, 44.2), steps=6)
    page.mouse.up()
    asked_until(
        page, fake,
        lambda asked: any("/bf?" in line and "row=" in line for line in asked) and any("/adf?" in line and "col=" in line for line in asked),
        "both rings ask anew",
    )
    assert abs(float(page.input_value("#centre-row")) - 56.5) < 1.0
    page.fill("#ring-adf_outer", "2.4")
    asked_until(page, fake, lambda asked: any("outer=2.4" in line for line in asked), "a written limit is asked for")
    shot(page, "4-rings")
    page.click("#rings-reset")
    until(page, lambda: page.input_value("#ring-bf_outer") == "0.9", "the rings go back")


def sliders_reconstruct_and_reset(page, fake):
    quiet(page, fake)
    before = pixels(page, PHASE)
    page.focus("#slider-c10_nm")
    for _ in range(12):
        page.keyboard.press("Shift+ArrowRight")
    asked = asked_until(page, fake, lambda asked: any('"c10_nm":5.7' in line for line in asked), "the slider's last value is asked for")
    asked = [line for line in asked if line.startswith("reconstruct")]
    assert 1 <= len(asked) <= 12 and '"c10_nm":5.7' in asked[-1], asked
    assert page.input_value("#field-c10_nm") == "5.7"
    until(page, lambda: pixels(page, PHASE) != before, "the phase changes")
    page.fill("#field-c12_nm", "45")
    asked_until(page, fake, lambda asked: any('"c12_nm":45' in line for line in asked), "a written value is asked for")
    assert float(page.get_attribute("#slider-c12_nm", "max")) >= 45
    page.click("#phase-reset")
    until(page, lambda: page.input_value("#field-c10_nm") == "-6.3", "the values go back")
    until(page, lambda: pixels(page, PHASE) == before, "the phase goes back")
    assert page.is_disabled("#phase-reset")


def the_keyboard_works(page, _):
    page.click("#facts")
    page.keyboard.press("4")
    assert page.inner_text("#big-title") == "Centre of mass, row"
    assert page.input_value("#colour-map") == "diverging"
    settled(page)
    shot(page, "5-com")
    page.keyboard.press("9")
    settled(page)
    shot(page, "6-pattern")
    page.keyboard.press("7")
    page.keyboard.press("0")
    page.wait_for_function("() => document.querySelector('#big').getAttribute('aria-label').startsWith('Power spectrum of Phase')")
    settled(page)
    shot(page, "7-fft")
    page.mouse.move(*point(page, BIG, 20, 20, 64, 64))
    assert "1/nm" in page.inner_text("#readout")
    page.keyboard.press("1")
    low = float(page.input_value("#contrast-low"))
    page.keyboard.press("+")
    assert float(page.input_value("#contrast-low")) > low
    page.keyboard.press("-")
    page.keyboard.press("c")
    assert page.input_value("#colour-map") == "lagoon"
    page.focus("#slider-c10_nm")
    page.click("#facts")
    page.keyboard.press("s")
    page.keyboard.press("ArrowUp")
    assert page.input_value("#field-c12_nm") == "1.9"
    page.click("#phase-reset")
    page.keyboard.press("?")
    assert page.is_visible("#help")
    shot(page, "8-help")
    page.keyboard.press("Escape")
    assert not page.is_visible("#help")


def the_pointer_reads_values(page, _):
    page.keyboard.press("1")
    page.mouse.move(*point(page, BIG, 11, 20, 64, 64))
    assert "row 11, col 20" in page.inner_text("#readout"), page.inner_text("#readout")
    page.mouse.move(*point(page, BIG, 10, 62, 64, 64))
    assert "no frame here yet" in page.inner_text("#readout"), page.inner_text("#readout")
    page.mouse.move(*point(page, PATTERN, 46, 48))
    assert "mrad from the centre" in page.inner_text("#readout")


def a_lost_link_greys_the_pictures_and_comes_back(page, fake):
    page.route("**/api/v1/status*", lambda route: route.abort())
    fake.command("drop")
    wait(page, "NO CONNECTION")
    page.wait_for_function("() => document.querySelector('#banner').innerText.includes('trying again in')")
    assert page.is_visible("#big-stale")
    shot(page, "9-lost")
    page.unroute("**/api/v1/status*")
    # it may have come back by itself by now
    page.evaluate("() => { const act = document.querySelector('#banner-act'); if (act.offsetParent) act.click(); }")
    wait(page, "COMPLETE")
    assert not page.is_visible("#big-stale")


def a_daemon_that_hangs_is_noticed(page, fake):
    fake.process.send_signal(signal.SIGSTOP)
    try:
        wait(page, "NO CONNECTION", 25000)
    finally:
        fake.process.send_signal(signal.SIGCONT)
    wait(page, "COMPLETE", 25000)


def an_older_series_is_kept_and_marked_stale(page, fake):
    page.keyboard.press("2")
    fake.command("next")
    wait(page, "RECEIVING")
    page.wait_for_selector("#phase-badges .badge")
    page.click("#series-list li:nth-child(2) button")
    page.wait_for_function("() => document.querySelector('#facts').innerText.startsWith('series 1')")
    page.wait_for_function("() => document.querySelector('#big-note').innerText === 'from the result folder'")
    assert page.is_visible("#big-stale")
    assert page.is_disabled("#slider-c10_nm")
    settled(page)
    shot(page, "10-older")
    page.keyboard.press("n")
    page.wait_for_function("() => document.querySelector('#facts').innerText.startsWith('series 2')")
    wait(page, "COMPLETE")


def trouble_is_red(page, fake):
    fake.command("set", {
        "recording": {"folder": "/data/log", "received": 99, "durable": 90, "not_saved": 9, "last_error": "no space left on device"},
        "detector_dropped": 17, "disk_free_bytes": 1e6,
    })
    wait(page, "NOT SAVED: 9")
    assert "no space left" in page.inner_text("#warnings")
    assert page.locator("dd.bad").all_inner_texts() == ["18 frames", "NOT SAVED: 9 messages", "1 MB", "17 frames"]
    shot(page, "11-trouble")
    fake.command("set", {"recording": None})
    wait(page, "not recorded")


def copied_python_of_a_running_scan_keeps_no_holes_that_fill(page, fake):
    fake.command("next")
    wait(page, "RECEIVING")
    page.wait_for_selector("#phase-badges .badge")
    fake.command("hold")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.keyboard.press("1")
    page.click("#copy-python")
    fake.command("hold")
    wait(page, "COMPLETE")
    names = {}
    exec(page.evaluate("navigator.clipboard.readText()"), names)
    holes = [index for index, value in enumerate(names["image"].flat) if value != value]
    assert holes == [*range(700, 716), 1500, 1501], holes


def export_names_every_image(page, fake):
    page.click("#export summary")
    page.wait_for_selector("#export a")
    links = page.locator("#export a").evaluate_all("links => links.map(link => link.getAttribute('href'))")
    assert len(links) % 3 == 0 and any(link.endswith("phase?format=tiff") for link in links), links
    assert "/data/results/" in page.inner_text("#export")
    shot(page, "12-export")
    page.keyboard.press("Escape")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.keyboard.press("1")
    page.click("#copy-python")
    code = page.evaluate("navigator.clipboard.readText()")
    names = {}
    exec(code, names)  # what the page hands out must run as it is
    assert names["image"].shape == (64, 64) and abs(names["row_nm"][1] - 0.016) < 1e-9
    holes = [index for index, value in enumerate(names["image"].flat) if value != value]
    assert holes == [*range(700, 716), 1500, 1501], holes
    page.fill("#field-c10_nm", "-4")
    page.click("#big-title")
    page.keyboard.press("7")
    settled(page)
    page.click("#copy-python")
    names = {}
    exec(page.evaluate("navigator.clipboard.readText()"), names)
    assert names["parameters"]["c10_nm"] == -4 and names["image"].shape == (64, 64)


def the_main_part_needs_no_scrolling(page, _):
    size = page.evaluate("[document.documentElement.scrollHeight, innerHeight, document.documentElement.scrollWidth, innerWidth]")
    assert size[0] <= size[1] and size[2] <= size[3], size
    side = page.evaluate("(([side]) => [side.scrollHeight, side.clientHeight])(document.querySelectorAll('.side'))")
    assert side[0] <= side[1] + 1, side
    smallest = page.evaluate(
        "Math.min(...[...document.querySelectorAll('body *')].filter(e => e.offsetParent && e.innerText)"
        ".map(e => parseFloat(getComputedStyle(e).fontSize)))"
    )
    assert smallest >= 12, smallest


CLAIMS = [
    watches_a_scan_to_its_phase,
    the_main_part_needs_no_scrolling,
    dragging_a_ring_changes_its_image_only,
    dragging_the_disk_moves_the_centre,
    sliders_reconstruct_and_reset,
    the_keyboard_works,
    the_pointer_reads_values,
    a_lost_link_greys_the_pictures_and_comes_back,
    a_daemon_that_hangs_is_noticed,
    an_older_series_is_kept_and_marked_stale,
    copied_python_of_a_running_scan_keeps_no_holes_that_fill,
    export_names_every_image,
    trouble_is_red,
]


def a_dense_display_is_drawn_in_its_own_pixels(browser, fake):
    page = browser.new_page(viewport={"width": 1280, "height": 800}, device_scale_factor=2)
    page.goto(fake.url)
    wait(page, "COMPLETE")
    settled(page)
    widths = page.evaluate("(({width, clientWidth}) => [width, clientWidth])(document.querySelector('#big'))")
    assert widths[0] == 2 * widths[1], widths
    shot(page, "13-dense")
    page.close()


def the_token_is_passed_on(browser):
    with Fake("--token", "T1") as fake:
        page = browser.new_page()
        page.goto(fake.url)
        page.wait_for_function("() => document.querySelector('#banner').innerText.includes('token')")
        page.goto(f"{fake.url}?token=T1")
        wait(page, "LISTENING")
        fake.command("next", query="?token=T1")
        wait(page, "COMPLETE", 20000)
        page.close()


def main():
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        print("not run: playwright is not installed")
        return
    chromium = os.environ.get("SIDEBAND_CHROMIUM") or next(
        filter(None, map(shutil.which, ["chromium-headless-shell", "chromium", "google-chrome"])), None
    )
    if chromium is None or shutil.which("node") is None:
        print("not run: no Chromium or no node on the path")
        return
    with sync_playwright() as playwright, Fake("--rate", "1200") as fake:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        trouble = []
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("console", lambda message: message.type == "error" and trouble.append(message.text))
        for claim in CLAIMS:
            try:
                claim(page, fake)
            except Exception:
                shot(page, "failed")
                print(f"FAILED {claim.__name__}", *trouble, sep="\n  ")
                raise
            print(f"ok {claim.__name__}")
        a_dense_display_is_drawn_in_its_own_pixels(browser, fake)
        print("ok a_dense_display_is_drawn_in_its_own_pixels")
        the_token_is_passed_on(browser)
        print("ok the_token_is_passed_on")
        # Refused addresses are what two of the claims make happen; everything else is a fault of the page.
        faults = [text for text in trouble if "Failed to load resource" not in text and "WebSocket" not in text]
        assert not faults, faults
        browser.close()


if __name__ == "__main__":
    sys.exit(main())
