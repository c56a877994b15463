"""The style sheet, and how a figure is kept."""

import os
from pathlib import Path

import matplotlib.pyplot as plt

STYLE = {
    "axes.grid": True,
    "axes.prop_cycle": plt.cycler(color=["#2a6f97", "#e07a1f", "#3a7d44", "#a23b72", "#6c757d", "#c9a227"]),
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": "medium",
    "figure.constrained_layout.use": True,
    "font.size": 10,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "lines.linewidth": 1.3,
    # Ids inside an SVG are random unless salted: the same figure is to be the same file.
    "svg.hashsalt": "acvlib",
}


def subplots(*args, **kwargs):
    """`plt.subplots` in the house style, which stays in force for what is drawn into it."""
    plt.rcParams.update(STYLE)
    return plt.subplots(*args, **kwargs)


def save(fig, name, data=None):
    """Write `figures/<name>.svg` in the output folder (`$ACVLIB_OUTPUT`) and return the closed `fig`.

    With `data` of provenance "simulated" the figure says so on its face. The file is written whole or not at
    all, and is the same byte for byte when the figure is the same.
    """
    if data is not None and data.provenance == "simulated":
        strip = 0.2 / fig.get_figheight()  # of its own, so that no label lies under it
        fig.set_layout_engine("constrained", rect=(0.0, strip, 1.0, 1.0 - strip))
        fig.text(0.995, 0.005, "simulated data", ha="right", va="bottom", color="#b00020", fontsize=9)
    path = Path(os.environ.get("ACVLIB_OUTPUT", "build/interactive"), "figures", f"{name}.svg")
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".part")
    fig.savefig(draft, format="svg", metadata={"Date": None})
    draft.replace(path)
    plt.close(fig)
    return fig
