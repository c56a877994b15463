"""build_html.py SOURCE HTML: build the book beside HTML, and put it there once it is whole."""

import shutil
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from acvbook.orphan import end_with_parent
from acvbook.whole import replacing_folder

JUPYTER_BOOK = "from jupyter_book.cli.main import main; main()"


def main(source, html):
    with tempfile.TemporaryDirectory(prefix=".html.", dir="build") as folder:
        end_with_parent(partial(shutil.rmtree, folder, ignore_errors=True))
        build = [sys.executable, "-c", JUPYTER_BOOK, "build", source, "--path-output", folder]
        strict = ["-W", "--keep-going", "-n", "--all", "-q"]
        process = subprocess.run([*build, *strict], stdout=subprocess.PIPE, text=True)
        if process.returncode:  # otherwise it praises a folder that is about to be renamed
            sys.exit(process.stdout)
        with replacing_folder(html) as draft:
            Path(folder, "_build", "html").rename(draft)


if __name__ == "__main__":
    main(*sys.argv[1:])
