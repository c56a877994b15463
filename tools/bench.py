"""bench.py run [NAME...] | publish: run the benchmarks, or keep what they recorded.

`run` skips scripts that build/bench/ has a record of, of the same code: one that was stopped goes
on where it was. `publish` gathers the records in book/published/benchmarks.json.
"""

import datetime
import hashlib
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from acvbook import ledger
from acvbook.whole import write

BENCHMARKS = Path("benchmarks")
RECORDS = Path("build/bench")
PUBLISHED = Path("book/published/benchmarks.json")


def scripts():
    """All benchmarks, by name."""
    return {path.stem: path for path in sorted(BENCHMARKS.glob("[!_]*.py"))}


def code(name):
    """A checksum of the library, of a script and of what scripts share: what a record is of."""
    paths = sorted([*Path("acvlib").rglob("*.py"), *BENCHMARKS.glob("_*.py"), scripts()[name]])
    whole = hashlib.sha256()
    for path in paths:
        whole.update(f"{path} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return whole.hexdigest()


def record_of(name):
    """What `name` recorded of the present code; None without such a record."""
    path = RECORDS / f"{name}.json"
    found = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return found if found.get("code") == code(name) else None


def run(names):
    """Run what has no record yet; exit with the names of scripts that failed."""
    failed = []
    for name, path in scripts().items():
        if (names and name not in names) or record_of(name):
            continue
        print(f"== {name}", flush=True)
        with tempfile.NamedTemporaryFile("r", suffix=".json", encoding="utf-8") as file:
            settings = os.environ | {"ACVLIB_BENCH": file.name}
            if subprocess.run([sys.executable, str(path)], env=settings).returncode:
                failed.append(name)
                continue
            rows = [json.loads(line) for line in file]
        record = circumstances() | {"code": code(name), "rows": rows}
        write(RECORDS / f"{name}.json", json.dumps(record, indent=1))
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


def circumstances():
    """Where and when a record was made."""
    cpus = Path("/proc/cpuinfo")  # Linux alone has a name for the processor
    model = re.search(r"model name\s*: (.+)", cpus.read_text()) if cpus.exists() else None
    return {
        "date": datetime.date.today().isoformat(),
        "commit": ledger.commit(),
        "cores": os.cpu_count(),
        "processor": model[1] if model else platform.machine(),
        "python": platform.python_version(),
    }


def publish():
    """Keep the records of all benchmarks; exit with the names of those that have none."""
    records = {name: record_of(name) for name in scripts()}
    missing = [name for name, record in records.items() if record is None]
    if missing:
        sys.exit(f"not published, no record of this code (make bench): {', '.join(missing)}")
    write(PUBLISHED, json.dumps(records, indent=1) + "\n")
    print(PUBLISHED)


if __name__ == "__main__":
    action, *names = sys.argv[1:]
    if action == "publish":
        publish()
    else:
        run(names)
