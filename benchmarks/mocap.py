"""Many sequences, many parameters: solves in units of one gradient,
and log p with gradient beside peers.

The first block is AR(5), D = 11,712: real recordings where `ACVLIB_DATA` has them, the simulated
stand-in otherwise. Peers, each on a Gaussian HMM that it has too, join where installed: dynamax and
a plain scan (JAX), hmmlearn. Ratios within this run.
"""

import importlib.util
import resource

import numpy as np
from _measure import median_seconds, report
from acvbook import datasets
from acvbook.studies import mocap_fits
from joblib import parallel_config
from threadpoolctl import threadpool_limits

from acvlib.folds import leave_one_out
from acvlib.models import HMM
from acvlib.models.hmm.emissions import AutoRegression

N_STATES = 16


def solves(rng):
    """IJ and NS of 100 folds at AR(5)."""
    data = datasets.load_or_simulate("mocap", rng)
    train, _ = mocap_fits.split(data, 100, rng)
    one = mocap_fits.fitted(
        "AR(5)", train.sequences, N_STATES, AutoRegression(5, centre=0.0, scale=1.0), rng, 1
    )
    own, params, folds = one.model.derivatives, one.fit.params, leave_one_out(one.model.n_sites)
    ones = np.ones(one.model.n_sites)

    def ij():
        return own.hessian(params, ones).solve(own.cross(params, folds).T)

    def ns():
        _, gradients = own.fold_gradients(params, folds, values=False)
        return own.fold_hessians(params, folds).solve(gradients)

    with threadpool_limits(1), parallel_config("threading", n_jobs=1):
        unit = median_seconds(lambda: own.value_and_gradient(params, ones))
        step, newton = median_seconds(ij), median_seconds(ns)
    kind = f"{data.provenance}, D = {one.model.n_params:,}"
    report(f"100 IJ solves to 1e-6 over log p and gradient ({kind})", step / unit, 120)
    report("all Newton steps over the IJ", newton / step, 2)
    report("peak memory, GB", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2)


def gaussian(rng):
    """(model, params) of a diagonal Gaussian HMM of 100 sequences of 100 frames, 12 channels."""
    x = [np.cumsum(rng.normal(size=(100, 12)), axis=0) * 0.3 for _ in range(100)]
    model = HMM(x, N_STATES)
    return model, model.initial_params(rng)


def ours(model, params):
    """Seconds of log p and gradient, and log p."""
    ones = np.ones(model.n_sites)
    seconds = median_seconds(lambda: model.derivatives.value_and_gradient(params, ones))
    value, _ = model.derivatives.value_and_gradient(params, ones)
    return seconds, -value - float(model.log_prior(params))


def against(name, seconds, value, own_seconds, own_value):
    """Our time over a peer's, once both agree on log p."""
    report(f"{name}: difference of log p, relative", abs(value - own_value) / abs(own_value), 1e-5)
    report(f"{name}: our log p and gradient over its own", own_seconds / seconds, 1)


def jax_seconds(model, params, log_prob):
    """(seconds, log p) of a JAX function of (initial, transition, mean, sd, x (N, T, R)),
    gradient included.
    """
    import jax

    named, x = model.unpack(params), np.array(model.sequences)
    arguments = (named.initial, named.transition, named.emission.mean, named.emission.sd)
    compiled = jax.jit(jax.value_and_grad(lambda a: log_prob(*a, x)))
    return median_seconds(lambda: jax.block_until_ready(compiled(arguments))), float(
        compiled(arguments)[0]
    )


def scan_log_prob(initial, transition, mean, sd, x):
    """The forward recursion as a scan, over sequences by vmap."""
    import jax
    import jax.numpy as jnp
    from jax.scipy.special import logsumexp
    from jax.scipy.stats import norm

    density = norm.logpdf(x[:, :, None, :], mean, sd).sum(axis=3)

    def forward(node):
        def step(alpha, row):
            return logsumexp(alpha[:, None] + jnp.log(transition), axis=0) + row, None

        return logsumexp(jax.lax.scan(step, jnp.log(initial) + node[0], node[1:])[0])

    return jax.vmap(forward)(density).sum()


def dynamax_log_prob(initial, transition, mean, sd, x):
    """dynamax's own filter, over sequences by vmap."""
    import jax
    from dynamax.hidden_markov_model import hmm_filter
    from jax.scipy.stats import norm

    density = norm.logpdf(x[:, :, None, :], mean, sd).sum(axis=3)
    return jax.vmap(lambda node: hmm_filter(initial, transition, node).marginal_loglik)(
        density
    ).sum()


def hmmlearn_e_step(model, params):
    """(seconds, log p) of hmmlearn's E-step:
    log p and the posteriors that its gradient is made of, no more.
    """
    from hmmlearn.hmm import GaussianHMM as Peer

    named, x = model.unpack(params), np.concatenate(model.sequences)
    peer = Peer(model.n_states, "diag")
    peer.startprob_, peer.transmat_ = named.initial, named.transition
    peer.means_, peer.covars_ = named.emission.mean, named.emission.sd**2
    lengths = [len(sequence) for sequence in model.sequences]
    return median_seconds(lambda: peer.score_samples(x, lengths)), peer.score(x, lengths)


def main():
    rng = np.random.default_rng(1)
    solves(rng)
    model, params = gaussian(rng)
    own = ours(model, params)
    if importlib.util.find_spec("jax"):
        import jax

        jax.config.update("jax_enable_x64", True)
        against("JAX scan", *jax_seconds(model, params, scan_log_prob), *own)
    if importlib.util.find_spec("dynamax"):
        against("dynamax", *jax_seconds(model, params, dynamax_log_prob), *own)
    if importlib.util.find_spec("hmmlearn"):
        against("hmmlearn", *hmmlearn_e_step(model, params), *own)


if __name__ == "__main__":
    main()
