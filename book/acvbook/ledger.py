"""The ledger: every reproduced number, what it was measured on, and whether it meets its claim.

A notebook calls `begin` once and `record` for each number. The build then merges the notebooks'
parts into one `ledger.json` (`merge`). The verdict `ok` always comes from `book/claims.toml`, never
from a notebook: `True`, `False`, or `None` where there is no verdict (no rule at this scale, or the
numbers come from a simulated stand-in for the data set that the claim is about).
"""

import json
import os
import platform
import subprocess
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from . import whole
from .claims import CLAIMS, PROVENANCES, ROOT, SCALES, LedgerError, load_claims

KEYS = [
    "id",
    "value",
    "paper",
    "ok",
    "data",
    "data_sha256",
    "scale",
    "seed",
    "seconds",
    "notebook",
    "commit",
    "versions",
]
PACKAGES = ("numpy", "scipy", "numba", "autograd", "acvlib")


@dataclass
class _Run:
    """What all records of one notebook share, and the records made so far."""

    notebook: str
    shared: dict
    claims: dict
    records: dict = field(default_factory=dict)


_run = None


def begin(notebook, scale, seed):
    """Start the ledger of one notebook: `begin("01_traffic", scale, seed)`,
    before anything is recorded.
    """
    global _run
    if scale not in SCALES:
        raise LedgerError(f"{notebook}: scale = {scale!r} is not {' or '.join(SCALES)}")
    shared = {
        "notebook": notebook,
        "scale": scale,
        "seed": seed,
        "commit": commit(),
        "versions": versions(),
    }
    _run = _Run(notebook, shared, load_claims())


def record(id, value, data=None, seconds=None):
    """Record `value` for the claim `id`; returns the record, verdict included.

    `data` is what the number was measured on: anything with `provenance` and `sha256`, or `None`
    for a number that needs no data set. `seconds` is the time the measurement took. Raises
    `LedgerError` before `begin`, for an id that is not in `book/claims.toml` or already recorded,
    and for NaN or infinity.
    """
    if _run is None:
        raise LedgerError(f"{id}: ledger.begin(notebook, scale, seed) comes first")
    if id not in _run.claims:
        raise LedgerError(f"{id} is not listed in {CLAIMS.relative_to(ROOT)}")
    if id in _run.records:
        raise LedgerError(f"{id} is recorded twice in {_run.notebook}")
    measured = {
        "id": id,
        "value": _plain(id, value),
        "seconds": seconds,
        **_run.shared,
        **_provenance(data),
    }
    _run.records[id] = _judged(measured, _run.claims[id])
    output = Path(os.environ.get("ACVLIB_OUTPUT", ROOT / "build" / "interactive"))
    _write(output / "ledger" / f"{_run.notebook}.json", list(_run.records.values()))
    return _run.records[id]


def _plain(id, value):
    """`value` as JSON has it: numpy scalars and arrays become numbers and lists."""
    try:
        return json.loads(json.dumps(value, allow_nan=False, default=lambda array: array.tolist()))
    except ValueError as error:
        raise LedgerError(f"{id}: {value!r} is not a finite number") from error


def _provenance(data):
    if data is None:
        return {"data": "simulated", "data_sha256": None}
    if data.provenance not in PROVENANCES:
        raise LedgerError(f"provenance = {data.provenance!r} is neither real nor simulated")
    return {"data": data.provenance, "data_sha256": data.sha256}


def _judged(record, claim):
    verdict = {
        "paper": claim.paper,
        "ok": claim.judge(record["value"], record["data"], record["scale"]),
    }
    return {"id": claim.id, "value": record["value"]} | verdict | record | verdict


def merge(folder, claims=None):
    """Join `folder/ledger/*.json` into `folder/ledger.json`, in the order of the claims;
    returns the records.

    Verdicts are taken anew from the claims. A claim whose parts were recorded, but not itself, gets
    a record that counts them.
    """
    claims = claims or load_claims()
    records = {}
    for part in sorted(Path(folder, "ledger").glob("*.json")):
        for record in _read(part):
            if record["id"] not in claims or record["id"] in records:
                raise LedgerError(
                    f"{record['id']} in {part.name}: not listed in the claims, or recorded before"
                )
            records[record["id"]] = _judged(record, claims[record["id"]])
    for claim in claims.values():
        recorded = [records[part] for part in claim.parts if part in records]
        if recorded and claim.id not in records:
            records[claim.id] = _parent(claim, recorded, claims)
    merged = [records[id] for id in claims if id in records]
    _write(Path(folder, "ledger.json"), merged)
    return merged


def _read(path):
    """The records of one notebook; LedgerError, with the file, for anything else."""
    try:
        records = json.loads(path.read_text("utf-8"))
        for record in records:
            missing = set(KEYS).difference(record)
            if missing or not {record["data"]} <= {*PROVENANCES}:
                raise ValueError(f"not a record: {record!r:.100}")
    except (ValueError, TypeError) as error:
        raise LedgerError(f"{path} is damaged ({error}): delete it and run {path.stem}") from None
    return records


def _parent(claim, recorded, claims):
    """The record of a claim that consists of its parts: `ok` when every part with a rule is."""
    scale, real = recorded[0]["scale"], all(record["data"] == "real" for record in recorded)
    verdicts = [record["ok"] for record in recorded if scale in claims[record["id"]].must]
    seconds = [record["seconds"] for record in recorded if record["seconds"] is not None]
    return recorded[0] | {
        "id": claim.id,
        "value": f"{verdicts.count(True)} of {len(verdicts)} parts hold"
        if verdicts
        else f"{len(recorded)} parts",
        "paper": claim.paper,
        "ok": None if None in verdicts or not verdicts else all(verdicts),
        "data": "real" if real else "simulated",
        "seconds": sum(seconds) if seconds else None,
    }


def problems(records, claims=None):
    """What keeps a merged ledger from being complete, one sentence each; empty when all is well."""
    claims = claims or load_claims()
    recorded = {record["id"]: record for record in records}
    scales = {record["scale"] for record in records}
    missing = [
        f"{claim.id}: {claim.notebook} should record it, and did not"
        for claim in claims.values()
        if claim.notebook and claim.id not in recorded and scales <= set(claim.scales)
    ]
    unexplained = [
        f"{id}: {record['value']!r} does not meet {claims[id].must[record['scale']]!r}, unexplained"
        for id, record in recorded.items()
        if record["ok"] is False
        and not claims[id].parts
        and not claims[id].explanation  # parts speak for themselves
    ]
    return missing + unexplained


def commit():
    """Short hash of HEAD, `-dirty` with uncommitted work; outside git `$GITHUB_SHA` or
    `unknown`.
    """
    git = ["git", "-C", str(ROOT)]
    try:
        head = subprocess.check_output(
            [*git, "rev-parse", "--short", "HEAD"], text=True, stderr=subprocess.DEVNULL
        )
        # What a publishing run itself writes does not make it dirty.
        status = [*git, "status", "--porcelain", "--", ".", ":!book/published"]
        return head.strip() + ("-dirty" if subprocess.check_output(status) else "")
    except (OSError, subprocess.CalledProcessError):
        return os.environ.get("GITHUB_SHA", "unknown")


def versions():
    """Versions of Python and of the packages that the numbers depend on."""
    return {"python": platform.python_version()} | {name: version(name) for name in PACKAGES}


def _write(path, records):
    """Write atomically: a reader sees the old file or the whole new one."""
    text = json.dumps(records, indent=1, ensure_ascii=False, allow_nan=False)
    whole.write(path, text + "\n")
