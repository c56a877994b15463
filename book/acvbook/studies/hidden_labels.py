"""Algorithm 4 of Ghosh et al. (2020), not run there: labels of single words left out."""

from dataclasses import replace

import numpy as np
import pandas as pd

import acvlib as acv
from acvlib.fit import TOLERANCE
from acvlib.models import LinearChainCRF
from acvlib.weighting import hide_labels

from .ladders import theta_table

RUNGS = (acv.no_adjustment, acv.infinitesimal_jackknife, acv.frozen_newton, acv.newton_step)
SHORT = {"no_adjustment": "none", "linear": "linear", "infinitesimal_jackknife": "ij"}
SHORT |= {"frozen_newton": "frozen", "newton_step": "newton"}


def within(model, full):
    """The same CRF with tokens as sites, and its `Fit`, at the same optimum."""
    tokens = LinearChainCRF(model.emissions, model.labels, model.ridge, hide_labels)
    return tokens, acv.fit_at(tokens, full.params)


def ladder(model, full, folds, tolerance=TOLERANCE):
    """All rungs on folds, by name; `exact` to the tolerance; of tokens the `linear` step, too."""
    found = {rung.__name__: rung(full, folds) for rung in RUNGS}
    if model.scheme:
        found["linear"] = linear(full, found["no_adjustment"])
    return found | {"exact": acv.exact(full, folds, tolerance)}


def linear(full, still):
    """Algorithm 4 with the weights of Eq. 13 as printed, on the folds of a result `still`.

    A label's part of F is w_t (known) + (1 - w_t) (summed out), linear in its weight. So its column
    of J is the gradient of -log p(label | x, all other labels), without the 1/p of `hide_labels`.
    """
    derivatives, folds = full.model.derivatives, still.folds
    singles = acv.Folds(np.concatenate(list(folds))[:, None])
    whole = derivatives.value_and_gradient(full.params, np.ones(still.n_sites))[1]
    own = whole - derivatives.fold_gradients(full.params, singles)[1]
    starts = np.cumsum(folds.sizes) - folds.sizes
    params = full.params + full.hessian.solve(np.add.reduceat(own, starts).T).T
    losses = derivatives.heldout(params, folds)
    return replace(still, method="linear", params=params, losses=losses)


def table(results):
    """One row a fold: its loss, exact; how far the refit moves, and each other rung's parameter
    error, in standard errors of the fit.
    """
    errors = theta_table(results)
    before = {"loss": results["exact"].fold_totals, "move": errors.no_adjustment}
    return pd.DataFrame(before).join(errors)


def loss_errors(results):
    """|loss - exact loss| of each fold, (n_folds, rungs)."""
    totals = pd.DataFrame({name: r.fold_totals for name, r in results.items()})
    return abs(totals.sub(totals.exact, axis=0)).drop(columns="exact")


def summary(results, rows=slice(None)):
    """Median and largest parameter error and mean error of the loss, over folds `rows`."""
    errors = theta_table(results).loc[rows]
    losses = loss_errors(results).loc[errors.index]
    columns = {"theta_error": errors.median(), "theta_error_max": errors.max()}
    return pd.DataFrame(columns | {"loss_error": losses.mean()}).rename_axis("rung")


def hardest(results, rows=slice(None), share=0.1):
    """The numbers of the folds with the largest exact losses, a share of those numbered `rows`."""
    losses = results["exact"].fold_totals
    numbers = np.arange(len(losses))[rows]
    order = np.argsort(-losses[numbers], kind="stable")
    return np.sort(numbers[order[: max(2, int(share * len(numbers)))]])


def ratios(results, draws):
    """A row a draw of folds, their numbers `draws`: of each rung in SHORT, over no adjustment, the
    median parameter error (`theta`), that of the hardest tenth (`worst`), and the mean absolute
    error of the losses (`loss`).
    """
    errors, gaps = table(results), loss_errors(results)
    rows = []
    for draw in draws:
        folds, worst = errors.index[draw], hardest(results, draw)
        measures = {
            "theta": errors.loc[folds].median(),
            "worst": errors.loc[worst].median(),
            "loss": gaps.loc[folds].mean(),
        }
        rows.append(
            {
                f"{measure}.{short}": values[name] / values["no_adjustment"]
                for measure, values in measures.items()
                for name, short in SHORT.items()
                if name in values
            }
        )
    return pd.DataFrame(rows)
