"""What the fixed steps of a Pipeline, and a choice that a search made, leave out of a fold.

`approx_cross_validate` keeps both as they were for all rows; scikit-learn's `cross_validate` fits
and chooses anew in each fold. The gap between their mean scores is what that leaves out.
"""

import numpy as np
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import acvlib as acv

N_COLUMNS = 20
CS = {"C": np.logspace(-2, 1, 4)}


def pipelines() -> dict:
    """What people put in front of, or around, a regression."""
    regression = LogisticRegression(max_iter=1000)
    search = GridSearchCV(regression, CS, scoring="neg_log_loss", cv=3)
    return {
        "StandardScaler": make_pipeline(StandardScaler(), regression),
        "PCA(5)": make_pipeline(PCA(5), regression),
        "StandardScaler, PCA(5)": make_pipeline(StandardScaler(), PCA(5), regression),
        "search for C": search,
    }


def draw(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """(X (n, 20) of unequal scales and correlated, y (n,)) of a logistic regression."""
    factors = rng.normal(size=(n, 5))
    X = factors @ rng.normal(size=(5, N_COLUMNS)) + rng.normal(size=(n, N_COLUMNS))
    y = factors[:, 0] + rng.logistic(size=n) > 0.0
    return X * np.geomspace(0.5, 2.0, N_COLUMNS), y.astype(int)


def gaps(pipeline: object, n: int, rng: np.random.Generator) -> dict[str, float]:
    """Mean log score by ten folds minus scikit-learn's, whose steps are fitted anew in each fold.

    "as fitted": refits of the regression alone; "approximate": Newton steps of it; "baseline":
    nothing adjusted; "standard error": of the mean score itself, over folds.
    """
    X, y = draw(n, rng)
    cv = StratifiedKFold(10, shuffle=True, random_state=0)
    settings = {"cv": cv, "scoring": "neg_log_loss"}
    real = cross_validate(clone(pipeline), X, y, **settings)["test_score"]
    fitted = clone(pipeline).fit(X, y)
    found = {"standard error": real.std(ddof=1) / np.sqrt(len(real))}
    methods = {"as fitted": "exact", "approximate": "newton_step", "baseline": "no_adjustment"}
    for name, method in methods.items():
        ours = acv.approx_cross_validate(fitted, X, y, method=method, **settings)["test_score"]
        found[name] = ours.mean() - real.mean()
    return found


def table(sizes: tuple, n_draws: int, rng: np.random.Generator) -> list[dict]:
    """A row for each pipeline and size: medians of `gaps` over draws."""
    rows = []
    for name, pipeline in pipelines().items():
        for n in sizes:
            drawn = [gaps(pipeline, n, rng) for _ in range(n_draws)]
            medians = {key: float(np.median([each[key] for each in drawn])) for key in drawn[0]}
            rows.append({"pipeline": name, "n": n} | medians)
    return rows
