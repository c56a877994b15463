"""assemble.py FOLDER TARGET: put the book's source together: prose, executed notebooks,
figures, scoreboard.

Notebooks and figures lie side by side at the top, as they do in FOLDER and in book/published/: a
figure has the same address in all three.
"""

import json
import os
import re
import shutil
import sys
from pathlib import Path

import api_pages
import benchmarks_page
import chapters
import scoreboard
from acvbook import ledger, prose
from acvbook.claims import load_claims

BOOK = Path("book")
NOT_PROSE = ("_build", "published", "claims", "exercises", "acvbook", "*.egg-info", "*.toml")
NOT_PROSE += ("__pycache__", ".*")
NOT_SHOWN = (".*", "ledger", "runs", "benchmarks.json")


def main(folder, target):
    folder, target = Path(folder), Path(target)
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(BOOK, target, ignore=shutil.ignore_patterns(*NOT_PROSE))
    shutil.copytree(folder, target, ignore=shutil.ignore_patterns(*NOT_SHOWN), dirs_exist_ok=True)
    measured, claims = ledger.read(folder / "ledger.json"), load_claims()
    records = ledger.judged(measured, claims)  # by the claims of today; old chapters cite old ids
    records += [record for record in measured if record["id"] not in claims]
    runs = {
        path.stem: chapters.numbers_of(Path("notebooks", f"{path.stem}.py"), folder)
        for path in sorted(target.glob("*.ipynb"))
    }
    parts = {"scoreboard": scoreboard.page(records, runs)}
    parts |= {"api": api_pages.write(target), "benchmarks": benchmarks_page.write(target)}
    for path in ("papers", "use"):
        parts[f"chapters: {path}"] = chapters.contents(target, folder, records, path)
    leave_out_missing(target)
    recorded = {record["id"]: record for record in records}
    for path in target.glob("*.md"):
        text = path.read_text("utf-8")
        for name, part in parts.items():
            text = text.replace(f"<!-- {name} -->", part)
        path.write_text(prose.fill(text, recorded, claims), "utf-8")
    for path in target.glob("*.ipynb"):
        chapter = make_chapter(path, folder, records)
        for cell in chapter["cells"]:
            if cell["cell_type"] == "markdown":
                cell["source"] = prose.fill("".join(cell["source"]), recorded, claims)
        path.write_text(json.dumps(chapter, indent=1, ensure_ascii=False), "utf-8")
    if "GITHUB_REPOSITORY" in os.environ:  # where a CI service names it, there are launch buttons
        address = "{GITHUB_SERVER_URL}/{GITHUB_REPOSITORY}".format_map(os.environ)
        launch = (BOOK / "_launch.yml").read_text("utf-8").replace("REPOSITORY_URL", address)
        with (target / "_config.yml").open("a", encoding="utf-8") as config:
            config.write(launch)


def make_chapter(path, folder, records):
    """The chapter (a dict) of an executed notebook, numbers and badges still to be filled in."""
    executed = json.loads(path.read_text("utf-8"))
    notebook = chapters.with_prose_of(Path("notebooks", path.name).with_suffix(".py"), executed)
    chapters.refuse_raw_outputs(path.stem, notebook)
    frame = chapters.frame(path.stem, folder, records)
    exercises = BOOK / "exercises" / f"{path.stem}.md"
    text = exercises.read_text("utf-8") if exercises.exists() else ""
    return chapters.chapter(notebook, frame, text)


def leave_out_missing(target):
    """Take chapters that are not in the folder from the contents, and say so: not yet published."""
    contents = target / "_toc.yml"
    text = contents.read_text("utf-8")
    for name in chapters.FRAMES:
        if not (target / f"{name}.ipynb").exists():
            print(f"{name}: not published yet, left out")
            text = re.sub(rf"^ *- file: {name}\n", "", text, flags=re.M)
    contents.write_text(text, "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
