"""compare_ledgers.py OLD.json NEW.json: what two runs recorded, largest difference first.

A record whose id or unit says that it was timed differs from run to run; it is listed apart.
"""

import json
import re
import sys
from pathlib import Path

TIMED = re.compile(
    r"seconds|ratio|_over_|_in_|ns_to_ij|times|\.tab1\.|hours|speed|tab2\.as_published"
)


def read(path):
    return {record["id"]: record for record in json.loads(Path(path).read_text("utf-8"))}


def difference(old, new):
    """Relative difference of two numbers, 0 or infinity of anything else."""
    numbers = all(isinstance(value, int | float) for value in (old, new))
    if not numbers or isinstance(old, bool) or isinstance(new, bool):
        return 0.0 if old == new else float("inf")
    return abs(old - new) / max(abs(old), abs(new), 1e-12)


def main(old_path, new_path, most=60):
    old, new = read(old_path), read(new_path)
    for name, only in (("old", old.keys() - new.keys()), ("new", new.keys() - old.keys())):
        if only:
            print(f"only in the {name} one: {', '.join(sorted(only))}")
    both = sorted(old.keys() & new.keys())
    rows = [(difference(old[id]["value"], new[id]["value"]), id) for id in both]
    for size, id in sorted(rows, reverse=True)[: int(most)]:
        verdict = "" if old[id]["ok"] == new[id]["ok"] else "  VERDICT CHANGED"
        kind = "timed" if TIMED.search(id) else "     "
        print(f"{size:9.2g} {kind} {id}: {old[id]['value']!r} {new[id]['value']!r}{verdict}")
    steady = [size for size, id in rows if not TIMED.search(id)]
    equal = sum(size <= 1e-6 for size in steady)
    print(f"{len(steady)} records that are not timed: {equal} equal to 1e-6")


if __name__ == "__main__":
    main(*sys.argv[1:])
