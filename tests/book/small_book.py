"""A book of two notebooks that builds in about a second, made of the real Makefile, dodo.py, tools
and acvbook; stubs take the place of Jupyter Book and of kernels.
"""

import os
import shutil
import subprocess
import sys
import time

from places import ROOT

NOTEBOOK = """# ---
# jupyter:
#   kernelspec: {{display_name: Python 3, language: python, name: python3}}
# ---
# %% tags=["parameters"]
scale = "none"

# %%
import os, pathlib, time
from acvbook import ledger
ledger.begin("{name}", scale, 1)
ledger.record("demo.{name}", {value})
figures = pathlib.Path(os.environ["ACVLIB_OUTPUT"], "figures")
figures.mkdir(exist_ok=True)
(figures / "{name}-{value}.svg").write_text("{value} " * 10_000)
with open("executions", "a") as log:
    print("{name}", file=log)
time.sleep({seconds})
"""
PAPERS = """
[papers]
demo = "Demo, nobody"
"""
CLAIMS = """
[claims]
"demo.one" = { source = "s", shows = "s", data = "simulated", notebook = "one" }
"demo.two" = { source = "s", shows = "s", data = "simulated", notebook = "two" }
"""
CHAPTERS = """
one = { path = "use", question = "?", difficulty = "easy", learn = ["this"], needs = "that" }
two = { path = "papers", question = "?", difficulty = "easy", learn = ["this"], needs = "that" }
"""
FILES = {
    "book/claims/papers.toml": PAPERS,
    "book/claims/demo.toml": CLAIMS,
    "book/chapters.toml": CHAPTERS,
    "book/_config.yml": "title: Demo\n",
    "book/_toc.yml": "root: index\n",
    "book/index.md": "# Demo\n\n<!-- chapters: papers -->\n<!-- chapters: use -->\n",
    "book/api.md": "# Reference\n\n<!-- api -->\n",
    "book/scoreboard.md": "<!-- scoreboard -->\n",
    "book/benchmarks.md": "<!-- benchmarks -->\n",
    "stubs/html/jupyter_book/cli/main.py": """
import pathlib, sys
def main():
    source, output = pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[4], "_build", "html")
    scripts = output / "_static" / "scripts"
    scripts.mkdir(parents=True)
    (scripts / "fontawesome.js").touch()
    pages = [source / "scoreboard.md", *sorted(source.glob("figures/*.svg"))]
    text = "".join(f"{page.name} {page.read_text()}" for page in pages)
    page = "<html><head><title>Demo</title></head><body><article>{}</article></body></html>"
    for name, body in {"index": text, "genindex": "", "end": "whole"}.items():
        (output / f"{name}.html").write_text(page.replace("{}", body))
""",
    "stubs/kernel/jupytext.py": """
import json, pathlib
from types import SimpleNamespace
def read(path):
    return SimpleNamespace(text=pathlib.Path(path).read_text(), cells=[])
def writes(executed, fmt):
    title = {"cell_type": "markdown", "metadata": {}, "source": "# Title\\n"}
    return json.dumps({"cells": [title], "text": executed.text})
""",
    "stubs/kernel/papermill/__init__.py": """
from types import SimpleNamespace
def execute_notebook(notebook, target, parameters, **settings):
    text = "\\n".join([notebook.text, *(cell.source for cell in notebook.cells)])
    exec(text.replace('scale = "none"', f"scale = {parameters['scale']!r}"), {})
    return SimpleNamespace(metadata={"papermill": {}}, cells=[None], text=text)
""",
    "stubs/kernel/papermill/exceptions.py": "class PapermillExecutionError(Exception): pass\n",
}
EMPTY = """acvlib/__init__.py book/api.toml book/pyproject.toml
requirements/library.txt requirements/book.txt
stubs/html/jupyter_book/__init__.py stubs/html/jupyter_book/cli/__init__.py
.venv/.library .venv/.ready"""  # the newest last, as make looks at times


class SmallBook:
    """Files of the project below `root`; `make` runs it, `start` begins to."""

    def __init__(self, root):
        self.root = root

    def create(self):
        for name in ("Makefile", "dodo.py", "requirements.lock", "pyproject.toml"):
            self.write(name, (ROOT / name).read_text("utf-8"))
        no_cache = shutil.ignore_patterns("__pycache__")
        for name in ("tools", "book/acvbook"):
            shutil.copytree(ROOT / name, self.root / name, ignore=no_cache)
        self.write(".venv/bin/doit", f'#!/bin/sh\nexec "{sys.executable}" -m doit "$@"\n')
        (self.root / ".venv/bin/doit").chmod(0o755)
        for name, content in (FILES | dict.fromkeys(EMPTY.split(), "")).items():
            self.write(name, content)
        self.notebooks(1)
        return self

    def write(self, name, content):
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(content, "utf-8")

    def notebooks(self, value, seconds=0):
        """Write both notebooks: they record `value`, and draw it."""
        for name in ("one", "two"):
            text = NOTEBOOK.format(name=name, value=value, seconds=seconds)
            self.write(f"notebooks/{name}.py", text)

    def start(self, target="book", **variables):
        """A make in a process group of its own."""
        path = [self.root / "book", self.root / "stubs/html", self.root / "stubs/kernel"]
        kept = {key: value for key, value in os.environ.items() if not key.startswith("GITHUB")}
        kept.pop("MAKELEVEL", None)
        kept["ACVLIB_DATA"] = ""
        kept["PYTHONPATH"] = os.pathsep.join(map(str, path))
        output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        settings = {"cwd": self.root, "env": kept | variables, "start_new_session": True}
        return subprocess.Popen(["make", target], **settings, **output)

    def make(self, target="book", **variables):
        """(exit code, output) of a make that has ended."""
        process = self.start(target, **variables)
        output, _ = process.communicate(timeout=60)
        return process.returncode, output

    @property
    def page(self):
        return (self.root / "book/_build/html/index.html").read_text("utf-8")

    def executions(self):
        """The notebooks, as they were begun."""
        return (self.root / "executions").read_text().split()


def wait_for(condition, seconds=20):
    """Return whether `condition()` came true in time."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()
