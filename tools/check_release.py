"""check_release.py: whether all that names the version agrees, this commit's tag included."""

import json
import re
import subprocess
import sys
from pathlib import Path

import acvlib


def faults(version, changelog, citation, archive, tags):
    """What does not agree with `version`, one sentence each; all but the last two are texts."""
    heading = rf"^## {re.escape(version)} \(\d{{4}}-\d\d-\d\d\)"
    cited = [line.split(": ")[0] for line in citation.splitlines()]
    agrees = {
        f"CHANGELOG.md has no '## {version} (year-month-day)'": re.search(heading, changelog, re.M),
        f"CITATION.cff is not of {version}": f"version: {version}" in citation.splitlines(),
        "CITATION.cff has no date-released": "date-released" in cited,
        ".zenodo.json names a version; the archive takes it from the tag": "version" not in archive,
        f"this commit's tag {tags} is not v{version}": not tags or f"v{version}" in tags,
    }
    return [fault for fault, holds in agrees.items() if not holds]


def main():
    texts = [Path(name).read_text("utf-8") for name in ("CHANGELOG.md", "CITATION.cff")]
    archive = json.loads(Path(".zenodo.json").read_text("utf-8"))
    tags = subprocess.check_output(["git", "tag", "--points-at", "HEAD"], text=True).split()
    if found := faults(acvlib.__version__, *texts, archive, tags):
        sys.exit("\n".join(found))
    print(f"{acvlib.__version__}: {'tagged' if tags else 'ready to be tagged'}")


if __name__ == "__main__":
    main()
