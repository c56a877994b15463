"""What the genomics model refuses, and says so: data, folds, and clusters that lose their genes."""

import numpy as np
import pytest
from acvbook.gene_clusters import GeneClusters
from acvbook.gene_clusters.checks import EmptyCluster, SingularRegression
from acvbook.gene_clusters.regression import spline_basis
from test_genomics import FOLDS, HOURS, expression

import acvlib as acv

Y, BASIS = expression(24), spline_basis(HOURS, 4, 2)
NAN = np.where(np.arange(Y.size).reshape(Y.shape) == 5, np.nan, Y)
CONSTANT = np.concatenate([Y[:7], np.ones((1, 9, 3)), Y[7:]])

BAD = {
    "no replicates axis": (
        {"expression": Y[..., 0]},
        r"expression \(24, 9\) must be genes by times by replicates",
    ),
    "other times": ({"basis": BASIS[1:]}, r"basis \(8, 6\) times by p"),
    "NaN": ({"expression": NAN}, "expression holds 1 values"),
    "infinite basis": ({"basis": np.where(BASIS == 1, np.inf, BASIS)}, "basis holds"),
    "negative regularisation": ({"regularisation": -0.1}, "must be >= 0"),
    "concentration below 1": ({"concentration": 0.5}, "concentration >= 1"),
    "one cluster": ({"n_clusters": 1}, "n_clusters = 1 must be from 2 to the number of genes, 24"),
    "more clusters than genes": ({"n_clusters": 25}, "n_clusters = 25"),
    "unknown reading": ({"assigned_by": "folds"}, "one of 'all times', 'kept times'"),
    "collinear basis": ({"basis": BASIS[:, [0, 1, 2, 3, 4, 4]]}, "determine 5 of 6"),
    "constant gene": (
        {"expression": CONSTANT},
        r"1 genes without residual variance \(first: gene 7\)",
    ),
}


@pytest.mark.parametrize(("changes", "message"), BAD.values(), ids=BAD.keys())
def test_a_model_that_cannot_be_fitted_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        GeneClusters(**({"expression": Y, "basis": BASIS, "n_clusters": 3} | changes))


RUNGS = [
    acv.no_adjustment,
    acv.infinitesimal_jackknife,
    acv.frozen_newton,
    acv.newton_step,
    acv.exact,
]


@pytest.mark.parametrize("rung", RUNGS)
def test_a_fold_that_leaves_fewer_times_than_coefficients_is_named(rung):
    model = GeneClusters(Y, BASIS, 3)
    folds = [*FOLDS, np.arange(4)]
    with pytest.raises(
        SingularRegression, match="fold 5 leaves 5 times of 3 replicates, which determine 5 of 6"
    ):
        rung(acv.fit(model), folds)


def test_a_fold_that_takes_a_genes_variance_is_named():
    flat = Y.copy()
    flat[4, 1:] = 2.0  # varies at the first time alone
    model = GeneClusters(flat, BASIS, 3)
    with pytest.raises(
        SingularRegression, match="fold 1 leaves 1 genes without residual variance .first: gene 4."
    ):
        acv.infinitesimal_jackknife(acv.fit(model), [np.array([3]), np.array([0])])


def emptied(model, params, share=1e-4):
    """Params with a cluster that holds hardly a gene."""
    moved = params.copy()
    moved[-1] = np.log(share)
    return moved


def test_a_cluster_that_empties_is_named():
    model = GeneClusters(Y, BASIS, 3)
    with pytest.raises(
        EmptyCluster, match="leaves cluster 2 with .* of 24 genes: take fewer clusters than 3"
    ):
        model.check_optimum(emptied(model, acv.fit(model).params))
