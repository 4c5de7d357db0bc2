"""A headless Chromium, driven by chromedriver's own protocol (W3C WebDriver): JSON over HTTP."""

import json
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the protocol's name for a reference to one
OPTIONS = ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--hide-scrollbars")


COLUMN = """
  const table = document.querySelector(arguments[0]);
  const text = (row) => row.cells[arguments[1]].textContent;
  const shown = (row) => row.cells.length > 1 && !row.hidden;
  return [...table.tBodies].map((body) => [...body.rows].filter(shown).map(text));"""

# The contrast of each text and its background, in the first 3000 elements (WCAG 2.2).
CONTRASTS = """
  const channel = (v) => v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4;
  const light = (c) => c.match(/[\\d.]+/g).slice(0, 3).map(Number).map(channel)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0.05);
  const backdrop = (e) => {
    const color = getComputedStyle(e).backgroundColor;
    return color === "rgba(0, 0, 0, 0)" ? backdrop(e.parentElement) : color;
  };
  const says = (e) => [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
  const pairs = [...document.querySelectorAll("body *")].slice(0, 3000).filter(says)
    .map((e) => [getComputedStyle(e).color, backdrop(e)]);
  return pairs.map(([a, b]) => Math.max(light(a), light(b)) / Math.min(light(a), light(b)));"""

# The number of visible figures of each kind, and whether one is clipped.
FIGURES_SHOWN = """
  const counts = {};
  for (const e of document.querySelectorAll("figure div")) {
    const box = e.querySelector("svg").getBoundingClientRect();
    if (box.width && (box.left < 0 || box.right > innerWidth)) counts.cut = true;
    if (box.width) counts[e.className] = (counts[e.className] ?? 0) + 1;
  }
  return counts;"""


class Browser:
    def __init__(self, port: int):
        self.session = f"http://127.0.0.1:{port}/session"
        chrome = {"goog:chromeOptions": {"args": [*OPTIONS]}}
        chrome |= {"goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}
        chrome |= {"timeouts": {"script": 300_000}}  # ms, for a machine that does much else
        session = self.ask("POST", "", {"capabilities": {"alwaysMatch": chrome}})
        self.session += f"/{session['sessionId']}"

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.session + path, data, method=method)
        with urllib.request.urlopen(request, timeout=600) as answer:
            return json.load(answer)["value"]

    def open(self, file: Path) -> None:
        self.ask("POST", "/url", {"url": file.as_uri()})

    def run(self, script: str, *arguments: Any) -> Any:
        """The result of the JavaScript; a JSON value."""
        return self.ask("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def find(self, selector: str) -> str:
        element = self.ask("POST", "/element", {"using": "css selector", "value": selector})
        return f"/element/{element[ELEMENT]}"

    def click(self, selector: str) -> None:
        self.ask("POST", self.find(selector) + "/click", {})

    def type(self, selector: str, keys: str) -> None:
        self.ask("POST", self.find(selector) + "/value", {"text": keys})

    def open_rows(self, name: str) -> None:
        """The table below the heading with this id."""
        self.run("document.getElementById(arguments[0]).closest('details').open = true", name)

    def column(self, table: str, place: int) -> list[list[str]]:
        """The texts of a table's column, by body."""
        return self.run(COLUMN, table, place)

    def devtools(self, command: str, **parameters: Any) -> Any:
        return self.ask("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def set_width(self, pixels: int) -> None:
        size = {"width": pixels, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.devtools("Emulation.setDeviceMetricsOverride", **size)

    def prefer(self, scheme: str) -> None:
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.devtools("Emulation.setEmulatedMedia", features=[feature])

    def log(self, kind: str) -> list[dict[str, Any]]:
        return self.ask("POST", "/se/log", {"type": kind})


def need(program: str) -> None:
    if not shutil.which(program):
        pytest.skip(f"no {program}: apt-get install chromium chromium-driver")


def print_to_pdf(page: Path, pdf: Path) -> None:
    need("chromium")
    command = ["chromium", *OPTIONS, f"--print-to-pdf={pdf}", page.as_uri()]
    subprocess.run(command, check=True, capture_output=True)


@contextmanager
def browser() -> Iterator[Browser]:
    need("chromedriver")
    command = ["chromedriver", "--port=0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as driver:
        try:
            line = next(line for line in driver.stdout if "successfully on port" in line)
            chrome = Browser(int(line.split()[-1].strip(".")))
            yield chrome
            chrome.ask("DELETE", "")
        finally:
            driver.terminate()
