"""The ledger: every reproduced number, what it was measured on, and whether it meets its claim.

A notebook calls `begin` once and `record` for each number. The build then merges the notebooks'
parts into one `ledger.json` (`merge`). Verdicts always come from `book/claims/`, never from a
notebook. `holds` says whether a record's value meets the rule of this scale. `ok` is the verdict:
the same, but `None` on rebuilt or simulated data where the claim is about real ones. `power` says
whether doing nothing fails the same rule; `None` where doing nothing has no such number.
"""

import fcntl
import json
import os
import platform
import subprocess
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from . import whole
from .claims import CLAIMS, PROVENANCES, ROOT, SCALES, LedgerError, are_beside, holds, load_claims

KEYS = ["id", "value", "baseline", "draws", "spread", "paper", "holds", "ok", "power"]
KEYS += ["data", "data_sha256", "scale", "seed", "seconds", "notebook", "commit", "versions"]
SECONDS = "ratio of seconds"
PACKAGES = ("numpy", "scipy", "numba", "autograd", "acvlib")


_run = None  # the notebook, what all its records share, the claims, and the records so far


def begin(notebook, scale, seed):
    """Start the ledger of one notebook, before anything is recorded."""
    global _run
    if scale not in SCALES:
        raise LedgerError(f"{notebook}: scale = {scale!r} is not {' or '.join(SCALES)}")
    shared = {"notebook": notebook, "scale": scale, "seed": seed}
    shared |= {"commit": commit(), "versions": versions()}
    if running := getattr(_run, "running", None):
        running.close()
    _run = SimpleNamespace(notebook=notebook, shared=shared, claims=load_claims(), records={})
    if scale == "paper":
        (ROOT / "build").mkdir(exist_ok=True)
        _run.running = (ROOT / "build" / ".running").open("w")  # chapters share it while they run
        fcntl.flock(_run.running, fcntl.LOCK_SH)


@contextmanager
def alone():
    """Keep both cores to this chapter, at paper scale: others end first, and begin after it."""
    running = getattr(_run, "running", None)
    if running:
        fcntl.flock(running, fcntl.LOCK_EX)
    yield
    if running:
        fcntl.flock(running, fcntl.LOCK_SH)


def record(id, value, data=None, seconds=None, baseline=None, draws=1, spread=None):
    """Record `value` for the claim `id`; returns the record, verdict included.

    `data` is what the number was measured on: anything with `provenance` and `sha256`, a list of
    such, or `None` for a number that needs no data set. `seconds` is the time the measurement took.
    `baseline` is the same number for doing nothing. `draws` and `spread` (low, high) say over how
    many independent draws `value` is the middle. Raises `LedgerError` before `begin`, for an id
    that is not in `book/claims/` or already recorded, and for NaN or infinity.
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
        "baseline": _plain(id, baseline),
        "draws": draws,
        "spread": _plain(id, spread),
        "seconds": seconds,
        **_run.shared,
        **_provenance(data),
    }
    _run.records[id] = _judged(measured, _run.claims[id])
    output = Path(os.environ.get("ACVLIB_OUTPUT", ROOT / "build" / "interactive"))
    write(output / "ledger" / f"{_run.notebook}.json", list(_run.records.values()))
    return _run.records[id]


def record_draws(id, values, data=None, seconds=None, baseline=None):
    """Record the median of `values`, one a draw, with their 10 % and 90 % quantiles as the spread;
    `baseline` are the values of doing nothing, likewise.
    """
    low, middle, high = np.quantile(np.asarray(values, float), [0.1, 0.5, 0.9])
    if baseline is not None:
        baseline = np.median(np.asarray(baseline, float))
    return record(id, middle, data, seconds, baseline, draws=len(values), spread=[low, high])


def record_table(id, table, data=None, nothing=None, names=None, draws=1):
    """Record what the claims ask of a table: each of its columns COLUMN as `id.COLUMN`, where there
    is such a claim. `names` are other endings of columns, "" for `id` itself.

    A DataFrame has a row a draw. A Series has one value a column, of so many `draws`. `nothing`:
    the same of doing nothing, for each column or one for all; where it has no number, no baseline.
    """
    for column, values in table.items():
        ending = (names or {}).get(column, column)
        name = f"{id}.{ending}" if ending else id
        if name not in _run.claims:
            continue
        baseline = nothing[column] if type(nothing) is type(table) else nothing
        baseline = None if np.isnan(np.asarray(baseline, float)).any() else baseline
        if np.ndim(values):
            record_draws(name, values, data, baseline=baseline)
        else:
            record(name, values, data, baseline=baseline, draws=draws)


def _plain(id, value):
    """`value` as JSON has it: numpy scalars and arrays become numbers and lists."""
    try:
        return json.loads(json.dumps(value, allow_nan=False, default=lambda array: array.tolist()))
    except ValueError as error:
        raise LedgerError(f"{id}: {value!r} is not a finite number") from error


def _provenance(data):
    if data is None:
        return {"data": "simulated", "data_sha256": None}
    sets = data if isinstance(data, list) else [data]
    words, sums = {each.provenance for each in sets}, [each.sha256 for each in sets if each.sha256]
    if not words <= {*PROVENANCES}:
        raise LedgerError(f"provenance: {words} are not all of {', '.join(PROVENANCES)}")
    return {"data": _joint_provenance(words), "data_sha256": " ".join(sums) or None}


def _judged(record, claim):
    """`record` with the paper's number and the verdicts, in the order of KEYS."""
    value, baseline, scale = record["value"], record["baseline"], record["scale"]
    passes = None if baseline is None else claim.holds(baseline, scale)
    verdicts = {
        "paper": claim.paper,
        "data": claim.word(record["data"]),
        "holds": claim.holds(value, scale),
        "ok": claim.judge(value, record["data"], scale),
        "power": None if passes is None else not passes,
    }
    return {key: (record | verdicts)[key] for key in KEYS}


