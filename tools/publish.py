"""publish.py FOLDER PUBLISHED: keep the executed notebooks,
figures and ledger of a run on real data.
"""

import json
import shutil
import sys
from pathlib import Path

from acvbook.claims import load_claims
from acvbook.whole import replacing_folder

BENCHMARKS = "benchmarks.json"


def refuse_stand_ins(records):
    """Exit with the ids that were measured on a simulated stand-in for real data;
    a claim of parts by its parts.
    """
    claims = {id: claim for id, claim in load_claims().items() if not claim.parts}
    leaves = [(record, claims[record["id"]]) for record in records if record["id"] in claims]
    ids = [
        record["id"]
        for record, claim in leaves
        if claim.is_stand_in(record["data"]) and not claim.stand_in
    ]
    if ids:
        sys.exit(
            f"not published, measured on simulated stand-ins (set ACVLIB_DATA): {', '.join(ids)}"
        )


def main(folder, published):
    folder, published = Path(folder), Path(published)
    refuse_stand_ins(json.loads((folder / "ledger.json").read_text("utf-8")))
    try:
        with replacing_folder(published) as draft:
            shutil.copytree(folder, draft, ignore=shutil.ignore_patterns(".*", "ledger"))
            if (published / BENCHMARKS).exists():  # recorded on their own
                shutil.copy(published / BENCHMARKS, draft)
    except OSError as error:
        sys.exit(f"not published, {published} is as it was: {error}")


if __name__ == "__main__":
    main(*sys.argv[1:])
