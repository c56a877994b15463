"""lock.py: refresh requirements/*.txt, the packages of requirements.lock with the sha256 of their
files. Versions stay as they are. Needs uv, which asks the package index: pip install uv.

torch is in none of them: its wheel is another one on machines without an accelerator.
"""

import re
import subprocess
from pathlib import Path

LOCK = Path("requirements.lock")
UV = ["uv", "pip", "compile", "--quiet", "--generate-hashes", "--no-annotate", "--no-header"]


def name(line):
    """Name of a requirement, spelled as package indexes compare it."""
    return re.match(r"[\w.-]+", line)[0].lower().replace("_", "-")


def compiled(target, *arguments, text=None):
    """Write `target` and return the names in it."""
    command = [*UV, "--python-version", "3.11.7", *arguments, "--output-file", target]
    subprocess.run(command, input=text, text=True, check=True)
    lines = Path(target).read_text("utf-8").splitlines()
    return {name(line) for line in lines if re.match(r"\w", line)}


def main():
    extras = ["--extra", "all", "--extra", "dev", "--constraint", LOCK]
    library = compiled("requirements/library.txt", "pyproject.toml", *extras)
    lines = [line for line in LOCK.read_text("utf-8").splitlines() if re.match(r"\w", line)]
    others = [line for line in lines if name(line) not in {"torch", *library}]
    compiled("requirements/book.txt", "--no-deps", "-", text="\n".join(others))


if __name__ == "__main__":
    main()
