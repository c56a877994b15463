"""The page of benchmarks, made from the recorded run: one figure of the peers, then all numbers."""

import ast
import json
import re
from pathlib import Path

from acvbook.prose import plain

RECORDED = Path("book/published/benchmarks.json")
MET, MISSED = "#00838f", "#b00020"  # neither is a method's colour
# What a user would run instead, by the words of the rows that compare with it.
PEERS = {
    "autograd": "over autograd's",
    "crfsuite": "crfsuite",
    "dynamax": "dynamax",
    "hmmlearn": "hmmlearn",
    "JAX": "JAX scan: our",
    "opt_einsum": "opt_einsum: our",
    "PyTorch": "torch, our training layer",
    "scikit-learn": "refits: seconds|RidgeCV.*seconds|: refits over ours|cross_val_score",
    "SciPy": "trust-ncg with|splu",
}
NO_RATIO = re.compile("difference|a refit by")


def write(target):
    """Draw the figure into `target`; returns the text of the page below it."""
    records = json.loads(RECORDED.read_text("utf-8")) if RECORDED.exists() else {}
    if records:
        draw(beside_peers(records), target)
    return page(records)


def page(records):
    """MyST text of the whole page."""
    limited = [r for record in records.values() for r in record["rows"] if r["limit"] is not None]
    met = sum(row["met"] for row in limited)
    promises = f"\n## What we promise ourselves\n{met} of {len(limited)} limits are met.\n"
    return "\n".join([promises, *(section(*item) for item in records.items())])


def section(name, record):
    """One script, folded: what it measures, its circumstances and its numbers."""
    about = ast.get_docstring(ast.parse(Path("benchmarks", f"{name}.py").read_text("utf-8")))
    where = "{date}, commit `{commit}`, {processor}, {cores} cores, Python {python}."
    lines = ["| what | value | limit |", "| --- | --- | --- |"]
    for row in record["rows"]:
        sign, verdict = "≥" if row["at_least"] else "≤", "met" if row["met"] else "**missed**"
        limit = "" if row["limit"] is None else f"{verdict}: {sign} {plain(row['limit'])}"
        lines.append(f"| {row['name']} | {plain(row['value'])} | {limit} |")
    text = "\n\n".join([about, "\n".join(lines), where.format_map(record)])
    return f":::{{dropdown}} `benchmarks/{name}.py`\n{text}\n:::\n"


def beside_peers(records):
    """{peer: [(our seconds over theirs, whether the limit is met), ...]}, the best peer first."""
    rows = [row for record in records.values() for row in record["rows"]]
    rows = [row for row in rows if row["limit"] is not None and not NO_RATIO.search(row["name"])]
    ratios = {
        peer: [
            (1 / row["value"] if row["at_least"] else row["value"], row["met"])
            for row in rows
            if re.search(words, row["name"])
        ]
        for peer, words in PEERS.items()
    }
    ratios = {peer: sorted(jobs) for peer, jobs in ratios.items() if jobs}
    return dict(sorted(ratios.items(), key=lambda item: item[1][len(item[1]) // 2]))


def draw(ratios, folder):
    """A row of marks for each peer, its name and number of jobs on the left."""
    from acvbook import figures  # slow to import, for a page that need not be there

    fig, ax = figures.subplots(figsize=(7, 0.9 + 0.45 * len(ratios)))
    for place, jobs in enumerate(ratios.values()):
        for ratio, met in jobs:
            ax.plot(ratio, place, "o" if met else "x", color=MET if met else MISSED, alpha=0.6)
    ax.axvline(1.0, color="black", lw=0.8, ls=":")
    names = [f"{peer} ({len(jobs)})" for peer, jobs in ratios.items()]
    ax.set(xscale="log", xlabel="our seconds over theirs", ylim=(len(ratios) - 0.5, -0.5))
    ax.set_yticks(range(len(names)), names)
    figures.save(fig, "benchmarks", folder=folder)
