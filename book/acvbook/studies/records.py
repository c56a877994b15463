"""Recording tables that have one row a draw and one column a rung."""

import numpy as np
import pandas as pd

from .. import ledger
from . import general

NONE, IJ = "no_adjustment", "infinitesimal_jackknife"
MEASURES = {"correlation": "", "differences": "differences", "share": "share"}
SHORT = {IJ: "theta", "newton_step": "ns", "frozen_newton": "frozen", NONE: "none"}


def record_rungs(id, table, data=None):
    """Record the columns of `table`, one a rung, each beside its column `no_adjustment`."""
    rungs = table.drop(columns="no_adjustment", errors="ignore")
    ledger.record_table(id, rungs, data, table.get("no_adjustment"))


def record_nearer(id, theta, data=None, draws=1, sets=None):
    """Record in what share of folds, rows of `ladders.theta_table`, the frozen step is no farther
    from exact than doing nothing, and than the jackknife; beside this, that of doing nothing. By
    the sets that the folds are in, if these are given.
    """
    names = {NONE: "frozen_beats_none", IJ: "frozen_beats_ij"}
    nearer = theta[[*names]].ge(theta.frozen_newton, axis=0)
    if sets is not None:
        ledger.record_table(id, nearer.groupby(sets).mean(), data, names=names)
        return
    idle = (theta.no_adjustment <= theta.infinitesimal_jackknife).mean()
    ledger.record_table(id, nearer.mean(), data, pd.Series([np.nan, idle], names), names, draws)


def record_redraws(scores, data):
    """Record, of `traffic.by_draw` in each setting, what the jackknife reaches beside doing
    nothing, its share of the error of doing nothing, and its worst draw.
    """
    measures = {
        "ghosh.fig1.{}": "R",
        "ghosh.fig1.{}.moves": "R of differences",
        "ghosh.tab1.{}": "relative error",
        "ghosh.tab1.{}.sd": "two sd",
    }
    for (kind, percent), rows in scores.groupby(level=[0, 1]):
        ours, nothing = (rows.xs(rung, axis=1, level=1) for rung in (IJ, NONE))
        place = f"{kind}.{percent}"
        for id, measure in measures.items():
            ledger.record_draws(id.format(place), ours[measure], data, baseline=nothing[measure])
        share = ours["relative error"] / nothing["relative error"]
        ledger.record_draws(f"ghosh.tab1.{place}.share", share, data, baseline=share / share)
        worst = pd.Series({"worst": ours.R.min()})
        ledger.record_table(f"ghosh.fig1.{place}", worst, data, nothing.R.min(), draws=len(rows))


def record_setting(id, draws, setting, data):
    """Record, of one setting of `mocap_steps.table`, what the jackknife reaches beside doing
    nothing, and every rung's error of params.
    """
    rows = draws.xs(setting, level="setting")
    ours, nothing = (rows[[*MEASURES]].xs(rung, level="rung") for rung in (IJ, NONE))
    ledger.record_table(id, ours, data, nothing, MEASURES)
    ledger.record_table(id, rows.theta.unstack("rung"), data, names=SHORT)


def record_harder(id, draws, harder, easier, data):
    """Record how many times the jackknife's errors in one setting are those in another."""
    for measure, ending in (("mean_error", ""), ("share", ".share")):
        wide = draws[measure].unstack("rung")
        times = wide.xs(harder, level="setting") / wide.xs(easier, level="setting")
        ledger.record_draws(f"{id}{ending}", times[IJ], data, baseline=times[NONE])


def record_over_gammas(id, drawn, pair, data):
    """Record `general.over_draws`: agreement at one pair of gammas; over all pairs the least and
    most of the printed theorem's R of differences, and the least of the jackknife's; and how many
    times the jackknife's error of params the printed theorem's is.
    """
    here = general.at(drawn, *pair)
    for part, column in {
        "loss": "r_loss",
        "difference": "r_difference",
        "theta": "theta_error",
    }.items():
        record_rungs(f"{id}.{part}", general.by_rung(here, column), data)
    theta = general.by_rung(here, "theta_error")
    times = pd.DataFrame({"printed_over_ij": theta.as_printed / theta.infinitesimal_jackknife})
    ledger.record_table(id, times, data)
    medians = drawn.groupby(["gamma_p", "gamma_i", "rung"]).median()
    theta, r = (medians[name].unstack("rung") for name in ("theta_error", "r_difference"))
    ends = {
        "printed_over_ij.least": (theta.as_printed / theta.infinitesimal_jackknife).min(),
        "as_printed.least": r.as_printed.min(),
        "as_printed.most": r.as_printed.max(),
        "infinitesimal_jackknife.least": r.infinitesimal_jackknife.min(),
    }
    ledger.record_table(id, pd.Series(ends), data, draws=len(times))


def record_future(id, drawn, data):
    """Record errors of `acv.leave_future_out` beside those of doing nothing, by `future.by_draw`:
    in shares of the scores' spread, of doing nothing's error, and of params in standard errors.
    """
    spread = drawn["spread"].squeeze()
    ours, none = (
        pd.DataFrame(
            {
                "error": drawn["loss", scheme] / spread,
                "share": drawn["loss", scheme] / drawn["loss", "nothing"],
                "theta": drawn["params", scheme],
            }
        )
        for scheme in ("ours", "nothing")
    )
    ledger.record_table(id, ours, data, none)


def record_choices(id, table, data):
    """Record `general_choice.choices`: the share of draws in which a criterion takes exact CV's
    choice, the jackknife's regret, both beside those of no adjustment; and the choices themselves.
    """
    same, regret, p, i = (
        table[column].unstack("criterion") for column in ("same", "regret", "gamma_p", "gamma_i")
    )
    shares = same.mean().drop("exact")
    nothing = shares.pop("no_adjustment")
    ledger.record_table(id, shares, data, nothing, draws=len(same))
    jackknife = regret.infinitesimal_jackknife
    ledger.record_draws(f"{id}.regret", jackknife, data, baseline=regret.no_adjustment)
    for name, gamma in (("gamma_p", p), ("gamma_i", i)):
        ledger.record_draws(f"{id}.{name}", gamma.exact, data, baseline=gamma.no_adjustment)
