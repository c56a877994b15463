"""The page of benchmarks, made from the recorded run: a figure and a table for each script."""

import ast
import json
import math
from pathlib import Path

from acvbook.prose import plain

RECORDED = Path("book/published/benchmarks.json")
MET, MISSED, FREE = "#00838f", "#b00020", "#616161"  # none of them is a method's colour
WIDTH = 4.8  # inches, of the longest names: a phone shows most of it
LEAST, MOST = 1e-4, 30  # what counts as more than nearly 0, and the rows that a figure has
TITLES = {
    "certify": "Certificates",
    "crf": "Sentences: conditional random fields",
    "doors": "Front doors",
    "future": "Left-out futures, and influence",
    "general": "Unlabelled points",
    "genomics": "Genes",
    "glm": "Regressions",
    "mocap": "Motion capture: hidden Markov models",
    "mrf": "Maps: hidden Markov random fields",
    "traffic": "Traffic: one long series",
    "treecv": "TreeCV",
    "tune": "Tuning",
}
NONE = """
No run is recorded yet: `make bench` runs the benchmarks, `make publish-bench` keeps their records.
"""


def write(target):
    """Write the page and its figures into `target`."""
    records = json.loads(RECORDED.read_text("utf-8")) if RECORDED.exists() else {}
    whole = target / "benchmarks.md"
    filled = whole.read_text("utf-8").replace("<!-- benchmarks -->", page(records))
    whole.write_text(filled, "utf-8")
    for name, record in records.items():
        draw(record["rows"], f"bench_{name}", target)


def page(records):
    """MyST text of the whole page."""
    if not records:
        return NONE
    rows = [row for record in records.values() for row in record["rows"]]
    limited = [row for row in rows if row["limit"] is not None]
    met = sum(row["met"] for row in limited)
    summary = f"{len(rows)} numbers; {met} of {len(limited)} limits are met.\n"
    sections = [section(name, record) for name, record in records.items()]
    return "\n".join([summary, *sections])


def section(name, record):
    """One script: what it measures, its circumstances, its figure and its table."""
    about = ast.get_docstring(ast.parse(Path("benchmarks", f"{name}.py").read_text("utf-8")))
    where = (
        f"{record['date']}, commit `{record['commit']}`, {record['processor']}, "
        f"{record['cores']} cores, Python {record['python']}."
    )
    lines = ["| what | value | limit |", "| --- | --- | --- |"]
    for row in record["rows"]:
        limit = ""
        if row["limit"] is not None:
            sign = "≥" if row["at_least"] else "≤"
            verdict = "met" if row["met"] else "**missed**"
            limit = f"{verdict}: {sign} {plain(row['limit'])}"
        lines.append(f"| {row['name']} | {plain(row['value'])} | {limit} |")
    table = "\n".join(lines)
    return f"## {TITLES[name]}\n\n{about}\n\n{picture(name, record['rows'])}\n{table}\n\n{where}\n"


def picture(name, rows):
    """The directive of a script's figure."""
    drawn = shown(rows)
    missed = [row["name"] for row in drawn if not row["met"]]
    alt = f"{len(drawn)} numbers on a logarithmic axis, {len(missed)} of them beyond their limits."
    rest = "" if len(drawn) == len(rows) else "The table has more numbers."
    return f"""```{{figure}} figures/bench_{name}.svg
:name: fig-bench-{name}
:alt: {alt}

Filled dots: numbers that meet their limit, the bar beside them. Crosses: numbers that miss it.
Hollow: no limit. Look for dots near their bars, and for the line at 1, where both sides are equal.
{rest}
```
"""


def shown(rows):
    """The rows that a figure has: numbers that are not nearly 0; of more than `MOST` those nearest
    to their limits, or beyond.
    """
    large = [row for row in rows if row["value"] >= LEAST]
    if len(large) <= MOST:
        return large
    limited = [row for row in large if row["limit"]]
    room = {row["name"]: abs(math.log(row["value"] / row["limit"])) * row["met"] for row in limited}
    nearest = sorted(room, key=room.get)[:MOST]
    return [row for row in limited if row["name"] in nearest]


def draw(rows, name, folder):
    """Each number as a mark, its name above it, and its limit as a bar."""
    from acvbook import figures  # slow to import, for a page that need not be there

    drawn = shown(rows)
    fig, ax = figures.subplots(figsize=(WIDTH, 0.9 + 0.4 * len(drawn)))
    box = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
    in_axes = {"fontsize": 9, "va": "center", "transform": ax.get_yaxis_transform(), "bbox": box}
    for place, row in enumerate(drawn):
        ax.text(0.015, place - 0.45, row["name"], **in_axes)
        marker, colour = ("o", MET) if row["met"] else ("x", MISSED)
        if row["limit"] is None:
            ax.plot(row["value"], place, "o", color=FREE, mfc="white", ms=7)
        else:
            ax.plot(row["value"], place, marker, color=colour)
            ax.plot(row["limit"], place, "|", color="black", ms=11, mew=2)
    ax.axvline(1.0, color="black", lw=0.8, ls=":")
    ax.set(xscale="log", xlabel="ratio", ylim=(len(drawn) - 0.5, -0.9), yticks=[])
    ax.xaxis.set_major_formatter("{x:,g}")
    ax.xaxis.set_minor_formatter("")
    values = [1.0, *(row["value"] for row in drawn), *(row["limit"] or 1.0 for row in drawn)]
    ax.set_xlim(min(values) / 1.5, max(values) * 1.5)
    figures.save(fig, name, folder=folder)
