"""build_html.py SOURCE HTML MATHJAX: build the book beside HTML, and put it there once it is whole.

MATHJAX: the folder `es5` of its package.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from finish_html import finish
from link_names import link
from prerender import prerender

JUPYTER_BOOK = "from jupyter_book.cli.main import main; main()"


def address():
    """Where a CI service publishes the book, with a slash at its end; else empty."""
    owner, _, name = os.environ.get("GITHUB_REPOSITORY", "").partition("/")
    return f"https://{owner}.github.io/{name}/" if name else ""


def main(source, html, mathjax):
    with tempfile.TemporaryDirectory(prefix=".html.", dir="build") as folder:
        build = [sys.executable, "-c", JUPYTER_BOOK, "build", source, "--path-output", folder]
        strict = ["-W", "--keep-going", "-n", "--all", "-q"]
        process = subprocess.run([*build, *strict], stdout=subprocess.PIPE, text=True)
        if process.returncode:  # otherwise it praises a folder that is about to be renamed
            sys.exit(process.stdout)
        built = Path(folder, "_build", "html")
        link(built, Path(source))
        finish(built, address())
        prerender(built, mathjax)
        shutil.rmtree(html, ignore_errors=True)
        Path(html).parent.mkdir(exist_ok=True)
        built.rename(html)


if __name__ == "__main__":
    main(*sys.argv[1:])
