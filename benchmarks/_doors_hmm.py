"""HMMs beside hmmlearn and dynamax: EM, smoothing, Viterbi, and cross-validation over K.

Ratios of the fastest of several runs in turns, one thread; dynamax compiled before the clock.
"""

import importlib.util
import logging
from functools import partial

import numpy as np
from _measure import ratio, report, timed
from hmmlearn.hmm import GaussianHMM as Peer

import acvlib as acv
from acvlib.models import GaussianHMM
from acvlib.models.hmm import em

N_ITER = 10
logging.getLogger("hmmlearn").setLevel(logging.CRITICAL)


def regimes(n_sequences, length, n_states, seed=0, spread=3.0):
    """(X, lengths) of sticky Gaussian regimes in two channels."""
    rng = np.random.default_rng(seed)
    means = spread * rng.normal(size=(n_states, 2))
    moves = np.full((n_states, n_states), 0.1 / n_states) + 0.9 * np.eye(n_states)
    sequences = []
    for _ in range(n_sequences):
        state = rng.integers(n_states)
        path = np.empty(length, int)
        for t in range(length):
            path[t] = state = rng.choice(n_states, p=moves[state] / moves[state].sum())
        sequences.append(means[path] + rng.normal(size=(length, 2)))
    return np.concatenate(sequences), [length] * n_sequences


def peer_at(model, params, **settings):
    """hmmlearn's model at our params, faster of its implementations."""
    named = model.unpack(params)
    found = Peer(model.n_states, "diag", init_params="", implementation="scaling", **settings)
    found.startprob_, found.transmat_, found.means_ = (
        named.initial,
        named.transition,
        named.emission.mean,
    )
    found.covars_ = named.emission.sd**2
    found.n_features = 2
    return found


def speeds(name, X, lengths, n_states):
    """EM, smoothing and Viterbi beside hmmlearn, and the first two beside dynamax."""
    model = GaussianHMM((X, lengths), n_states, sites="sequences", concentration=1.0)
    params = model.initial_params()
    start = {"max_iterations": N_ITER, "tolerance": 0.0}
    peer = peer_at(model, params, n_iter=N_ITER, tol=-np.inf)

    def theirs():
        return peer_at(model, params, n_iter=N_ITER, tol=-np.inf).fit(X, lengths)

    where = f"{name}, K = {n_states}"
    report(
        f"EM over hmmlearn's, {where}",
        ratio(lambda: em._climb(model, params, **start), theirs, 3),
        1,
    )
    ours = lambda: model.posterior(params)  # noqa: E731
    report(
        f"smoothing over hmmlearn's, {where}",
        ratio(ours, lambda: peer.predict_proba(X, lengths), 5),
        1,
    )
    decode = ratio(lambda: model.decode(params), lambda: peer.decode(X, lengths), 3)
    report(f"Viterbi over hmmlearn's, {where}", decode, 1)
    if importlib.util.find_spec("dynamax"):
        beside_dynamax(where, model, params, X, lengths)


def beside_dynamax(where, model, params, X, lengths):
    import jax
    from dynamax.hidden_markov_model import DiagonalGaussianHMM

    jax.config.update("jax_enable_x64", True)  # as ours; single precision is off by nats
    named = model.unpack(params)
    peer = DiagonalGaussianHMM(model.n_states, 2)
    start, props = peer.initialize(
        initial_probs=named.initial,
        transition_matrix=named.transition,
        emission_means=named.emission.mean,
        emission_scale_diags=named.emission.sd,
    )
    start = jax.tree.map(jax.numpy.asarray, start)
    x = jax.numpy.asarray(X.reshape(len(lengths), -1, 2))
    smoother = jax.jit(jax.vmap(lambda one: peer.smoother(start, one).smoothed_probs))
    smoothed = ratio(lambda: model.posterior(params), lambda: smoother(x).block_until_ready(), 5)
    report(f"smoothing over dynamax's, {where}", smoothed, 1)

    def theirs():
        return peer.fit_em(start, props, x, num_iters=N_ITER, verbose=False)

    theirs()
    settings = {"max_iterations": N_ITER, "tolerance": 0.0}
    share = ratio(lambda: em._climb(model, params, **settings), theirs, 3)
    report(f"EM over dynamax's, {where}", share, 1)


PRIOR = {"startprob_prior": 1.1, "transmat_prior": 1.1, "implementation": "scaling"}


def fitted(k, rows, sizes, restarts):
    """hmmlearn's best of several fits."""
    seeds = range(restarts)
    peers = [Peer(k, "diag", n_iter=100, tol=1e-4, random_state=s, **PRIOR) for s in seeds]
    runs = [peer.fit(rows, sizes) for peer in peers]
    return max(runs, key=lambda run: run.score(rows, sizes))


