"""Algorithm 4 of Ghosh et al. (2020), which the paper derives and does not run:
labels of single words left out.
"""

from itertools import product

import numpy as np
import pandas as pd

from acvlib.fit import fit_at
from acvlib.methods.exact import exact
from acvlib.methods.frozen_newton import frozen_newton
from acvlib.methods.jackknife import infinitesimal_jackknife
from acvlib.methods.ladder import no_adjustment
from acvlib.models import LinearChainCRF
from acvlib.weighting import hide_labels

RUNGS = (no_adjustment, infinitesimal_jackknife, frozen_newton, exact)


def within(model, full):
    """The same CRF with tokens as sites, and its `Fit`, which is at the same optimum:
    no label is hidden yet.
    """
    tokens = LinearChainCRF(model.emissions, model.labels, model.ridge, hide_labels)
    return tokens, fit_at(tokens, full.params)


def ladder(model, full, folds):
    """All rungs on folds of tokens, a dict of `CVResult`."""
    return {rung.__name__: rung(model, full, folds) for rung in RUNGS}


def table(results):
    """One row a fold: its loss, exact; and for each other rung the parameter error in standard
    errors of the fit.
    """
    reference = results["exact"]
    between = reference.fit.standard_errors_between
    columns = {
        "loss": reference.fold_totals,
        "move": between(reference.params, reference.fit.params),
    }
    return pd.DataFrame(
        columns
        | {
            name: between(r.params, reference.params)
            for name, r in results.items()
            if name != "exact"
        }
    )


def summary(results, rows=slice(None)):
    """One row a rung: median and largest parameter error, mean error of the loss,
    over folds numbered `rows`.
    """
    errors, reference = table(results).loc[rows], results["exact"]
    return pd.DataFrame(
        {
            name: {
                "theta_error": errors[name].median(),
                "theta_error_max": errors[name].max(),
                "loss_error": np.abs(result.fold_totals - reference.fold_totals)[
                    errors.index
                ].mean(),
            }
            for name, result in results.items()
            if name != "exact"
        }
    ).T.rename_axis("rung")


def hardest(results, share=0.1):
    """The numbers of the folds with the largest exact losses, a share of all."""
    losses = results["exact"].fold_totals
    return np.sort(np.argsort(-losses)[: max(2, int(share * len(losses)))])


def enumeration_gap(model, params, rng, n_sentences=20, longest=4):
    """The largest |F - enumeration| over short sentences with random labels hidden,
    one sentence at a time.

    Enumeration: -log of the summed probabilities of all label sequences that agree with what is
    known.
    """
    lengths = np.array([len(tags) for tags in model.labels])
    short = np.flatnonzero(lengths <= longest)
    gaps = []
    for n in rng.choice(short, min(n_sentences, len(short)), replace=False):
        one = LinearChainCRF([model.emissions[n]], [model.labels[n]], model.ridge, hide_labels)
        known = rng.integers(0, 2, lengths[n]).astype(float)
        value, _ = one.derivatives.value_and_gradient(params, known)
        ridge = 0.5 * model.ridge * params @ params
        gaps.append(
            abs(
                value
                - ridge
                - enumerated(one.emissions[0], one.labels[0], known, one.unpack(params))
            )
        )
    return max(gaps)


def enumerated(scores, labels, known, params):
    """-log P(the known labels) of a sentence, by a sum over all label sequences."""
    everything = np.array(list(product(range(scores.shape[1]), repeat=len(labels))))
    places = np.arange(len(labels))
    total = (
        params.start[everything[:, 0]]
        + params.end[everything[:, -1]]
        + scores[places, everything].sum(axis=1)
    )
    total = total + params.transitions[everything[:, :-1], everything[:, 1:]].sum(axis=1)
    agree = ((everything == labels) | (known == 0)).all(axis=1)
    return np.logaddexp.reduce(total) - np.logaddexp.reduce(total[agree])


def over_none(table):
    """Median parameter errors of the frozen step and the IJ over that of no adjustment,
    from a `summary`.
    """
    median = table.theta_error / table.theta_error["no_adjustment"]
    return {"frozen": median["frozen_newton"], "ij": median["infinitesimal_jackknife"]}
