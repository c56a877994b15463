# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # Use it on your own model
#
# Can you leave data out of a model that the library does not have? A method needs four things of it: how many sites it has, its
# weighted objective, the loss of left-out sites, and a place to start. Autograd does the rest. This page brings such a model.
#
# It is of rain showers in simulated hours: counts with many zeros. A hidden state is "dry" or "wet" and tends to persist. Dry
# hours give zero with probability $1 - \varepsilon$; wet hours give Poisson counts.

# %% tags=["parameters", "remove-cell"]
scale = "quick"
seed = 0

# %% tags=["remove-cell"]
import autograd.numpy as np
import jax
import jax.numpy as jnp
from acvbook import figures, ledger
from acvbook.studies import ladders

import acvlib as acv
from acvlib.inference import chain

ledger.begin("02_your_own_model", scale, seed)
rng = np.random.default_rng(seed)


# %%
class Showers:
    def __init__(self, counts):
        self.counts, self.n_sites = counts, len(counts)

    def factors(self, params):
        rate, (stay, leak) = np.exp(params[0]), 1 / (1 + np.exp(-params[1:]))
        none = self.counts == 0
        dry = none * np.log(1 - leak) + (1 - none) * np.log(leak)
        wet = self.counts * np.log(rate) - rate
        moves = np.array([[stay, 1 - stay], [1 - stay, stay]])
        return np.stack([dry, wet], axis=1), np.log(np.array([0.5, 0.5])), np.log(moves)

    def objective(self, params, weights):
        factors = self.factors(params)
        node, edge = chain.potentials(acv.weighting.keep_latents, weights, *factors)
        return -chain.log_partition(node, edge) + np.sum(params**2) / 50

    def heldout_loss(self, params, fold):
        return chain.heldout_loss(*self.factors(params), fold)

    def initial_params(self, rng):
        return np.array([1.0, 2.0, -4.0])


# %% [markdown]
# `factors` holds the model: log-densities of each count under each state, the log initial law and the log transitions. `chain.potentials`
# puts the weights where scheme A wants them: a weight of 0 drops an hour's count and keeps its state. `chain.log_partition` sums over
# all paths, twice differentiable. The last term of `objective` is a weak normal prior.
#
# Before anything else, check the model. `check_model` compares the gradient, the Hessian and the cross-derivatives with
# differences, also where sites have weight 0, and says which are wrong. (Our first version used `np.where` on a scalar and
# a vector. Autograd's second derivative of that is wrong; the gradient is right, so that only the fit's refusal to converge
# would have told.)


# %%
def draw(rng):
    wet = np.cumsum(rng.random(2_000) < 0.03) % 2
    return Showers(rng.poisson(np.where(wet, 2.5, 0.02)))


showers = draw(rng)
errors = acv.check_model(showers, showers.initial_params(rng), rng)
print("relative errors:", ", ".join(f"{name} {e:.0e}" for name, e in errors.items()))

# %% [markdown]
# ## A weight forgotten
#
# A wrong objective, too, has right derivatives. Take Cox's model of survival times: each death is compared with all who are
# still at risk. A site that is left out must leave these comparisons too, and it is easily kept in them:


# %% tags=["hide-input"]
class Cox:
    def __init__(self, x, times, forgets=False):
        self.x, self.times = x[np.argsort(times)], np.sort(times)
        self.n_sites, self.forgets = len(x), forgets

    def objective(self, params, weights):
        eta = self.x @ params
        later = np.exp(eta) * (1.0 if self.forgets else weights)
        at_risk = np.cumsum(later[::-1])[::-1] - later + np.exp(eta)
        return np.sum(weights * (np.log(at_risk) - eta)) + np.sum(params**2) / 2

    def heldout_loss(self, params, fold):
        return -self.x[fold] @ params

    def initial_params(self, rng):
        return np.zeros(self.x.shape[1])


# %% [markdown]
# `check_model` cannot see that by itself. Tell it how to build the model without some sites, and it compares weight 0 with
# deletion:

# %%
x = rng.standard_normal((80, 3))
times = rng.exponential(np.exp(-x[:, 0]))
order = np.argsort(times)
x, times = x[order], times[order]
for forgets in (False, True):
    cox = Cox(x, times, forgets)
    try:
        errors = acv.check_model(
            cox,
            np.array([0.5, 0.1, -0.2]),
            rng,
            without=lambda sites: Cox(np.delete(x, sites, 0), np.delete(times, sites)),
        )
        print("passes:", ", ".join(f"{name} {error:.0e}" for name, error in errors.items()))
    except ValueError as error:
        print("refused:", error)

# %% [markdown]
# ## Fit and leave out
#
# Now a fit of the showers, and twenty blocks of about fifty hours, each left out in turn:

# %%
fit = acv.fit(showers)
folds = acv.folds.contiguous(showers.n_sites, percent=2.5, n_folds=20, rng=rng)
fit

# %%
rungs = acv.ladder(fit, folds)
acv.compare_methods(*reversed(rungs.values())).drop(columns="evaluations").round(5)

# %% [markdown]
# %% tags=["remove-output"]
fig, ax = figures.subplots(figsize=(6.5, 3.4))
figures.error_ladder(ax, dict(ladders.theta_table(rungs)))
figures.save(fig, "own_ladder")

