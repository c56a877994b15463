"""Figures 7 and 8 of Ghosh et al. (2020): frames of one recording left out at random,
in blocks, or at its end.
"""

import numpy as np
import pandas as pd

from acvlib.compare import theta_errors
from acvlib.folds import contiguous, iid, leave_future_out
from acvlib.methods.ladder import ladder
from acvlib.models import GaussianHMM
from acvlib.models.hmm.emissions import AutoRegression, NeuralAutoRegression

from .mocap_fits import Fitted, fitted, states

SCHEMES = {"iid": iid, "contiguous": contiguous}


def models(sequence, n_states, rng, n_restarts):
    """The three emissions of Figure 8, initial, transitions and sigma held, by name;
    all predict the same frames.
    """
    found, labels = {}, None
    chosen = {
        "Gaussian": AutoRegression(0),
        "AR(1)": AutoRegression(1),
        "NAR(1)": NeuralAutoRegression(1),
    }
    for name, emission in chosen.items():
        found[name] = fitted(
            name, [sequence], n_states, emission, rng, n_restarts, labels, 1, "steps"
        )
        labels = states(found[name]) if name == "AR(1)" else labels
    return found


def everything_free(sequence, n_states, rng):
    """(model, fit) of a Gaussian HMM whose initial, transitions and variances are parameters
    too.
    """
    from acvlib.fit import fit

    model = GaussianHMM(sequence[1:], n_states)
    return model, fit(model, rng=rng)


def within(model, full, percents, n_folds, rng):
    """All rungs for i.i.d. and contiguous folds at each rate, by (scheme, percent)."""
    settings = [(name, percent) for name in SCHEMES for percent in percents]
    return {
        (name, percent): ladder(
            model, full, SCHEMES[name](model.n_sites, percent, n_folds, rng, model.observed)
        )
        for name, percent in settings
    }


def future(one: Fitted, first):
    """All rungs with the frames from t on left out, t = first ... n_sites - 1."""
    starts = range(first, one.model.n_sites)
    return ladder(
        one.model, one.fit, leave_future_out(one.model.n_sites, starts, observed=one.model.observed)
    )


def all_losses(result):
    """-log p(x_t | x outside the fold) of every left-out frame, folds one after another."""
    return np.concatenate(result.losses)


def first_losses(result):
    """-log p(x_t | x before t) of the first left-out frame of each fold, (n_folds,)."""
    return np.array([losses[0] for losses in result.losses])


def table(results, of=all_losses):
    """How far pointwise losses and parameters are from the exact refits',
    a row for each setting and rung.
    """
    rows = [
        _row(key, cv, rungs["exact"], of) for key, rungs in results.items() for cv in rungs.values()
    ]
    return pd.DataFrame(rows).set_index(["setting", "rung"])


def _row(key, cv, exact, of):
    gap, theta = of(cv) - of(exact), theta_errors(exact, cv)
    return {
        "setting": key if isinstance(key, str) else f"{key[0]} {key[1]} %",
        "rung": cv.method,
        "mean_error": abs(gap).mean(),
        "largest_error": abs(gap).max(),
        "correlation": np.corrcoef(of(cv), of(exact))[0, 1],
        "theta": np.median(theta),
        "theta_max": theta.max(),
        "seconds": cv.seconds,
    }