def from_optimum(best, rows, sizes):
    """hmmlearn's refit that starts from a fit."""
    settings = {"n_iter": 100, "tol": 1e-4, "init_params": ""} | PRIOR
    again = Peer(best.n_components, "diag", **settings)
    again.startprob_, again.transmat_ = best.startprob_, best.transmat_
    again.means_, again._covars_ = best.means_, best._covars_
    again.n_features = best.n_features
    return again.fit(rows, sizes)


def jackknife(best, X, lengths):
    """Ours, from hmmlearn's fit."""
    model, params = acv.from_hmmlearn(best, X, lengths)
    folds = acv.folds.leave_one_out(len(lengths))
    return acv.infinitesimal_jackknife(acv.fit(model, params), folds)


def choice_of_k(n_sequences=40, length=50, restarts=5, most=10, measured=2):
    """Leave-one-sequence-out for K = 2 ... 10: our fits, from theirs, and folds beside refits.

    Cold refits have the restarts of the fit, warm ones start at its optimum; both by hmmlearn, and
    measured on `measured` folds of each K. In our time are the folds and the polish of the fit;
    that fit with its restarts, which everyone needs, is in neither.
    """
    X, lengths = regimes(n_sequences, length, 4, seed=1, spread=2.0)
    starts = np.cumsum([0, *lengths])
    ours = cold = warm = first = 0.0
    gaps = []
    for k in range(2, most + 1):
        whole, best = timed(partial(fitted, k, X, lengths, restarts))
        first += whole
        spent, result = timed(partial(jackknife, best, X, lengths), 3)
        ours += spent
        for n in range(measured):
            keep = np.r_[: starts[n], starts[n + 1] : len(X)]
            rest = X[keep], np.delete(lengths, n)
            cold += timed(partial(fitted, k, *rest, restarts))[0] * n_sequences / measured
            spent, refit = timed(partial(from_optimum, best, *rest))
            warm += spent * n_sequences / measured
            theirs = -refit.score(X[starts[n] : starts[n + 1]])
            gaps.append(abs(result.fold_losses[n] - theirs) / theirs)
    report("leave-one-sequence-out, K = 2..10: cold refits over ours", cold / ours, 30, True)
    report("leave-one-sequence-out, K = 2..10: warm refits over ours", warm / ours)
    both = (cold + first) / (ours + first)
    report("with the first fit on both sides: cold", both)
    report("largest relative gap to a warm refit's loss", max(gaps))


def panel(n_individuals=45, sessions=3, length=1000):
    """A movement HMM of 135,000 steps (log step length, turning angle): leave-individual-out."""
    rng = np.random.default_rng(3)
    moves = np.array([[0.95, 0.04, 0.01], [0.05, 0.9, 0.05], [0.01, 0.09, 0.9]])
    mean = np.array([[-1.0, 0.0], [1.0, 0.0], [3.0, 0.0]])
    sd = np.array([[0.8, 1.8], [0.7, 1.0], [0.5, 0.4]])
    individual = np.repeat(np.arange(n_individuals), sessions)
    sequences = []
    for shift in 0.3 * rng.normal(size=n_individuals)[individual]:
        path = np.empty(length, int)
        state = 0
        for t, u in enumerate(rng.random(length)):
            path[t] = state = min(np.searchsorted(np.cumsum(moves[state]), u), 2)
        sequences.append(mean[path] + [shift, 0.0] + sd[path] * rng.normal(size=(length, 2)))
    model = GaussianHMM(sequences, 3, sites="sequences", covariance="full")
    seconds, start = timed(lambda: model.restart_points(1, 3))
    report("135,000 steps, 45 individuals: seconds of EM, 3 restarts", seconds)
    polish, fit = timed(lambda: acv.fit(model, start[0]))
    report("seconds of the polish", polish)
    folds = acv.folds.leave_group_out(individual)
    few = folds[:3]
    refit, exact = timed(lambda: acv.exact(fit, few))
    report("seconds of one warm refit (exact), mean of 3", refit / 3)
    for rung in (acv.no_adjustment, acv.infinitesimal_jackknife, acv.newton_step):
        share, found = timed(lambda rung=rung: rung(fit, folds))
        found = rung(fit, few)
        errors = acv.theta_errors(exact, found)
        gap = abs(found.fold_totals - exact.fold_totals).max()
        report(f"{rung.__name__}: seconds of all 45 folds", share)
        report(
            f"{rung.__name__}: largest error of a fold's params, standard errors", np.max(errors)
        )
        report(f"{rung.__name__}: largest error of a fold's loss, nats of 3,000 steps", gap)


def main():
    panel()
    for n_states in (2, 5, 20):
        speeds("T = 20,000", *regimes(1, 20_000, n_states), n_states)
        speeds("200 sequences of 100", *regimes(200, 100, n_states), n_states)
    choice_of_k()
