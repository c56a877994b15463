"""Leave-one-out of regressions: rungs in units of one fit, and beside what a user would run.

Medians of repeats where a call is short. statsmodels, bbai and RandALO join where installed.
"""

import importlib.util

import numpy as np
from _measure import ratio, report
from acvbook.studies.glm_errors import truth
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import LeaveOneOut, cross_validate

import acvlib as acv
from acvlib.models import GLM

PENALTY = 1.0
EQUAL = 1.001  # ratio of errors up to which two one-step formulas count as the same


def logistic(n, dim, seed=0):
    """A simulated logistic regression with a penalty, as a GLM."""
    rng = np.random.default_rng(seed)
    return GLM(*truth("logistic", dim, rng).draw(n, rng), "logistic", penalty=PENALTY)


def rungs_in_fits(n, dim):
    """All n folds of IJ and Newton step, in fits."""
    model = logistic(n, dim)
    fit, folds = acv.fit(model), acv.folds.leave_one_out(n)
    for rung, limit in ((acv.newton_step, 0.25), (acv.infinitesimal_jackknife, None)):
        share = ratio(lambda rung=rung: rung(fit, folds), lambda: acv.fit(model))
        report(f"{rung.__name__}, all {n:,} folds, in fits", share, limit)


def exact_in_fits(n, dim):
    """All n folds refitted to convergence, in fits."""
    model = logistic(n, dim)
    fit, folds = acv.fit(model), acv.folds.leave_one_out(n)
    assert acv.exact(fit, folds).diagnostics["converged"].all()
    fits = ratio(lambda: acv.exact(fit, folds), lambda: acv.fit(model), 5)
    report(f"exact, all {n:,} folds, in fits", fits, 20)


def ours(model, rung):
    """Log loss of every left-out row, the fit included."""
    return rung(acv.fit(model), acv.folds.leave_one_out(model.n_sites)).pointwise


def log_loss(estimator, X, y):
    """Minus the mean log P(y)."""
    return -estimator.predict_log_proba(X)[np.arange(len(y)), y.astype(int)].mean()


def scikit_learn(model):
    """n refits of LogisticRegression with its default solver and tolerance."""
    estimator = LogisticRegression(C=1.0 / PENALTY, max_iter=1000)
    return cross_validate(estimator, model.X, model.y, cv=LeaveOneOut(), scoring=log_loss)[
        "test_score"
    ]


def statsmodels_one_step(model):
    """GLMInfluence's one-step deletion; it has no penalty."""
    import statsmodels.api as sm

    fitted = sm.GLM(model.y, model.design, family=sm.families.Binomial()).fit()
    eta = model.design @ fitted.params - fitted.get_influence(observed=False).d_linpred
    return np.logaddexp(0.0, (1 - 2 * model.y) * eta)


def bbai_alo(model):
    """bbai's approximate leave-one-out at a fixed penalty."""
    from bbai.glm import LogisticRegression as Bbai

    return np.asarray(Bbai(C=1.0 / PENALTY).fit(model.X, model.y).aloocvs_)


def randalo(n, dim):
    """RandALO's estimate of the mean loss beside the Newton step's, fits included in both."""
    from randalo import RandALO
    from torch.nn.functional import softplus

    drawn = logistic(n, dim)
    model = GLM(drawn.X, drawn.y, penalty=PENALTY, intercept=False)
    peer = LogisticRegression(C=1.0 / PENALTY, penalty="l2", fit_intercept=False, tol=1e-8)

    def theirs():
        risk = RandALO.from_sklearn(peer.fit(model.X, model.y), model.X, model.y)
        return float(risk.evaluate(lambda eta, y: softplus(-y * eta).mean()))

    truth = acv.exact(acv.fit(model), acv.folds.leave_one_out(n)).loss
    share = ratio(lambda: ours(model, acv.newton_step), theirs, 3)
    report(f"RandALO, n = {n:,}, p = {dim}: seconds of newton_step over its own", share, 1)
    error = abs(ours(model, acv.newton_step).mean() - truth) / abs(theirs() - truth)
    report(f"RandALO, n = {n:,}, p = {dim}: error of newton_step over its own", error, 1)


def beside(name, peer, model, rung, repeats, error_limit=EQUAL):
    """Our seconds over the peer's, fits included in both, and our mean error over the peer's."""
    reference = acv.exact(
        acv.fit(model, tolerance=1e-10), acv.folds.leave_one_out(model.n_sites), 1e-9
    )
    theirs, mine = peer(model), ours(model, rung)
    errors = [abs(losses - reference.pointwise).mean() for losses in (theirs, mine)]
    share = ratio(lambda: ours(model, rung), lambda: peer(model), repeats)
    report(f"{name}: seconds of {rung.__name__} over its own", share, 1)
    report(f"{name}: error of {rung.__name__} over its own", errors[1] / errors[0], error_limit)


def ridge(n, dim):
    """RidgeCV's closed form beside the Newton step, which is exact here; one penalty, with fits."""
    rng = np.random.default_rng(0)
    X, y = truth("gaussian", dim, rng).draw(n, rng)

    def peer():
        return RidgeCV([PENALTY], store_cv_results=True).fit(X, y).cv_results_[:, 0]

    def newton():
        return 2 * ours(GLM(X, y, "gaussian", penalty=PENALTY), acv.newton_step) - np.log(2 * np.pi)

    report(f"RidgeCV, n = {n:,}: seconds of newton_step over its own", ratio(newton, peer, 25), 1)
    report(f"RidgeCV, n = {n:,}: largest difference", abs(newton() - peer()).max(), 1e-10)


def main():
    ridge(10_000, 100)  # first: peers bring libraries with threads of their own
    rungs_in_fits(100_000, 100)
    exact_in_fits(10_000, 100)
    model = logistic(1000, 100)
    beside("scikit-learn refits", scikit_learn, model, acv.exact, 1)
    beside("scikit-learn refits", scikit_learn, model, acv.newton_step, 1, error_limit=None)
    if importlib.util.find_spec("bbai"):
        beside("bbai", bbai_alo, model, acv.newton_step, 5)
    if importlib.util.find_spec("statsmodels"):
        plain = GLM(model.X, model.y)
        beside("statsmodels one-step", statsmodels_one_step, plain, acv.newton_step, 5)
    if importlib.util.find_spec("randalo"):
        randalo(2000, 400)


if __name__ == "__main__":
    main()
