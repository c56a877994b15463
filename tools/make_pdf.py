"""make_pdf.py HTML: print the built book as HTML/acvlib.pdf by headless Chromium, and link it.

All pages of the contents in their order, with one outline, page numbers and links that stay inside.
"""

import base64
import re
import shutil
import sys
import tempfile
from pathlib import Path
from urllib.parse import unquote

from acvbook.whole import write
from check_html import browser

LOOKED_UP = re.compile(r"(?:api|genindex|py-modindex|search)")  # not read
ARTICLE = re.compile(r"<article[^>]*>(.*?)</article>", re.S)
IDENTIFIER = re.compile(r'(?<=\sid=")([^"]+)')
LINK = re.compile(r'(?<=\shref=")([^"#:]*)(#[^"]*)?(?=")')
CSS = Path(__file__).with_name("print.css").read_text("utf-8")
FOOTER = '<div style="font-size:8px;width:100%;text-align:center"><span class="pageNumber"></span>'
SETTINGS = {
    "preferCSSPageSize": True,
    "printBackground": True,
    "displayHeaderFooter": True,
    "headerTemplate": "<span></span>",
    "footerTemplate": f"{FOOTER}</div>",
    "generateDocumentOutline": True,
    "generateTaggedPDF": True,
}


def section(name, page, names):
    """The article of a page, its places named after the page, its links to them as well."""
    article = IDENTIFIER.sub(rf"{name}--\1", ARTICLE.search(page)[1])

    def inside(link):
        target = unquote(link[1]) or name
        if target not in names:
            return link[0]
        return f"#{target}--{link[2][1:]}" if link[2] else f"#{target}"

    return f'<section class="page" id="{name}">{LINK.sub(inside, article)}</section>'


def document(html):
    """One page that holds all pages of the contents."""
    index = (html / "index.html").read_text("utf-8")
    contents = re.search(r'<nav class="bd-links.*?</nav>', index, re.S)[0]
    listed = dict.fromkeys(["index.html", *re.findall(r'href="([\w]+\.html)"', contents)])
    names = [name for name in listed if not LOOKED_UP.match(name)]
    pages = [section(name, (html / name).read_text("utf-8"), names) for name in names]
    head = re.sub(r"<script.*?</script>", "", index.partition("<body")[0], flags=re.S)
    head = head.replace("</head>", f"<style>{CSS}</style></head>")
    return f"{head}<body>{''.join(pages)}</body></html>"


def main(html):
    html = Path(html).resolve()
    with tempfile.NamedTemporaryFile("w", dir=html, suffix=".html", encoding="utf-8") as whole:
        whole.write(document(html))
        whole.flush()
        with browser() as driver:
            driver.get(Path(whole.name).as_uri())
            printed = driver.execute_cdp_cmd("Page.printToPDF", SETTINGS)
    write(html / "acvlib.pdf", base64.b64decode(printed["data"]))
    sentence = 'All of it is also <a href="acvlib.pdf">one PDF</a>.'
    index = html / "index.html"
    write(index, index.read_text("utf-8").replace("<!-- pdf -->", sentence))
    print(html / "acvlib.pdf")


if __name__ == "__main__":
    if shutil.which("chromium") and shutil.which("chromedriver"):
        main(*sys.argv[1:])
    else:
        print("no PDF: it needs Debian's chromium and chromium-driver")
