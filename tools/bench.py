"""bench.py NAME: run a benchmark and keep what it reports in build/bench/NAME.json.

`bench.py publish` gathers all of these in book/published/benchmarks.json.
"""

import datetime
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


def run(name):
    """Run a script, and keep where and when; exit where it fails."""
    with tempfile.NamedTemporaryFile("r", suffix=".json", encoding="utf-8") as file:
        settings = os.environ | {"ACVLIB_BENCH": file.name}
        command = [sys.executable, str(BENCHMARKS / f"{name}.py")]
        if subprocess.run(command, env=settings).returncode:
            sys.exit(f"{name}: failed")
        rows = [json.loads(line) for line in file]
    cpus = Path("/proc/cpuinfo")  # Linux alone has a name for the processor
    model = re.search(r"model name\s*: (.+)", cpus.read_text()) if cpus.exists() else None
    record = {
        "date": datetime.date.today().isoformat(),
        "commit": ledger.commit(),
        "cores": os.cpu_count(),
        "processor": model[1] if model else platform.machine(),
        "python": platform.python_version(),
        "rows": rows,
    }
    write(RECORDS / f"{name}.json", json.dumps(record, indent=1))


def publish():
    """Keep the records of all benchmarks."""
    names = [path.stem for path in sorted(BENCHMARKS.glob("[!_]*.py"))]
    records = {name: json.loads((RECORDS / f"{name}.json").read_text("utf-8")) for name in names}
    write(PUBLISHED, json.dumps(records, indent=1) + "\n")
    print(PUBLISHED)


if __name__ == "__main__":
    publish() if sys.argv[1] == "publish" else run(sys.argv[1])
