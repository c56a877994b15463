"""TreeCV and standard cross-validation: spread, running time, bounds."""

from matplotlib.ticker import EngFormatter, MaxNLocator

_VARIANTS = {
    ("treecv", "fixed"): ("C0", "-", "TreeCV, fixed"),
    ("treecv", "randomized"): ("C0", "--", "TreeCV, randomized"),
    ("standard", "fixed"): ("C1", "-", "standard, fixed"),
    ("standard", "randomized"): ("C1", "--", "standard, randomized"),
}


def cv_spread(ax, table, published=None):
    """Standard deviation of the CV estimate against the number of folds;
    faint crosses: as published.
    """
    for variant, (colour, line, label) in _VARIANTS.items():
        ours = table.loc[variant].sort_values("folds")
        ax.plot(ours["folds"], ours["sd"], line, color=colour, marker="o", label=label)
        if published is not None:
            theirs = published.loc[variant].sort_values("folds")
            ax.plot(
                theirs["folds"],
                theirs["sd"],
                line,
                color=colour,
                marker="x",
                alpha=0.35,
                linewidth=0.8,
            )
    ax.set(xscale="log", yscale="log", xlabel="folds", ylabel="sd of the estimate × 100")
    ax.legend(fontsize="small")
    return ax


def running_times(axes, frame, name):
    """Three panels of the frame of `treecv.repeat`: fixed order, random order,
    and leave one out on log scales.
    """
    folds = frame[frame["k"] > 0]
    for ax, order in zip(axes, ("fixed", "randomized"), strict=False):
        running_time(ax, folds[folds["order"] == order], f"{name}, {order}")
        ax.xaxis.set_major_locator(MaxNLocator(4))
        ax.xaxis.set_major_formatter(EngFormatter(sep=""))
    running_time(axes[2], frame[frame["k"] == 0], f"{name}, leave one out").set(
        xscale="log", yscale="log"
    )
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
