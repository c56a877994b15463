"""publish.py NAME FOLDER PUBLISHED: keep what a run made, if it was on real data and without
problems, in the place of what an earlier run made.
"""

import fcntl
import shutil
import sys
import tempfile
from pathlib import Path

from acvbook import ledger, origin
from acvbook.claims import load_claims


def stand_ins(records, claims):
    """What was measured on a simulated stand-in that may not be published, one sentence each."""
    return [
        f"{claim.id}: measured on a simulated stand-in (set ACVLIB_DATA)"
        for record in records
        if (claim := claims.get(record["id"])) and claim.is_stand_in(record["data"])
        if not (claim.stand_in or claim.parts)
    ]


def main(name, folder, published):
    folder, published = Path(folder), Path(published)
    run = origin.run_of(name, folder)
    if not run or run == origin.run_of(name, published):
        return  # what is published is current, or is this run
    part = folder / "ledger" / f"{name}.json"
    records = ledger.judged(ledger.read(part)) if part.exists() else []
    claims = load_claims()
    measured = {record["id"] for record in records}
    concerned = {id: c for id, c in claims.items() if id in measured or c.notebook == name}
    if weak := ledger.problems(records, concerned) + stand_ins(records, claims):
        sys.exit("\n".join([f"{name}: not published", *weak]))
    with Path("build/.publish").open("w") as held, tempfile.TemporaryDirectory(dir=folder) as place:
        fcntl.flock(held, fcntl.LOCK_EX)  # two chapters may end at once
        for file in {*run["files"]} - {f"ledger/{name}.json"}:
            Path(place, file).parent.mkdir(exist_ok=True)
            shutil.copy(folder / file, Path(place, file))
        path = published / "ledger.json"
        old = ledger.read(path) if path.exists() else []
        kept = [r for r in old if r["notebook"] != name]
        gone = [r for r in kept if r["id"] not in claims]  # chapters shown as they ran cite them
        ledger.write(path, [*ledger.judged([*kept, *records]), *gone])
        origin.deliver(Path(place), published, name, run)
    print(f"{name}: published")


if __name__ == "__main__":
    main(*sys.argv[1:])
