"""check_wheel.py: build acvlib's wheel and use it as a stranger would, where nothing else is.

For each Python that is here: import acvlib, fit and climb the ladder with no extra, see the error
that names the missing extra, then run README's example with `[tables]`. A Python that is not here
is named and skipped.
"""

import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

PYTHONS = ("3.11", "3.12", "3.13")
ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("pyproject.toml", "README.md", "LICENSE")
EXAMPLE = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.S)[1]
UP_TO_THE_TABLE = EXAMPLE.split("table = ")[0]
IMPORT = """
import sys, acvlib
extras = {"matplotlib", "pandas", "sklearn", "dask", "torch", "acvbook"}
assert not extras & set(sys.modules), extras & set(sys.modules)
assert "site-packages" in acvlib.__file__, acvlib.__file__
"""
LADDER = f"""
{UP_TO_THE_TABLE}
print({{name: round(float(rung.loss), 4) for name, rung in rungs.items()}})
try:
    acv.compare_methods(*rungs.values())
except ImportError as error:
    assert "acvlib[tables]" in str(error), error
else:
    raise AssertionError("a table without pandas")
"""


def build(folder):
    """The wheel, from a copy of the sources, so that no leftover of an earlier build gets in: the
    library, its marker of types and its metadata, and nothing of the book.
    """
    copy = folder / "sources"
    shutil.copytree(ROOT / "acvlib", copy / "acvlib", ignore=shutil.ignore_patterns("__pycache__"))
    for name in SOURCES:
        shutil.copy(ROOT / name, copy)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
    subprocess.run([*pip, "--wheel-dir", folder, copy], check=True)
    wheel = next(folder.glob("*.whl"))
    names = zipfile.ZipFile(wheel).namelist()
    others = [name for name in names if not re.match(r"acvlib(/|-[^/]*\.dist-info/)", name)]
    assert not others, others
    assert "acvlib/py.typed" in names, names
    print(f"{wheel.name}: {wheel.stat().st_size / 1024:.0f} kB")
    return wheel


def interpreter(version):
    """A Python of this version that runs, on the PATH or brought by pyenv; None if absent."""
    brought = Path.home().glob(f".pyenv/versions/{version}.*/bin/python3")
    this = sys.executable if sys.version.startswith(f"{version}.") else None
    runs = (this, shutil.which(f"python{version}"), *map(str, brought))
    return next((p for p in runs if p and not subprocess.run([p, "-c", ""]).returncode), None)


def use(wheel, python, folder):
    """Install and run in an environment of its own; the first failure ends the check."""
    subprocess.run([python, "-m", "venv", folder], check=True)
    inside = folder / "bin" / "python"
    pip = [inside, "-m", "pip", "install", "--quiet", "--constraint", ROOT / "requirements.lock"]

    def run(what, code):
        if subprocess.run([inside, "-I", "-c", code], cwd=folder).returncode:
            sys.exit(f"{what}: failed from the wheel")

    subprocess.run([*pip, wheel], check=True)
    run("import with no extra", IMPORT)
    run("the ladder with no extra", LADDER)
    subprocess.run([*pip, f"acvlib[tables] @ {wheel.as_uri()}"], check=True)
    run("import with [tables]", IMPORT)
    run("README's example with [tables]", EXAMPLE)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheel = build(folder)
        for version in PYTHONS:
            python = interpreter(version)
            print(f"Python {version}: {python or 'not here, skipped'}", flush=True)
            if python:
                use(wheel, python, folder / version)


if __name__ == "__main__":
    main()
