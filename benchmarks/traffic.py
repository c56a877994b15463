"""The traffic model at T = 50,400: the ratios of every rung, and what a user would otherwise run.

Ratios within this run; medians where a call is short. A JAX scan joins if JAX is installed.
"""

import importlib.util
import resource
import time

import numpy as np
from _measure import median_seconds, ratio, report
from acvbook import datasets
from acvbook.studies.counting import PythonLoop
from numba import njit
from scipy.special import expit

import acvlib as acv
from acvlib.derivatives import derivatives_of

N_FOLDS = 1_000


class ByAutograd:
    """A view of a model that hides its own derivatives, so that autograd does the work."""

    derivatives = None

    def __init__(self, model):
        self._model = model

    def __getattr__(self, name):
        return getattr(self._model, name)


def second_order(own, params, weights):
    """H and J."""
    return np.asarray(own.hessian(params, weights)), own.cross_matrix(params, weights)


def one_evaluation(model, fit, weights):
    """Seconds of one gradient, and the ratios of one H and J, own and by autograd."""
    own, params = derivatives_of(model), fit.params
    gradient = median_seconds(lambda: own.value_and_gradient(params, weights))
    nudged = iter(params + 1e-9 * np.arange(1000)[:, None])  # the last point's is kept
    both = median_seconds(lambda: second_order(own, next(nudged), weights))
    report("H and J over log p and gradient, own", both / gradient, 4)
    slow = derivatives_of(ByAutograd(model))
    slow_gradient = median_seconds(lambda: slow.value_and_gradient(params, weights), 3)
    slow_both = median_seconds(lambda: second_order(slow, params, weights), 1)
    report("H and J over log p and gradient, autograd", slow_both / slow_gradient, 30)
    report("autograd over own: gradient", slow_gradient / gradient)
    return gradient


@njit(cache=True, error_model="numpy")
def forward(classes, emission, stay, leave):
    """log p(x) by one plain forward pass, but for the emissions' scale."""
    p0 = leave[1] / (leave[0] + leave[1])
    p1 = leave[0] / (leave[0] + leave[1])
    log_z = 0.0
    product = 1.0
    for t in range(len(classes)):
        u0 = emission[0, classes[t]] * (stay[0] * p0 + leave[1] * p1)
        u1 = emission[1, classes[t]] * (leave[0] * p0 + stay[1] * p1)
        inverse = 1.0 / (u0 + u1)
        p0 = u0 * inverse
        p1 = u1 * inverse
        product *= u0 + u1
        if t % 16 == 0:  # sites whose normalisers are multiplied before one logarithm
            log_z += np.log(product)
            product = 1.0
    return log_z + np.log(product)


def log_marginal(model, params):
    """A function of nothing: the forward pass alone, without derivatives, tables included."""
    from acvlib.models.traffic.emission import CompleteData

    classes = np.where(model.observed, model.classes.of_site, len(model.classes))
    stay = expit(params[9:])
    leave = expit(-params[9:])

    def evaluate():
        table = CompleteData(model.classes, params[None]).log_density[:, :, 0]
        scaled = np.exp(table - table.max(axis=0))
        missing = np.ones((2, 1))
        return forward(classes, np.hstack([scaled, missing]), stay, leave)

    return evaluate


def whole_cv(model, fit, kind):
    """The ladder over all folds of one kind."""
    rng = np.random.default_rng(0)
    folds = getattr(acv.folds, kind)(model.n_sites, 10, N_FOLDS, rng, observed=model.observed)
    acv.ladder(fit, folds)  # the first large run also maps its memory
    rungs = acv.ladder(fit, folds)
    error = {name: acv.theta_errors(rungs["exact"], result) for name, result in rungs.items()}
    seconds = {name: result.seconds for name, result in rungs.items()}
    ij = seconds["infinitesimal_jackknife"]
    print(f"\n{kind}, 10 %, {N_FOLDS} folds, IJ {ij:.2f} s")
    evaluate = log_marginal(model, fit.params)
    share = ratio(
        lambda: acv.infinitesimal_jackknife(fit, folds),
        lambda: [evaluate() for _ in range(N_FOLDS)],
        3,
    )
    report(f"{kind}: IJ, log-marginal evaluations per fold", share, 1)
    report(f"{kind}: frozen step over IJ", seconds["frozen_newton"] / ij, 2.5)
    report(f"{kind}: Newton step over IJ", seconds["newton_step"] / ij)
    report(f"{kind}: exact over IJ", seconds["exact"] / ij, 10)
    decrement = rungs["exact"].diagnostics["decrement"].max()
    report(f"{kind}: exact, largest Newton decrement", decrement, 1e-6)
    frozen, none, jackknife = (
        error[n] for n in ("frozen_newton", "no_adjustment", "infinitesimal_jackknife")
    )
    for name, other, limit in (("no adjustment", none, 0), ("IJ", jackknife, 0.05)):
        share = np.mean(frozen >= other)
        report(f"{kind}: share of folds with frozen no nearer than {name}", share, limit)


def as_published(data, gradient):
    """Autograd over a Python loop, one gradient; and the whole exact CV that it would take."""
    model = acv.models.PoissonTraffic(data.counts, data.day)
    loop = PythonLoop(model)
    start, ones = model.initial_params(), np.ones(model.n_sites)
    tick = time.perf_counter()
    derivatives_of(loop).value_and_gradient(start, ones)
    seconds = time.perf_counter() - tick
    report("autograd over a Python loop over fast: gradient", seconds / gradient)
    return seconds


def jax_scan(model, params, gradient):
    """The same recursion as a jitted JAX scan in float64, potentials given."""
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    density = jnp.asarray(model.log_densities(params))
    _, transition = model.log_chain(params)

    def log_p(potential):
        def step(alpha, row):
            return jax.nn.logsumexp(alpha[:, None] + transition, axis=0) + row, None

        return jax.nn.logsumexp(jax.lax.scan(step, potential[0], potential[1:])[0])

    value_and_grad = jax.jit(jax.value_and_grad(log_p))
    report(
        "JAX scan (potentials given) over fast: gradient",
        median_seconds(lambda: jax.block_until_ready(value_and_grad(density))) / gradient,
    )


def main():
    data = datasets.load_or_simulate("dodgers", np.random.default_rng(0))
    model = acv.models.PoissonTraffic(data.counts, data.day)
    fit = acv.fit(model)
    print(f"time-varying Poisson HMM, T = {model.n_sites:,}, {data.provenance} data\n")
    gradient = one_evaluation(model, fit, np.ones(model.n_sites))
    report("gradient over log-marginal", gradient / median_seconds(log_marginal(model, fit.params)))
    for kind in ("iid", "contiguous"):
        whole_cv(model, fit, kind)
    report("peak memory so far, GB", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 2)
    as_published(data, gradient)
    if importlib.util.find_spec("jax"):
        jax_scan(model, fit.params, gradient)


if __name__ == "__main__":
    main()
