"""publish.py FOLDER PUBLISHED: keep the executed notebooks, figures and ledger of a run on real data."""

import json
import shutil
import sys
from pathlib import Path

from acvlib.ledger import load_claims


def refuse_stand_ins(records):
    """Exit with the ids that were measured on a simulated stand-in for real data."""
    claims = load_claims()
    ids = [r["id"] for r in records if claims[r["id"]].is_stand_in(r["data"]) and not claims[r["id"]].stand_in]
    if ids:
        sys.exit(f"not published, measured on simulated stand-ins (set ACVLIB_DATA): {', '.join(ids)}")


def main(folder, published):
    folder, published = Path(folder), Path(published)
    refuse_stand_ins(json.loads((folder / "ledger.json").read_text("utf-8")))
    draft = published.with_name(".published")
    shutil.rmtree(draft, ignore_errors=True)
    shutil.copytree(folder, draft, ignore=shutil.ignore_patterns(".*", "ledger"))
    shutil.rmtree(published, ignore_errors=True)
    draft.rename(published)


if __name__ == "__main__":
    main(*sys.argv[1:])
