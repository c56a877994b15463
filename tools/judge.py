"""judge.py merge|check FOLDER: merge the notebooks' records into FOLDER/ledger.json, or read it;
fail on problems of the ledger, and of what the notebooks' prose says.
"""

import json
import sys
from pathlib import Path

from acvbook import ledger, prose


def main(action, folder):
    path = Path(folder, "ledger.json")
    records = ledger.merge(folder) if action == "merge" else json.loads(path.read_text("utf-8"))
    found = ledger.problems(records) + prose.problems(Path("notebooks"))
    print("\n".join(found) or f"{path}: {len(records)} records, complete")
    sys.exit(bool(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
