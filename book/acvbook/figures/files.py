"""How a figure of the book is kept."""

import io
import os
import re
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.transforms import Bbox

from ..whole import write

OUTLINE = re.compile(r'(?<= d=")[^"]*')
TOO_FINE = re.compile(r"(\.\d\d)\d+")  # a hundredth of a point cannot be seen


def save(fig, name, data=None, folder=None):
    """Write `figures/<name>.svg` in `folder`, or the output folder (`$ACVLIB_OUTPUT`), and return
    the closed `fig`.

    With `data` of provenance "simulated" or "rebuilt" the figure says so on its face. The file is
    written whole or not at all, and is the same byte for byte when the figure is the same.
    """
    width, height = fig.get_size_inches()
    strip = 0.0  # inches below the figure
    if data is not None and data.provenance in ("simulated", "rebuilt"):
        strip = 0.25
        text = f"{data.provenance} data"
        below = -0.01 / height
        _hold_legends(fig)
        fig.text(0.995, below, text, ha="right", va="top", color="#b00020", fontsize=11)
    page = Bbox([[0.0, -strip], [width, height]])
    folder = folder or os.environ.get("ACVLIB_OUTPUT", "build/interactive")
    path = Path(folder, "figures", f"{name}.svg")
    drawing = io.StringIO()
    fig.savefig(drawing, format="svg", metadata={"Date": None}, bbox_inches=page)
    write(path, OUTLINE.sub(lambda path: TOO_FINE.sub(r"\1", path[0]), drawing.getvalue()))
    plt.close(fig)
    return fig


def _hold_legends(fig):
    """Keep legends outside the axes where they are: their places are of the page, which grows."""
    fig.draw_without_rendering()
    fig.set_layout_engine("none")
    for legend in fig.legends:
        corner = fig.transFigure.inverted().transform(legend.get_window_extent().min)
        legend.borderaxespad = 0.0
        legend.set_loc("lower left")
        legend.set_bbox_to_anchor(corner, fig.transFigure)
