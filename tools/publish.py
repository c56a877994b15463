"""publish.py NAME FOLDER PUBLISHED: keep what a run made, if it was on real data and without
problems, in the place of what an earlier run made.
"""

import shutil
import sys
import tempfile
from pathlib import Path

from acvbook import ledger, origin
from acvbook.claims import load_claims
from acvbook.whole import lock


def problems(name, records):
    """What keeps the records of a chapter from being published, one sentence each."""
    claims = load_claims()
    measured = {record["id"] for record in records}
    concerned = {id: c for id, c in claims.items() if id in measured or c.notebook == name}
    return ledger.problems(records, concerned) + stand_ins(records, claims)


def stand_ins(records, claims):
    """What was measured on a simulated stand-in that may not be published, one sentence each."""
    leaves = [(record, claims[record["id"]]) for record in records]
    return [
        f"{claim.id}: measured on a simulated stand-in (set ACVLIB_DATA)"
        for record, claim in leaves
        if claim.is_stand_in(record["data"]) and not (claim.stand_in or claim.parts)
    ]


def published_with(new, name, published):
    """All records that are published once those of a chapter have taken the place of its old."""
    claims = load_claims()
    path = published / "ledger.json"
    old = ledger.read(path) if path.exists() else []
    kept = [r for r in old if r["id"] in claims and not claims[r["id"]].parts]
    return ledger.judged([r for r in kept if r["notebook"] != name] + new)


def main(name, folder, published):
    folder, published = Path(folder), Path(published)
    run = origin.run_of(name, folder)
    if not run or run == origin.run_of(name, published):
        return  # what is published is current, or is this run
    part = folder / "ledger" / f"{name}.json"
    records = ledger.read(part) if part.exists() else []
    if weak := problems(name, records):
        sys.exit("\n".join([f"{name}: not published", *weak]))
    try:
        lock(published.parent)  # two chapters may end at once
        with tempfile.TemporaryDirectory(dir=folder) as staging:
            for file in run["files"]:
                if folder / file != part:
                    Path(staging, file).parent.mkdir(exist_ok=True)
                    shutil.copy(folder / file, Path(staging, file))
            ledger.write(published / "ledger.json", published_with(records, name, published))
            origin.deliver(Path(staging), published, name, run)
    except OSError as error:
        sys.exit(f"{name}: not published, run it again: {error}")
    print(f"{name}: published")


if __name__ == "__main__":
    main(*sys.argv[1:])
