"""Recording tables that have one row a draw and one column a rung."""

from .. import ledger


def record_rungs(id, table, data=None, rungs=None):
    """Record the columns of `table` as `id.COLUMN`, each beside its column `no_adjustment`.

    rungs: which; all others than `no_adjustment` where not given. Without such a column, or where
    it is not a number, there is no baseline.
    """
    nothing = table.get("no_adjustment")
    if nothing is not None and nothing.isna().any():
        nothing = None
    for rung in rungs or table.columns.drop("no_adjustment", errors="ignore"):
        ledger.record_draws(f"{id}.{rung}", table[rung], data, baseline=nothing)


def record_future(id, drawn, data):
    """Record errors of `acv.leave_future_out` beside those of doing nothing, by `future.by_draw`:
    in shares of the scores' spread, of doing nothing's error, and of params in standard errors.
    """
    loss, params, spread = drawn["loss"], drawn["params"], drawn["spread"].squeeze()
    none = loss["nothing"]
    ledger.record_draws(f"{id}.error", loss["ours"] / spread, data, baseline=none / spread)
    ledger.record_draws(f"{id}.share", loss["ours"] / none, data, baseline=none / none)
    ledger.record_draws(f"{id}.theta", params["ours"], data, baseline=params["nothing"])


def record_choices(id, table, data):
    """Record `general_choice.choices`: the share of draws in which a criterion takes exact CV's
    choice, the jackknife's regret, both beside those of no adjustment; and the choices themselves.
    """
    same, regret, p, i, inside = (
        table[column].unstack("criterion")
        for column in ("same", "regret", "gamma_p", "gamma_i", "inside")
    )
    shares = same.mean()
    for rung in shares.index.drop(["exact", "no_adjustment"]):
        baseline = shares["no_adjustment"]
        ledger.record(f"{id}.{rung}", shares[rung], data, baseline=baseline, draws=len(same))
    jackknife = regret.infinitesimal_jackknife
    ledger.record_draws(f"{id}.regret", jackknife, data, baseline=regret.no_adjustment)
    ledger.record_draws(f"{id}.gamma_p", p.exact, data, baseline=p.no_adjustment)
    ledger.record_draws(f"{id}.gamma_i", i.exact, data, baseline=i.no_adjustment)
    ledger.record(f"{id}.inside", inside.exact.mean(), data, draws=len(inside))