def merge(folder, claims=None):
    """Join `folder/ledger/*.json` into `folder/ledger.json`; returns the records, as `judged`."""
    parts = sorted(Path(folder, "ledger").glob("*.json"))
    records = judged([record for part in parts for record in read(part)], claims)
    write(Path(folder, "ledger.json"), records)
    return records


def judged(measured, claims=None):
    """The records of several notebooks in the order of the claims, which their verdicts are taken
    from anew; a record whose claim is gone is left out. A claim whose parts were recorded, but not
    itself, gets a record that counts them.
    """
    claims = load_claims() if claims is None else claims
    records = {}
    for record in measured:
        if record["id"] in records:
            raise LedgerError(f"{record['id']} of {record['notebook']}: recorded before")
        if record["id"] in claims and not claims[record["id"]].parts:
            records[record["id"]] = _judged(record, claims[record["id"]])
    for claim in claims.values():
        recorded = [records[part] for part in claim.parts if part in records]
        if recorded and claim.id not in records:
            records[claim.id] = _parent(claim, recorded, claims)
    return [records[id] for id in claims if id in records]


def read(path):
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
    """The record of a claim that consists of its parts: one part that fails on real data fails it,
    unless its rule is ours, and parts on stand-ins get no verdict. It has power if most parts of
    the paper's have.
    """
    ruled = [record for record in recorded if record["holds"] is not None]
    judged = [record for record in ruled if record["ok"] is not None]
    ours = [record for record in judged if claims[record["id"]].ours]
    papers = [record for record in judged if not claims[record["id"]].ours]
    powers = [_power(record, ours) for record in papers]
    powers = [power for power in powers if power is not None]
    seconds = [record["seconds"] for record in recorded if record["seconds"] is not None]
    return recorded[0] | {
        "id": claim.id,
        "value": _counts(ruled) if ruled else f"{len(recorded)} parts",
        "baseline": None,
        "draws": min(record["draws"] for record in recorded),
        "spread": None,
        "paper": claim.paper,
        "holds": all(r["holds"] for r in ruled if not claims[r["id"]].ours) if ruled else None,
        "ok": all(record["ok"] for record in papers) if papers else None,
        "power": sum(powers) > len(powers) / 2 if powers else None,
        "data": _joint_provenance({record["data"] for record in recorded}),
        "seconds": sum(seconds) if seconds else None,
    }


def _power(record, ours):
    """Whether a part of the paper's, or a part of ours beside it, holds where doing nothing fails;
    None where doing nothing has no number in any of them.
    """
    beside = [other for other in ours if are_beside(record["id"], other["id"])]
    measured = [one for one in (record, *beside) if one["power"] is not None]
    return any(one["ok"] and one["power"] for one in measured) if measured else None


def _counts(ruled):
    """How many of the ruled parts hold, and on what data the others were that got no verdict."""
    judged = [record for record in ruled if record["ok"] is not None]
    texts = [f"{sum(r['ok'] for r in judged)} of {len(judged)} parts hold"] if judged else []
    for word in PROVENANCES:
        others = [r for r in ruled if r["ok"] is None and r["data"] == word]
        if others:
            texts.append(f"on {word} data {sum(r['holds'] for r in others)} of {len(others)}")
    return "; ".join(texts)


def _joint_provenance(words):
    if len(words) == 1:
        return words.pop()
    if "real, other" in words:
        return "real, other"
    return "real, partial" if words & {"real", "real, partial"} else "simulated"


def problems(records, claims=None):
    """What keeps a merged ledger from being complete, one sentence each; empty when all is well."""
    claims = load_claims() if claims is None else claims
    recorded = {record["id"]: record for record in records}
    scales = {record["scale"] for record in records}
    missing = [
        f"{claim.id}: {claim.notebook} should record it, and did not"
        for claim in claims.values()
        if claim.notebook and claim.id not in recorded and scales <= set(claim.scales)
    ]
    leaves = [(record, claims[record["id"]]) for record in records if record["id"] in claims]
    return missing + [text for record, claim in leaves for text in _weak(record, claim)]


def _weak(record, claim):
    """What keeps the verdict of one record from being evidence."""
    rule = claim.must.get(record["scale"])
    if rule is None or claim.parts:
        return
    if record["ok"] is False and not claim.explanation:
        yield f"{claim.id}: {record['value']!r} does not meet {rule!r}, unexplained"
    if record["baseline"] is None and not claim.nothing:
        yield f"{claim.id}: no baseline: does doing nothing meet the rule too?"
    least = claim.draws if record["scale"] == "paper" else 3
    if record["draws"] >= least:
        return
    if not claim.fixed:
        yield f"{claim.id}: {record['draws']} draws, and not {least}: one draw decides nothing"
    elif claim.unit == SECONDS and len({holds(rule, record["value"] * f) for f in (0.5, 2)}) > 1:
        yield f"{claim.id}: single timings within a factor of two of {rule!r} decide nothing"


def commit():
    """Short hash of HEAD, `-dirty` with uncommitted work; outside git `$GITHUB_SHA`."""
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


def write(path, records):
    """Write atomically: a reader sees the old file or the whole new one."""
    text = json.dumps(records, indent=1, ensure_ascii=False, allow_nan=False)
    whole.write(path, text + "\n")
