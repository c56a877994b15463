"""The page of benchmarks, made from the recorded run: a figure and a table for each script."""

import ast
import json
import math
from pathlib import Path

from acvbook.prose import plain

RECORDED = Path("book/published/benchmarks.json")
MET, MISSED, FREE = "#00838f", "#b00020", "#616161"  # none of them is a method's colour
HEAD = """# Benchmarks

What the library costs beside what its users would run instead. Every number is a ratio of seconds,
or of errors, within one run on one machine: where calls are short the two sides take turns, so that
a slow spell hits both. Below 1 the side that is named first is the smaller one. A row with a limit
says what we promise; the limits stand in the scripts in `benchmarks/`.
"""
NONE = """
No run is recorded yet: `make bench` runs the benchmarks, `make publish-bench` keeps their records.
"""


def write(target):
    """Write the page and its figures into `target`."""
    records = json.loads(RECORDED.read_text("utf-8")) if RECORDED.exists() else {}
    (target / "benchmarks.md").write_text(page(records), "utf-8")
    for name, record in records.items():
        draw(record["rows"], f"bench_{name}", target)


def page(records):
    """MyST text of the whole page."""
    if not records:
        return HEAD + NONE
    rows = [row for record in records.values() for row in record["rows"]]
    limited = [row for row in rows if row["limit"] is not None]
    met = sum(row["met"] for row in limited)
    summary = f"{len(rows)} ratios; {met} of {len(limited)} limits are met.\n"
    sections = [section(name, record) for name, record in records.items()]
    return "\n".join([HEAD, summary, *sections])


def section(name, record):
    """One script: what it measures, its circumstances, its figure and its table."""
    about = ast.get_docstring(ast.parse(Path("benchmarks", f"{name}.py").read_text("utf-8")))
    where = (
        f"{record['date']}, commit `{record['commit']}`, {record['processor']}, "
        f"{record['cores']} cores, Python {record['python']}."
    )
    cells = [row_cells(row) for row in record["rows"]]
    lines = ["| what | ratio | limit | |", "| --- | --- | --- | --- |"]
    lines += [f"| {' | '.join(one)} |" for one in cells]
    table = "\n".join(lines)
    return f"## {name}\n\n{about}\n\n{picture(name, record['rows'])}\n{table}\n\n{where}\n"


def row_cells(row):
    """What was measured, the ratio, its limit and whether it is met."""
    if row["limit"] is None:
        return row["name"], plain(row["value"]), "", ""
    word = "at least" if row["at_least"] else "at most"
    verdict = "met" if row["met"] else "**missed**"
    return row["name"], plain(row["value"]), f"{word} {row['limit']:g}", verdict


def picture(name, rows):
    """The directive of a script's figure."""
    missed = [row["name"] for row in rows if not row["met"]]
    alt = f"{len(rows)} ratios on a logarithmic axis, {len(missed)} of them beyond their limits."
    return f"""```{{figure}} figures/bench_{name}.svg
:name: fig-bench-{name}
:alt: {alt}

Filled dots: ratios that meet their limit, the bar beside them. Crosses: ratios that miss it.
Hollow: ratios without a limit. Look for dots near their bars, and for the line at 1, where both
sides are equal.
```
"""


def draw(rows, name, folder):
    """Each ratio as a mark, and its limit as a bar."""
    from acvbook import figures  # slow to import, for a page that need not be there

    drawn = [row for row in rows if row["value"] > 0]  # no difference at all has no logarithm
    fig, ax = figures.subplots(figsize=(8, 0.9 + 0.28 * len(drawn)))
    for place, row in enumerate(drawn):
        ax.plot(row["value"], place, **look(row))
        if row["limit"] is not None:
            ax.plot(row["limit"], place, "|", color="black", ms=14, mew=2)
    ax.axvline(1.0, color="black", lw=0.8, ls=":")
    ax.set(xscale="log", xlabel="ratio", ylim=(len(drawn) - 0.4, -0.6))
    ax.xaxis.set_major_formatter("{x:g}")
    ax.xaxis.set_minor_formatter("")
    values = [1.0, *limits(drawn), *(row["value"] for row in drawn)]
    ax.set_xticks(ticks(values))
    ax.set_xlim(min(values) / 1.5, max(values) * 1.5)
    ax.set_yticks(range(len(drawn)), [row["name"] for row in drawn], fontsize=9)
    figures.save(fig, name, folder=folder)


def limits(rows):
    """The limits that there are."""
    return [row["limit"] for row in rows if row["limit"] is not None]


def ticks(values):
    """Powers of ten from below the least to above the largest; between near ones 2 and 5, too."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    steps = (1, 2, 5) if high - low <= 2 else (1,)
    return [step * 10.0**power for power in range(low, high + 1) for step in steps]


def look(row):
    """Colour and marker of a ratio."""
    if row["limit"] is None:
        return {"marker": "o", "color": FREE, "mfc": "white", "ms": 7}
    return {"marker": "o", "color": MET} if row["met"] else {"marker": "x", "color": MISSED}
