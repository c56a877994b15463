"""Recording tables that have one row a draw and one column a rung."""

import numpy as np
import pandas as pd

from .. import ledger

NONE, IJ = "no_adjustment", "infinitesimal_jackknife"
MEASURES = {"correlation": "", "differences": "differences", "share": "share", "in_se": "in_se"}
SHORT = {IJ: "theta", "newton_step": "ns", "frozen_newton": "frozen", NONE: "none"}


def record_rungs(id, table, data=None):
    """Record the columns of `table`, one a rung, each beside its column `no_adjustment`."""
    rungs = table.drop(columns="no_adjustment", errors="ignore")
    ledger.record_table(id, rungs, data, table.get("no_adjustment"))


def record_nearer(id, theta, data=None, draws=1):
    """Record in what share of folds, rows of `ladders.theta_table`, the frozen step is no farther
    from exact than doing nothing, and than the jackknife; beside this, that of doing nothing.
    """
    names = {NONE: "frozen_beats_none", IJ: "frozen_beats_ij"}
    nearer = theta[[*names]].ge(theta.frozen_newton, axis=0)
    idle = (theta.no_adjustment <= theta.infinitesimal_jackknife).mean()
    ledger.record_table(id, nearer.mean(), data, pd.Series([np.nan, idle], names), names, draws)


def record_redraws(scores, data):
    """Record, of `traffic.by_draw` in each setting, what the jackknife reaches beside doing
    nothing, its share of the error of doing nothing, its worst draw; and what is claimed of all.
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
        record_rungs(f"ghosh.fig1.{place}.moves", rows["R of differences"], data)
        record_rungs(f"ghosh.fig1.{place}.in_se", rows["in_se"], data)


def record_setting(id, draws, setting, data):
    """Record the jackknife's scores in one setting of `mocap_fits.table`, and all rungs' params."""
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


def record_settings(id, table, data, names, one=None):
    """Record, of `general.over_settings`, medians over draws of some columns, by part: the largest
    over all settings, with the least and the largest as the spread, beside that of doing nothing.
    Of one setting: the jackknife's error of params, and how many times it the printed theorem's is.
    """
    settings = [name for name in table.index.names if name != "draw"]
    medians = table.groupby(settings)[[*names.values()]].median()
    n_draws = table.index.get_level_values("draw").nunique()
    for part, column in names.items():
        rungs = medians[column].unstack("rung")
        idle = rungs.get(NONE, pd.Series(np.nan)).max()
        for rung in ("as_printed", IJ):
            ends = {"draws": n_draws, "spread": [rungs[rung].min(), rungs[rung].max()]}
            baseline = None if np.isnan(idle) else idle
            ledger.record(f"{id}.{part}.{rung}", ends["spread"][1], data, None, baseline, **ends)
    if one is not None:
        theta = one["theta_error"].unstack("rung")
        record_rungs(f"{id}.theta", theta, data)
        times = pd.DataFrame({"printed_over_ij": theta.as_printed / theta[IJ]})
        ledger.record_table(id, times, data)


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
    """Record `general_tables.over_draws`: regret of each criterion in paired standard errors, and
    relatively; the share of draws with exact CV's choice, beside no adjustment; the choices.
    """
    by_criterion = {column: table[column].unstack("criterion") for column in table}
    record_rungs(f"{id}.in_se", by_criterion["in_se"], data)
    for name in ("regret", "same"):
        values = by_criterion[name]
        ours, idle = (values[one].agg("mean" if name == "same" else "median") for one in (IJ, NONE))
        ledger.record_table(id, pd.Series({name: ours}), data, idle, draws=len(values))
    for name in ("gamma_p", "gamma_i"):
        gamma = by_criterion[name]
        ledger.record_table(id, gamma[["exact"]], data, gamma[NONE], {"exact": name})
