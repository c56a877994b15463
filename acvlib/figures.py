"""Figures: `(ax, results, …) → ax`. Computes nothing; the only module that imports matplotlib."""

import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.dates import ConciseDateFormatter

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
        fig.text(0.995, 0.005, "simulated data", ha="right", va="bottom", color="#b00020", fontsize=9)
    path = Path(os.environ.get("ACVLIB_OUTPUT", "build/interactive"), "figures", f"{name}.svg")
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".part")
    fig.savefig(draft, format="svg", metadata={"Date": None})
    draft.replace(path)
    plt.close(fig)
    return fig


# Structured models

RUNGS = {
    "no_adjustment": ("no adjustment", "#6c757d"),
    "infinitesimal_jackknife": ("infinitesimal jackknife", "#2a6f97"),
    "frozen_newton": ("one frozen step", "#e07a1f"),
    "newton_step": ("one Newton step", "#3a7d44"),
    "exact": ("exact refit", "#222222"),
}


def series(ax, time, values, blocks):
    """A series in time, with each left-out block (an array of sites) shaded; nan leaves a gap."""
    for block in blocks:
        ax.axvspan(time[block[0]], time[block[-1]], color="#e07a1f", alpha=0.25, lw=0)
    ax.plot(time, values, lw=0.5, color="#2a6f97")
    ax.xaxis.set_major_formatter(ConciseDateFormatter(ax.xaxis.get_major_locator()))
    ax.set_ylabel("cars in 5 minutes")
    return ax


def scatter(ax, reference, other):
    """Pointwise held-out losses of two results against each other, with the line of agreement."""
    x, y = (np.concatenate(result.pointwise) for result in (reference, other))
    ax.plot([x.min(), x.max()], [x.min(), x.max()], "k--", lw=0.8, zorder=3)
    ax.plot(x, y, ".", ms=2, color="#a23b72", rasterized=True)
    ax.set_xlabel(f"loss, {RUNGS[reference.method][0]}")
    ax.set_ylabel(f"loss, {RUNGS[other.method][0]}")
    return ax


def differences(ax, reference, baseline, *others):
    """How far each result moves the pointwise losses from the baseline, against how far the reference does."""
    x, base = (np.concatenate(result.pointwise) for result in (reference, baseline))
    reach = np.abs(x - base).max()
    ax.plot([-reach, reach], [-reach, reach], "k--", lw=0.8, zorder=3)
    for result in others:
        name, colour = RUNGS[result.method]
        moved = np.concatenate(result.pointwise) - base
        ax.plot(x - base, moved, ".", ms=2, color=colour, label=name, rasterized=True)
    ax.set_xlabel(f"{RUNGS[reference.method][0]} minus baseline")
    ax.set_ylabel("rung minus baseline")
    return ax


def error_ladder(ax, errors):
    """One box a rung of the folds' parameter errors, in standard errors, on a log axis; `errors` by method."""
    boxes = ax.boxplot(list(errors.values()), whis=(5, 95), widths=0.6, showfliers=False, patch_artist=True)
    for box, median, method in zip(boxes["boxes"], boxes["medians"], errors, strict=True):
        box.set(facecolor=RUNGS[method][1], alpha=0.75)
        median.set(color="black")
    ax.set_xticks(range(1, len(errors) + 1), [RUNGS[method][0].replace(" ", "\n", 1) for method in errors])
    ax.set_yscale("log")
    ax.set_ylabel("parameter error (standard errors)")
    return ax


def lines_by_rung(ax, table, ylabel):
    """One line a rung (column) of a table against its index, both axes logarithmic."""
    for method in table:
        name, colour = RUNGS[method]
        ax.plot(table.index, table[method], "o-", color=colour, label=name)
    ax.set(xscale="log", yscale="log", xlabel=table.index.name, ylabel=ylabel)
    ax.set_xticks(table.index, [f"{size:,}" for size in table.index])
    ax.minorticks_off()
    return ax


def published(ax, table):
    """The paper's own seconds as hollow marks, in the colours of their rungs (columns)."""
    for method in table:
        ax.plot(table.index, table[method], "o--", color=RUNGS[method][1], mfc="none", lw=0.6)
    return ax


# Regression

ESTIMATES = {
    "train": ("training error", "#6c757d"),
    "ij": ("infinitesimal jackknife", "#2a6f97"),
    "ns": ("one Newton step", "#3a7d44"),
    "exact": ("exact leave-one-out", "#222222"),
    "test": ("test data", "#a23b72"),
}


def error_differences(ax, ours, authors=None):
    """Boxes of each estimate minus the test error over data sets; the authors', where given, hollow beside ours."""
    for place, name in enumerate(("train", "ij", "ns", "exact")):
        style = {"widths": 0.35, "patch_artist": True, "medianprops": {"color": "black"}, "flierprops": {"ms": 3}}
        box = ax.boxplot(ours[name] - ours.test, positions=[place - 0.2], **style)
        box["boxes"][0].set(facecolor=ESTIMATES[name][1], alpha=0.75)
        if authors is not None and name in authors:
            box = ax.boxplot(authors[name] - authors.test, positions=[place + 0.2], **style)
            box["boxes"][0].set(facecolor="white", edgecolor=ESTIMATES[name][1])
    ax.axhline(0.0, color=ESTIMATES["test"][1], lw=1)
    ax.set_xticks(range(4), ["training\nerror", "IJ", "Newton\nstep", "exact"])
    return ax


