"""check_release.py: whether all that names the version agrees, this commit's tag included."""

import json
import re
import subprocess
import sys
from pathlib import Path

import acvlib


def faults(version, changelog, citation, archive, tags):
    """What does not agree with `version`, one sentence each; all but the last two are texts."""
    found = []
    if not re.search(rf"^## {re.escape(version)} \(\d{{4}}-\d\d-\d\d\)", changelog, re.M):
        found.append(f"CHANGELOG.md has no heading '## {version} (year-month-day)'")
    if not re.search(rf"^version: {re.escape(version)}$", citation, re.M):
        found.append(f"CITATION.cff has another version than {version}")
    if not re.search(r"^date-released: ", citation, re.M):
        found.append("CITATION.cff has no date-released")
    if "version" in archive:
        found.append(".zenodo.json names a version; the archive takes it from the tag")
    if tags and f"v{version}" not in tags:
        found.append(f"this commit is tagged {', '.join(tags)}, not v{version}")
    return found


def main():
    texts = [Path(name).read_text("utf-8") for name in ("CHANGELOG.md", "CITATION.cff")]
    archive = json.loads(Path(".zenodo.json").read_text("utf-8"))
    tags = subprocess.check_output(["git", "tag", "--points-at", "HEAD"], text=True).split()
    if found := faults(acvlib.__version__, *texts, archive, tags):
        sys.exit("\n".join(found))
    print(f"{acvlib.__version__}: {'tagged' if tags else 'ready to be tagged'}")


if __name__ == "__main__":
    main()
