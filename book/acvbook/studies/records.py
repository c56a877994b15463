"""Recording tables that have one row a draw and one column a rung."""

import pandas as pd

from .. import ledger


def record_rungs(id, table, data=None):
    """Record the columns of `table`, one a rung, each beside its column `no_adjustment`."""
    rungs = table.drop(columns="no_adjustment", errors="ignore")
    ledger.record_table(id, rungs, data, table.get("no_adjustment"))


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
