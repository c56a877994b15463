"""Finish built pages: what the theme leaves wrong for screen readers and search engines."""

import html
import re
from pathlib import Path

# Each is a fault that axe finds in what Sphinx, its theme or pandas write.
ACCESSIBLE = (
    ("<th></th>", "<td></td>"),  # a header must say something
    ('<summary aria-label="Toggle hidden content">', "<summary>"),
    ('<summary><span class="toctree', '<summary aria-label="Pages below"><span class="toctree'),
    ('role="doc-biblioentry"', 'role="listitem"'),
    ('id="pst-primary-sidebar"', 'id="pst-primary-sidebar" role="navigation" aria-label="Book"'),
)
HEADER = re.compile(r"<th[^>]*>[^<]*_[^<]*</th>")
NAME = re.compile(r'(?<=<span class="pre">)[\w.]+(?=(?:\(\))?</span></code>)')
SEARCH_BUTTON = re.compile(r'(<button[^>]*search-button-field[^>]*?) aria-label="Search"')
ARTICLE = re.compile(r"(<article[^>]*>).*?(</article>)", re.S)
PARAGRAPH = re.compile(r"<p>(.*?)</p>", re.S)
TITLE = re.compile(r"<title>(.*?)</title>", re.S)
SITEMAP_HEAD = """<?xml version="1.0" encoding="utf-8"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">"""
MISSING = """
<h1>There is no such page</h1>
<p>It may have moved: look for it in the <a href="index.html">contents</a>, or search.</p>
"""


def finish(folder, address=""):
    """Finish the pages of `folder`; `address` is where they are published, or empty."""
    folder = Path(folder)
    page = (folder / "genindex.html").read_text("utf-8")
    (folder / "404.html").write_text(missing_page(page, address), "utf-8")
    pages = sorted(path.name for path in folder.glob("*.html"))
    for name in pages:
        page = (folder / name).read_text("utf-8")
        (folder / name).write_text(finished(page, address + name), "utf-8")
    if address:
        (folder / "sitemap.xml").write_text(sitemap(pages, address), "utf-8")
        (folder / "robots.txt").write_text(f"Sitemap: {address}sitemap.xml\n", "utf-8")


def finished(page, address):
    """A page that says what it is, also to a screen reader; its long names may break."""
    for found, better in ACCESSIBLE:
        page = page.replace(found, better)
    page = SEARCH_BUTTON.sub(r"\1", page)
    for names in (HEADER, NAME):
        page = names.sub(lambda name: re.sub(r"([_.])(?=[a-zA-Z])", r"\1<wbr>", name[0]), page)
    return page.replace("</head>", f"{description(page, address)}</head>", 1)


def description(page, address):
    """What search engines and messengers show of a page: its title and first sentences."""
    title = html.unescape(TITLE.search(page)[1]).split(" — ")[0].strip()
    article = ARTICLE.search(page)
    first = PARAGRAPH.search(article[0]) if article else None
    text = re.sub(r"<[^>]*>|\\[()]", "", first[1]) if first else title
    text = " ".join(html.unescape(text).split())[:200]
    named = {"og:title": title, "og:description": text, "og:type": "article"}
    if address.startswith("http"):
        named["og:url"] = address
    tags = [f'<meta property="{name}" content="{html.escape(say)}">' for name, say in named.items()]
    return "\n".join([f'<meta name="description" content="{html.escape(text)}">', *tags, ""])


def missing_page(page, address):
    """What a server shows in place of a page that is not there, made from another page."""
    page = TITLE.sub("<title>No such page</title>", page, count=1)
    base = f'<head>\n<base href="{address}">' if address else "<head>"
    return ARTICLE.sub(rf"\1{MISSING}\2", page, count=1).replace("<head>", base, 1)


def sitemap(pages, address):
    """sitemap.xml of these pages."""
    entries = [f"<url><loc>{address}{page}</loc></url>" for page in pages]
    return "\n".join([SITEMAP_HEAD, *entries, "</urlset>", ""])
