"""make_pdf.py SOURCE HTML: the book's source as one page by Sphinx, printed as HTML/acvlib.pdf by
headless Chromium, and a link to it.
"""

import base64
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from acvbook.whole import write
from build_html import JUPYTER_BOOK
from check_html import browser

CSS = Path(__file__).with_name("print.css").read_text("utf-8")
FOOTER = '<div style="font-size:8px;width:100%;text-align:center"><span class="pageNumber"></span>'
SETTINGS = {"headerTemplate": "<span></span>", "footerTemplate": f"{FOOTER}</div>"}
SETTINGS |= dict.fromkeys(("preferCSSPageSize", "printBackground", "displayHeaderFooter"), True)
SETTINGS |= dict.fromkeys(("generateDocumentOutline", "generateTaggedPDF"), True)


def document(page):
    """What is to be printed of Sphinx's page: the text, without scripts and side bars."""
    head = re.sub(r"<script.*?</script>", "", page.partition("<body")[0], flags=re.S)
    head = head.replace("</head>", f"<style>{CSS}</style></head>")
    return f"{head}<body>{re.search(r'<article.*</article>', page, re.S)[0]}</body></html>"


def main(source, html):
    with tempfile.TemporaryDirectory(prefix=".pdf.", dir="build") as folder, browser() as driver:
        build = [sys.executable, "-c", JUPYTER_BOOK, "build", source, "--path-output", folder]
        single = ["--builder", "custom", "--custom-builder", "singlehtml", "-q"]
        subprocess.run([*build, *single], check=True)
        whole = Path(folder, "_build/singlehtml/index.html").resolve()
        whole.write_text(document(whole.read_text("utf-8")), "utf-8")
        driver.get(whole.as_uri())
        printed = driver.execute_cdp_cmd("Page.printToPDF", SETTINGS)
    write(Path(html, "acvlib.pdf"), base64.b64decode(printed["data"]))
    index = Path(html, "index.html")
    sentence = 'All of it is also <a href="acvlib.pdf">one PDF</a>.'
    write(index, index.read_text("utf-8").replace("<!-- pdf -->", sentence))


if __name__ == "__main__":
    main(*sys.argv[1:])