def estimates_against(ax, table, ylabel, logy=True):
    """One line for each column of a table that has a name in ESTIMATES, against its index, which is logarithmic."""
    for column in table.columns.intersection(list(ESTIMATES)):
        name, colour = ESTIMATES[column]
        ax.plot(table.index, table[column], "o-", ms=4, color=colour, label=name)
    ax.set(xscale="log", yscale="log" if logy else "linear", xlabel=table.index.name, ylabel=ylabel)
    return ax


def authors_estimates(ax, table):
    """The authors' own numbers as hollow marks, in the colours of `estimates_against`."""
    for column in table.columns.intersection(list(ESTIMATES)):
        ax.plot(table.index, table[column], "o--", ms=4, mfc="none", lw=0.6, color=ESTIMATES[column][1])
    return ax


def bound_and_actual(ax, table):
    """Theorem 1's bound and the largest actual error against n; hollow where the condition fails somewhere."""
    for column, name, colour in (("bound", "bound", "#e07a1f"), ("actual", "largest actual error", "#2a6f97")):
        ax.plot(table.n, table[column], "-", color=colour, label=name)
        hold = table.applies == 1.0
        ax.plot(table.n[hold], table[column][hold], "o", color=colour)
        ax.plot(table.n[~hold], table[column][~hold], "o", color=colour, mfc="white")
    ax.set(xscale="log", yscale="log", xlabel="n", ylabel="Euclidean distance of parameters")
    return ax


def rates(ax, tables):
    """Largest errors against n, one colour a table (by label), every repetition a mark, the mean a line."""
    for label, table in tables.items():
        (line,) = ax.plot(table.groupby("n").ij.mean(), "-", label=label)
        ax.plot(table.n, table.ij, ".", ms=4, color=line.get_color())
    ax.set(xscale="log", yscale="log", xlabel="n", ylabel="largest error of a fold")
    return ax


def norm_centres(ax, table):
    """Mean gradient norms against sqrt(D), one mark a setting, with the line of equality that was claimed."""
    root = table.dim**0.5
    for law, rows in table.groupby("law"):
        ax.plot(root[rows.index], root[rows.index] + rows.centre, "o", ms=4, label=law)
    ax.plot([0, root.max()], [0, root.max()], "k--", lw=0.8)
    ax.set(xlabel="square root of D", ylabel="mean gradient norm")
    return ax


# TreeCV

_VARIANTS = {
    ("treecv", "fixed"): ("C0", "-", "TreeCV, fixed"),
    ("treecv", "randomized"): ("C0", "--", "TreeCV, randomized"),
    ("standard", "fixed"): ("C1", "-", "standard, fixed"),
    ("standard", "randomized"): ("C1", "--", "standard, randomized"),
}


def cv_spread(ax, table, published=None):
    """Standard deviation of the CV estimate against the number of folds; faint crosses: as published."""
    for variant, (colour, line, label) in _VARIANTS.items():
        ours = table.loc[variant].sort_values("folds")
        ax.plot(ours["folds"], ours["sd"], line, color=colour, marker="o", label=label)
        if published is not None:
            theirs = published.loc[variant].sort_values("folds")
            ax.plot(theirs["folds"], theirs["sd"], line, color=colour, marker="x", alpha=0.35, linewidth=0.8)
    ax.set(xscale="log", yscale="log", xlabel="folds", ylabel="sd of the estimate × 100")
    ax.legend(fontsize="small")
    return ax


def running_times(axes, frame, name):
    """Three panels of the frame of `treecv.repeat`: fixed order, random order, and leave one out on log scales."""
    folds = frame[frame["k"] > 0]
    for ax, order in zip(axes, ("fixed", "randomized"), strict=False):
        running_time(ax, folds[folds["order"] == order], f"{name}, {order}")
    running_time(axes[2], frame[frame["k"] == 0], f"{name}, leave one out").set(xscale="log", yscale="log")
    return axes


def running_time(ax, frame, title):
    """Median seconds against n, one line for each method, order and k."""
    for (method, order, k), part in frame.groupby(["method", "order", "k"]):
        colour, line, label = _VARIANTS[method, order]
        median = part.groupby("n")["seconds"].median()
        name = f"{label.split(',')[0]}, k = {k}" if k else label
        width = {5: 0.8, 10: 1.3, 100: 2.0}.get(k, 1.3)
        ax.plot(median.index, median, line, color=colour, linewidth=width, marker=".", label=name)
    ax.set(title=title, xlabel="rows n", ylabel="seconds")
    ax.legend(fontsize="x-small")
    return ax


def against_bound(ax, k, measured, bound, ylabel):
    """A cost against the number of folds, and the bound of a theorem above it."""
    ax.plot(k, measured, marker="o", label="measured")
    ax.plot(k, bound, "--", color="C4", label="bound")
    ax.set(xscale="log", xlabel="folds k", ylabel=ylabel)
    ax.legend()
    return ax
