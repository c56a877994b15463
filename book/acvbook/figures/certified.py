"""A fold's objective and what is proved of it; bounds beside true errors."""

import numpy as np


def objective_and_bound(ax, curves):
    """A fold's objective, the bound below it, the ball that holds its minimum, and the minimum."""
    theta = curves["theta"]
    ax.plot(theta, curves["objective"], color="#00838f", lw=2, label="the fold's objective")
    ax.plot(theta, curves["bound"], "--", color="#6d4c41", label="proved to lie below it")
    ax.axvspan(*curves["ball"], color="#9e9d24", alpha=0.25, lw=0, label="holds the refit")
    ax.plot(curves["fit"], 0.0, "o", color="#222222", label="the full fit: gradient, curvature")
    order = np.argsort(theta)
    at = {
        name: np.interp(curves[name], theta[order], curves["objective"][order])
        for name in ("step", "refit")
    }
    ax.plot(curves["step"], at["step"], "s", color="#9e9d24", mfc="none", label="Newton step")
    ax.plot(curves["refit"], at["refit"], "*", ms=11, color="#e57373", label="exact refit")
    low = curves["objective"].min()
    ax.set(ylim=(1.7 * low, -2.2 * low), xlabel="parameter", ylabel="objective less the full fit's")
    return ax


def bound_and_true(ax, checked):
    """Each certified fold's bound against its true error, in standard errors; two certificates."""
    smallest = 1e-9
    for name, colour in (("", "#6d4c41"), ("sharp", "#00838f")):
        found = checked[name]
        seen = found.certificate.certified
        true = np.maximum(found.errors[seen], smallest)
        label = {"": "from the full fit", "sharp": "from each fold's own parameters"}[name]
        bound = np.maximum(found.certificate.theta_errors[seen], smallest)
        ax.plot(true, bound, "o", ms=3, alpha=0.5, mec="none", color=colour, label=label)
    ends = np.array([smallest, true.max()])
    ax.plot(ends, ends, "--", color="#222222", lw=1)
    ax.set(xscale="log", yscale="log", xlabel="true error (standard errors)", ylabel="proved bound")
    return ax


def certified_by(ax, table, value):
    """A value against n / D, a line a family and ridge."""
    for (family, ridge), rows in table.groupby(level=["family", "ridge"]):
        style = {"logistic": "-", "poisson": "--"}[family]
        numbers = rows.index.get_level_values("n / D")
        label = f"{family}, ridge {ridge:g}"
        ax.plot(numbers, rows[value].astype(float), style, marker="o", ms=4, label=label)
    ax.set(xscale="log", xlabel="rows a parameter, n / D")
    return ax
