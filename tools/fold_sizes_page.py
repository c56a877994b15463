"""The page with the slider: its numbers, and a table of them for readers without scripts."""

import json
from pathlib import Path

import chapters
from acvbook.prose import plain

LABELS = {
    "no_adjustment": "no adjustment",
    "infinitesimal_jackknife": "infinitesimal jackknife",
    "frozen_newton": "one frozen step",
    "newton_step": "one Newton step",
}
MEASURES = {"theta": "parameters (standard errors)", "loss": "loss (nats)"}
NONE = "The numbers are not in this run.\n"


def write(target, folder):
    """Put the numbers of a run's `folder` into the page."""
    path = folder / "fold_sizes.json"
    numbers = json.loads(path.read_text("utf-8")) if path.exists() else {}
    page = target / "fold_sizes.md"
    run = chapters.numbers_of(Path("tools/fold_sizes.py"), folder)
    shown = text(numbers, run) if numbers else NONE
    page.write_text(page.read_text("utf-8").replace("<!-- fold sizes -->", shown), "utf-8")


def text(numbers, run):
    """The place of the picture, its numbers, where they come from, and all of them as tables."""
    data = json.dumps(numbers["models"] | {"labels": LABELS, "measures": MEASURES})
    picture = (
        '```{raw} html\n<div class="fold-sizes" hidden></div>\n'
        f'<script type="application/json" id="fold-sizes-data">{data}</script>\n```\n'
    )
    tables = "\n".join(table(name, model) for name, model in numbers["models"].items())
    lost = sum(model["lost"] for model in numbers["models"].values())
    left_out = f"; {lost} folds whose refit did not converge are left out" if lost else ""
    origin = (
        "Computed by `tools/fold_sizes.py`, not typed. Simulated data: "
        f"{numbers['draws']} draws of each model, {numbers['folds']} folds of each size in each "
        "draw. Points are medians over all of them, bands hold the middle eight tenths"
        f"{left_out}. Seed `{numbers['seed']}`. Numbers of {run}"
    )
    return f"{picture}\n{origin}\n\n:::{{dropdown}} All numbers\n{tables}\n:::\n"


def table(name, model):
    """The medians of one model, a table a measure and a row a fold size."""
    head = f"| left out | {' | '.join(LABELS.values())} |\n{'| --- ' * (len(LABELS) + 1)}|"
    lines = []
    for measure, words in MEASURES.items():
        lines += [f"\n**{name}: {words}**\n", head]
        for place, percent in enumerate(model["percents"]):
            cells = [plain(model[measure][method][place][1]) for method in LABELS]
            lines.append(f"| {percent:g} % | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