# %% [markdown]
# ```{figure} figures/own_ladder.svg
# :name: fig-own-ladder
# :alt: Four boxes of parameter errors on a logarithmic axis; no adjustment and the jackknife far above the frozen and the Newton step.
# Error of the parameters of each of the twenty blocks, in standard errors; boxes hold half of the blocks, whiskers {given}`90` %.
# ```
#
# The losses differ by a small part of their standard error (*SE*), even that of the bottom row, which did nothing. Read the column
# *parameter error (SE)*: the median distance of a fold's parameters from the exact refit's, in standard errors. Every rung should
# beat the bottom row; if one does not, do not use it. One series is one draw, so here are medians over several, with folds anew:

# %% tags=["hide-input"]
n_draws = {"quick": 3, "paper": 20}[scale]
errors = ladders.theta_by_draw(draw, n_draws, rng)
errors.median().to_frame("median parameter error (SE)").round(4)

# %% tags=["remove-cell"]
none = errors.no_adjustment
ledger.record_table("beyond.ladder.showers", errors, nothing=none)
over = errors.frozen_newton / none
ledger.record_draws("beyond.byo.frozen_over_none", over, baseline=none / none)

# %% [markdown]
# One frozen step leaves {value}`beyond.byo.frozen_over_none | .1%` of the error of doing nothing.
# {verdict}`beyond.byo.frozen_over_none` The IJ leaves {value}`beyond.ladder.showers.infinitesimal_jackknife` of
# {value}`beyond.ladder.showers.no_adjustment` standard errors, the Newton step
# {value}`beyond.ladder.showers.newton_step`.
#
# `check_result` tells which folds not to trust, for two gradients each. Does what it says agree with the *largest parameter error
# (SE)* of the frozen step above? A false alarm costs one refit.

# %%
frozen = rungs["frozen_newton"]
print(acv.check_result(frozen))
frozen.to_frame().head()

# %% [markdown]
# ## In JAX
#
# A loop over time that is no chain of states is slow by autograd, which records each step. Write it in JAX, and its
# `lax.scan` is compiled. Here is a Kalman filter: a level that wanders, seen through noise. A weight of 0 skips the update, so
# that a left-out value is predicted from the kept ones before it.


# %%
def kalman(values):
    def losses(params, weights):
        drift, noise = jnp.exp(params[:2])

        def step(state, seen):
            (mean, variance), (value, weight) = state, seen
            total, error = variance + noise, value - mean
            gain = weight * variance / total
            state = mean + gain * error, variance * (1 - gain) + drift
            return state, (jnp.log(2 * jnp.pi * total) + error**2 / total) / 2

        return jax.lax.scan(step, (params[2], 10.0), (values, weights))[1]

    def heldout(params, sites):
        return losses(params, jnp.ones(len(values)).at[sites].set(0.0))[sites]

    return acv.from_jax(
        lambda p, w: w @ losses(p, w), heldout, len(values), start=np.zeros(3)
    )


# %%
n_values = {"quick": 300, "paper": 1_000}[scale]
level = np.cumsum(0.3 * rng.standard_normal(n_values))
values = level + rng.standard_normal(n_values)
levels = kalman(values)
fit = acv.fit(levels)
rungs = acv.ladder(fit, acv.folds.k_fold(n_values, 20))
acv.compare_methods(*reversed(rungs.values())).drop(columns="evaluations").round(5)

# %% [markdown]
# `from_jax` takes two functions, how many sites there are, and a place to start, an array or any tree of arrays. At the start it
# compares derivatives with differences, and refuses what ignores the weight of any site, has no second derivative, computes
# in single precision, or gives a site the loss of another; the precision of the rest of your process stays as it is.
#
# One series is one draw, but look at the row of the IJ: in the run shown here it is further from the refit than *no adjustment*, in
# its parameters and in its loss. The filter is not linear in the weights, and the IJ is. Do not use it for this model.
#
# The seconds of the table include compiling, once a model: for few evaluations of a short series autograd is as quick.
#
# `from_torch` is the same for functions of tensors: [a model in PyTorch](00_front_doors.ipynb) has a dose and its response.
# Hessians are formed in both: a model may have some thousand parameters.
#
# ## What your model has to keep
#
# - **Weights.** `objective(params, weights)` with all weights 1 is what you would minimise anyway. Weight 0 must remove
#   the site's influence, exactly as if you had deleted its observation. In between it has to be smooth.
# - **Unconstrained parameters.** One flat vector. Use logarithms for what is positive and logits for probabilities.
# - **Finite potentials.** A weight of 0 times $-\infty$ is not a number. Give impossible things a very small probability.
# - **autograd.numpy.** Write `objective` with it, and leave out loops over time: `chain.log_partition` is your loop.
#
# A model may also offer `observed`, for sites that are missing, and `derivatives`, a subclass of `acv.Derivatives` with closed
# forms. The methods use them when they are there. `PoissonTraffic` has both and is a good example to read.
#
# ## What to take away
#
# - A model needs four things. Check it with `check_model` before anything else, with `without` if you can build it anew
#   from part of the data.
# - *No adjustment* is what every rung has to beat: look at the parameter errors of some exact folds before you trust any of them.
# - The *IJ* needs one pass over the data for all folds. Here it keeps {value}`beyond.ladder.showers.infinitesimal_jackknife` of
#   {value}`beyond.ladder.showers.no_adjustment` standard errors. *One frozen step* costs one gradient a fold and is far nearer
#   to the refit, so take it first.
# - A *Newton step* adds a Hessian for each fold, and gains little more here. *Exact* refits cost little more than Newton steps
#   on a series of this length: if you can wait for them, you need no approximation.
# - If you cannot, call `check_result`, and refit the folds that it flags.
