"""The ledger: every reproduced number, what it was measured on, and whether it meets its claim.

A notebook calls `begin` once and `record` for each number. The build then merges the notebooks'
parts into one `ledger.json` (`merge`). The verdict `ok` always comes from `book/claims.toml`, never
from a notebook: `True`, `False`, or `None` where there is no verdict (no rule at this scale, or the
numbers come from a simulated stand-in for the data set that the claim is about).
"""

import json
import operator
import os
import platform
import re
import subprocess
import tomllib
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CLAIMS = ROOT / "book" / "claims.toml"
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

_COMPARE = {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt}
_RULE = re.compile(r"(<=|>=|<|>|==) (\S+)(?: ± (\S+))?")


class LedgerError(ValueError):
    """A record or a claims file that cannot be right; the message names the id and the file."""


def holds(rule, value):
    """Whether `value` meets `rule`: `is true`, `<= x`, `>= x`, `< x`, `> x`, `== x`, `== x ±
    tol`.
    """
    if rule == "is true":
        return value is True
    match = _RULE.fullmatch(rule)
    if match is None or (match[3] and match[1] != "=="):
        raise LedgerError(f"no such rule: {rule!r}")
    if match[1] == "==":
        return abs(value - float(match[2])) <= float(match[3] or 0)
    return bool(_COMPARE[match[1]](value, float(match[2])))


@dataclass(frozen=True)
class Claim:
    """One checkable statement. `must` maps a scale to its rule; `scales` are those at which it is
    measured; `stand_in` says why a stand-in is published where the real data cannot be had; `parts`
    are ids, each a claim of its own.
    """

    id: str
    source: str
    shows: str
    paper: object = None
    must: dict = field(default_factory=dict)
    data: str = "real"
    notebook: str | None = None
    explanation: str | None = None
    scales: tuple = ("quick", "paper")
    stand_in: str | None = None
    parts: tuple = ()

    def is_stand_in(self, data):
        """Whether `data` ("real" or "simulated") only takes the place of what the claim is
        about.
        """
        return self.data == "real" and data == "simulated"

    def judge(self, value, data, scale):
        """`True` or `False` by this scale's rule;
        `None` without a rule or on a stand-in for real data.
        """
        if self.is_stand_in(data) or scale not in self.must:
            return None
        return holds(self.must[scale], value)


def load_claims(path=CLAIMS):
    """All claims of a claims file by id, each followed by its parts,
    which inherit what they do not set.
    """
    claims = {}
    for id, table in tomllib.loads(Path(path).read_text("utf-8"))["claims"].items():
        parts = {f"{id}.{name}": part for name, part in table.pop("parts", {}).items()}
        claims[id] = Claim(id=id, parts=tuple(parts), **table)
        claims |= {key: Claim(id=key, **(table | part)) for key, part in parts.items()}
    return claims


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
        for record in json.loads(part.read_text("utf-8")):
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
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(path.name + ".part")
    draft.write_text(
        json.dumps(records, indent=1, ensure_ascii=False, allow_nan=False) + "\n", "utf-8"
    )
    draft.replace(path)
