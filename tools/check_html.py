"""check_html.py FOLDER: open every page of a built book in headless Chromium, from disk,
as a reader offline would.

A page passes when it loads without a console error, asks for nothing outside FOLDER, typesets its
math without an error, gives every picture a text alternative, and its badges lead to a place that
is there; the search must find "jackknife".
Needs Debian's chromium and chromium-driver; where they are absent the check says so and is skipped.
"""

import json
import shutil
import sys
from pathlib import Path
from urllib.parse import unquote, urlparse

from selenium import webdriver
from selenium.common.exceptions import TimeoutException
from selenium.webdriver.support.ui import WebDriverWait

OPTIONS = (
    "headless=new",
    "no-sandbox",
    "disable-gpu",
    "no-first-run",
    "disable-background-networking",
    "disable-sync",
)
TYPESET = """const done = arguments[0];
const ready = window.MathJax?.startup?.promise ?? Promise.resolve();
ready.then(() => done(null), error => done(String(error)));"""
BAD_MATH = (
    "return [...document.querySelectorAll('[data-mml-node=merror]')].map(node => node.textContent)"
)
RAW_MATH = """const math = [...document.querySelectorAll('.math')];
return math.filter(node => !node.querySelector('mjx-container')).length"""
# Badges are links in plain HTML, which Sphinx does not check.
LINKS = "return [...document.querySelectorAll('a.verdict, a:has(.verdict)')].map(a => a.href)"
NO_ALT = "return [...document.images].filter(image => !image.alt.trim()).map(image => image.src)"
FOUND = "return document.querySelectorAll('#search-results li').length"


def browser():
    """A headless Chromium that logs its console and its network requests."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for option in OPTIONS:
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


def faults(driver, site, page):
    """Open one page; what is wrong with it, one sentence each."""
    driver.get(site + page)
    failure = driver.execute_async_script(TYPESET)
    outside = [url for url in requests(driver) if not url.startswith((site, "data:", "blob:"))]
    console = [
        entry["message"] for entry in driver.get_log("browser") if entry["level"] == "SEVERE"
    ]
    return [
        *([f"math: {failure}"] if failure else []),
        *(f"math error: {text}" for text in driver.execute_script(BAD_MATH)),
        *([f"{raw} formulas are not typeset"] if (raw := driver.execute_script(RAW_MATH)) else []),
        *(f"asks for {url}" for url in outside),
        *(f"console: {message}" for message in console),
        *(f"no text alternative: {source}" for source in driver.execute_script(NO_ALT)),
        *(f"leads nowhere: {link}" for link in driver.execute_script(LINKS) if leads_nowhere(link)),
    ]


def leads_nowhere(link):
    """Whether no page on disk has the place that `link` names."""
    page, _, place = link.partition("#")
    path = Path(unquote(urlparse(page).path))
    return not path.is_file() or (place and f'id="{place}"' not in path.read_text("utf-8"))


def search_faults(driver, site, word):
    """Search for ``word``; the complaint when nothing is found within ten seconds."""
    driver.get(f"{site}search.html?q={word}")
    try:
        WebDriverWait(driver, 10).until(lambda driver: driver.execute_script(FOUND))
    except TimeoutException:
        return [f"search does not find {word!r}"]
    return []


def main(folder):
    if not (shutil.which("chromium") and shutil.which("chromedriver")):
        print("browser check skipped: it needs Debian's chromium and chromium-driver")
        return
    folder = Path(folder).resolve()
    site, pages = f"{folder.as_uri()}/", sorted(path.name for path in folder.glob("*.html"))
    with browser() as driver:
        results = {page: faults(driver, site, page) for page in pages}
        results["search"] = search_faults(driver, site, "jackknife")
    for page, found in results.items():
        print(f"{page}: {'; '.join(found) or 'ok'}")
    failed = sum(map(bool, results.values()))
    print(f"{len(results) - failed} passed, {failed} failed")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main(sys.argv[1])
