"""Figures 7 and 8 of Ghosh et al. (2020): frames left out at random, in blocks, at the end."""

import numpy as np
import pandas as pd

from acvlib.folds import contiguous, iid, leave_future_out
from acvlib.methods.ladder import ladder
from acvlib.models.hmm.emissions import AutoRegression, NeuralAutoRegression

from .ladders import against_exact, pointwise
from .mocap_fits import AS_THEY_COME, Fitted, fit_all, known_variance

SCHEMES = {"iid": iid, "contiguous": contiguous}
EMISSIONS = {
    "Gaussian": AutoRegression(0, **AS_THEY_COME),
    "AR(1)": AutoRegression(1, **AS_THEY_COME),
    "NAR(1)": NeuralAutoRegression(1, **AS_THEY_COME),
}


def models(sequence, n_states, rng, n_restarts, variance=1.0, names=tuple(EMISSIONS)):
    """The emissions of Figure 8 by name, initial and transitions held; all predict the same frames.

    variance: sigma^2, estimated first and then held if it is `None`.
    """
    chosen = {name: EMISSIONS[name] for name in names}
    if variance is not None:
        chosen = known_variance(chosen, variance)
    return fit_all([sequence], n_states, chosen, rng, n_restarts, context=1, sites="steps")


def within(model, full, percents, n_folds, rng):
    """All rungs for i.i.d. and contiguous folds at each rate, by (scheme, percent)."""
    settings = [(name, percent) for name in SCHEMES for percent in percents]
    return {
        (name, percent): ladder(
            full, SCHEMES[name](model.n_sites, percent, n_folds, rng, model.observed)
        )
        for name, percent in settings
    }


def within_draws(fits, percents, n_folds, rng):
    """`within` of the Gaussian model of each fit, one of `models`, from folds drawn anew: the
    rungs of the first, and the `table` of each draw, one below another.
    """
    gaussians = [fit["Gaussian"] for fit in fits]
    drawn = [within(one.model, one.fit, percents, n_folds, rng) for one in gaussians]
    return drawn[0], _one_below_another(map(table, drawn))


def future_draws(fits, starts):
    """`future` of each fit, one of `models`: the `table` of each draw, one below another.

    starts: (model, first, every) by the name of a setting.
    """
    return _one_below_another(
        table(
            {setting: future(fit[name], *when) for setting, (name, *when) in starts.items()},
            first_losses,
        )
        for fit in fits
    )


def _one_below_another(tables):
    return pd.concat(dict(enumerate(tables, 1)), names=["draw"])


def future(one: Fitted, first, every=1):
    """All rungs with the frames from t on left out, t = first, first + every ... n_sites - 1."""
    starts = range(first, one.model.n_sites, every)
    return ladder(one.fit, leave_future_out(one.model.n_sites, starts, observed=one.model.observed))


def first_losses(result):
    """-log p(x_t | x before t) of the first left-out frame of each fold, (n_folds,)."""
    return np.array([losses[0] for losses in result.losses])


def table(results, losses_of=pointwise):
    """`ladders.against_exact`, a row for each setting and rung."""
    tables = {
        key if isinstance(key, str) else f"{key[0]} {key[1]} %": against_exact(rungs, losses_of)
        for key, rungs in results.items()
    }
    return pd.concat(tables, names=["setting"]).fillna({"differences": 0.0})
