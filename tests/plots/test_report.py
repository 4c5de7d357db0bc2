"""The report in a headless browser, driven by chromedriver's protocol (W3C WebDriver)."""

import json
import shutil
import subprocess
import urllib.request

import made
import pytest
from edited import write_few

from plots.__main__ import main

OPTIONS = ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--hide-scrollbars"]
FAULTS = """
const wide = [...document.querySelectorAll("body *")].filter((e) => !e.closest(".wide > *"))
  .filter((e) => e.getBoundingClientRect().right > innerWidth + 1).map((e) => e.outerHTML);
const dead = [...document.querySelectorAll("a[href^='#']")].map((a) => a.hash.slice(1))
  .filter((id) => !document.getElementById(id));
const loaded = performance.getEntriesByType("resource").map((entry) => entry.name);
return {width: document.documentElement.scrollWidth - innerWidth, wide, dead, loaded};
"""


@pytest.fixture(scope="module")
def driver():
    if not (shutil.which("chromedriver") and shutil.which("chromium")):
        pytest.skip("no chromedriver: apt-get install chromium chromium-driver")
    command = ["chromedriver", "--port=0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        line = next(line for line in process.stdout if "successfully on port" in line)
        url = f"http://127.0.0.1:{line.split()[-1].strip('.')}/session"

        def ask(path, **body):
            request = urllib.request.Request(url + path, json.dumps(body).encode())
            with urllib.request.urlopen(request, timeout=300) as answer:
                return json.load(answer)["value"]

        chrome = {"alwaysMatch": {"goog:chromeOptions": {"args": OPTIONS}}}
        url += "/" + ask("", capabilities=chrome)["sessionId"]
        yield ask
        urllib.request.urlopen(urllib.request.Request(url, method="DELETE"))
        process.terminate()


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    for name in ("table2", "counters", "transpose"):
        write_few(name, folder / name)
    assert main(["report", f"--results={folder}"]) == 0
    return folder / "report.html"


@pytest.mark.parametrize("width", [390, 1400])
def test_nothing_overflows_and_no_link_is_dead(driver, page, width):
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    override = "Emulation.setDeviceMetricsOverride"
    driver("/goog/cdp/execute", cmd=override, params=size)
    driver("/url", url=page.as_uri())
    faults = driver("/execute/sync", script=FAULTS, args=[])
    assert faults == {"width": 0, "wide": [], "dead": [], "loaded": []}


def test_the_page_has_claims_tables_and_no_script(page):
    text = page.read_text()
    assert len(text) < 3e6 and "<script" not in text
    assert "Table II: speed-up over branch_tree" in text and "2.0-2.2x on the" in text
    assert "Not measured on this machine" not in text


def test_each_machine_has_a_page_of_its_own(write, tmp_path, capsys):
    times = {"branch_tree": [20.0, 21.0, 22.0], "shared_lut": [10.0, 10.5, 11.0]}
    write("a/table2/replay.json", made.replay(times))
    write("b/table2/replay.json", made.on("Tesla T4", made.replay(times)))
    assert main(["report", f"--results={tmp_path}"]) == 0
    assert len(list(tmp_path.glob("report-*.html"))) == 2
    assert main(["report", f"--results={tmp_path}/none"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "none" in line


def test_texts_of_results_are_no_html(write, tmp_path):
    times = {"<b>mine</b>": [1.0, 2.0, 3.0], "branch_tree": [1.0, 2.0, 3.0]}
    file = made.replay(times, batch=8)
    results = write("table2/replay.json", file).parent
    assert main(["report", f"--results={results}"]) == 0
    text = (results / "report.html").read_text()
    assert "<b>mine" not in text and "&lt;b&gt;mine" in text
