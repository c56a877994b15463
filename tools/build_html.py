"""build_html.py SOURCE HTML: build the book, and put it there once it is whole."""

import re
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

JUPYTER_BOOK = "from jupyter_book.cli.main import main; main()"
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
# Font Awesome is 1.5 MB of script on each page, which shows a few outlines of it.
FONT_AWESOME = re.compile(r"\s*<(?:script|link)[^>]*fontawesome[^>]*>(?:</script>)?")
ICON = re.compile(
    r'<(i|span)\b([^>]*?)class="([^"]*\bfa-(?!solid|regular|brands|lg|fw|sm|xs)([\w-]+)[^"]*)"'
    r"([^>]*)></\1>"
)


@cache
def outline(name, script):
    """Width, height and path of an icon in Font Awesome's script."""
    for key in (rf'(?:"{name}"|\b{name}):\[', rf'\[(?=\d+,\d+,\[[^\]]*"{name}"[^\]]*\])'):
        shape = rf'{key}(\d+),(\d+),\[[^\]]*\],"[^"]*","([^"]+)"'
        if found := re.search(shape, script):
            return found.groups()
    sys.exit(f"Font Awesome has no icon {name}")


def finished(page, script):
    """A page that says what it is to a screen reader, too; its long names may break."""

    def draw(tag):
        width, height, path = outline(tag[4], script)
        names = re.sub(r"\bfa-(?:solid|regular|brands)\b", "", tag[3])
        return (
            f'<svg{tag[2]}class="icon {names}"{tag[5]} aria-hidden="true" fill="currentColor" '
            f'height="1em" viewBox="0 0 {width} {height}"><path d="{path}"/></svg>'
        )

    page = ICON.sub(draw, FONT_AWESOME.sub("", page))
    for found, better in ACCESSIBLE:
        page = page.replace(found, better)
    page = SEARCH_BUTTON.sub(r"\1", page)
    for names in (HEADER, NAME):
        page = names.sub(lambda name: re.sub(r"([_.])(?=[a-zA-Z])", r"\1<wbr>", name[0]), page)
    return page


def main(source, html):
    with tempfile.TemporaryDirectory(prefix=".html.", dir="build") as folder:
        build = [sys.executable, "-c", JUPYTER_BOOK, "build", source, "--path-output", folder]
        strict = ["-W", "--keep-going", "-n", "--all", "-q"]
        process = subprocess.run([*build, *strict], stdout=subprocess.PIPE, text=True)
        if process.returncode:  # otherwise it praises a folder that is about to be renamed
            sys.exit(process.stdout)
        built = Path(folder, "_build", "html")
        script = (built / "_static/scripts/fontawesome.js").read_text("utf-8")
        for page in built.glob("*.html"):
            page.write_text(finished(page.read_text("utf-8"), script), "utf-8")
        for unused in built.glob("_static/scripts/fontawesome*"):
            unused.unlink()
        shutil.rmtree(html, ignore_errors=True)
        Path(html).parent.mkdir(exist_ok=True)
        built.rename(html)


if __name__ == "__main__":
    main(*sys.argv[1:])
