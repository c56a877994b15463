# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # What the approximation guarantees
#
# [Which folds to trust](10_which_folds.ipynb) *estimates* which folds are wrong. Estimates can miss. For convex models a proof
# is possible: the point that a method returned shows by itself how far the exact refit can be. This chapter has the proof,
# `acv.certify`, and what it is worth on real data.
#
# ## The idea
# A fold's objective $F$ has a gradient $g$ and a Hessian $H$ at a point $a$, which may be any point. If $F$ were quadratic,
# its minimum would be at the end of the Newton step, $a - H^{-1} g$. How wrong that is depends on how fast $F$'s curvature
# can change. For many losses this is known: the third derivative of the logistic and the Poisson loss is nowhere larger than the
# second {cite:p}`bach2010`. Curvature that cannot vanish quickly stops the fall of $F$ within a ball.

# %% tags=["parameters", "remove-cell"]
scale = "quick"
seed = 1

# %% tags=["remove-cell"]
import numpy as np
from acvbook import figures, ledger
from acvbook.studies import certified

import acvlib as acv

ledger.begin("11_certified", scale, seed)
paper = scale == "paper"
rng = np.random.default_rng(seed)

# %% [markdown]
# **The proof.** Lengths are those of the fold's own Hessian, $\lVert v\rVert^2 = v^\top H v$. Let
# $|F'''[u, v, v]| \le R\,\lVert u\rVert\, F''[v, v]$. For a regression
# $F'''[u,v,v] = \sum_n \ell_n''' (x_n^\top u)(x_n^\top v)^2$ and $|\ell'''| \le \ell''$, so that
# $R = \max_n \sqrt{x_n^\top H^{-1} x_n}$ over the rows that are kept; a ridge has no third derivative.
#
# 1. The Newton step has length $\nu = \sqrt{g^\top H^{-1} g}$.
# 1. Along a ray $u$, $\lVert u \rVert = 1$, the curvature changes at a relative rate of at most $R$:
#    $e^{-Rt} H \preceq F''(a + tu) \preceq e^{Rt} H$ (Grönwall).
# 1. The slope along the ray is therefore at least $-\nu + (1 - e^{-Rt}) / R$.
# 1. If $R\nu < 1$ it is not negative at $t = d = -\log(1 - R\nu)/R$, on any ray, nor further out, as $F$ is convex. So the
#    least point $\theta^*$ of the ball of radius $d$ is a minimum of $F$; it is the only one, as $F$ is curved there.
# 1. There $0 = g + \bar H\,(\theta^* - a)$ with $\bar H$ the mean Hessian of the way, and by step 2
#    $\frac{1 - e^{-Rd}}{Rd} H \preceq \bar H \preceq \frac{e^{Rd} - 1}{Rd} H$.
# 1. So a Newton step from $a$ ends within $\bigl[\frac{Rd}{1 - e^{-Rd}} - 1\bigr]\nu = d - \nu \approx R\nu^2/2$ of the refit
#    $\theta^*$ (the left bound is the looser). `certify` takes this end for its $a$: there $\nu$ is as small as that.
# 1. A Hessian of other data or of another point will do, if $F''$ at $a$ is at least $\kappa H$: then $\kappa$ stands before
#    $1 - e^{-Rt}$, and the refit is within $d = -\log(1 - R\nu/\kappa)/R$ of $a$. The full fit's own Hessian will: rows left out
#    leave a share of it, and where scores have moved by at most $M$ from the fit, curvature has kept $e^{-M}$ of it.
#    What the ridge alone is of it stays everywhere.
# 1. Nor need $g$ be summed anew. By step 2, in lengths of the full fit's $H$, and as $F''(\hat\theta) \preceq H$, the gradient at
#    $\hat\theta + v$ is $\nabla F(\hat\theta) + F''(\hat\theta)\, v$ but for a rest that is at most $\frac{e^x - 1 - x}{x} \lVert v\rVert$
#    long, $x = R\lVert v\rVert$. Of a fold of one row the fit and the row's leverage $z^\top H^{-1} z$ tell all of this, and $M \le x$.
# 1. A left-out row's $\eta$ moves by at most the radius times $\sqrt{x^\top H^{-1} x}$. The loss of a count is convex in $\eta$: both
#    ends and the minimum between them bound it. That of a label is $\log(1 + e^\omega)$, $\omega$ the log odds against it, which move no further.
#
# Nothing is asked of $a$. It need not come from a converged fit, nor from a good method. Nothing is sampled.
#
# For a chain CRF the third cumulant of a feature sum $u^\top S(z)$ is at most its range over tag sequences times the second
# one; the range splits into first tag, transitions and last tag. Classes of a regression are sequences of one tag. Probit's
# $|\ell'''| / \ell''$ grows with the margin; hidden Markov models and maps are not convex. `certify` refuses them.
#
# **What rounding adds.** What is proved of real numbers has to survive floating point, of unit $\mu = 2^{-53}$. A sum of $n$ terms
# is off by at most $\gamma_n \sum |\text{terms}|$, $\gamma_n = n\mu / (1 - n\mu)$, in any order {cite:p}`higham2002`; $\exp$, $\log$ and
# $\log\Gamma$ are taken to be right to a few units, and underflow to be nothing. So, in columns of spread one:
#
# - A score $z^\top\theta$ is off by $\gamma_D |z| |\theta|$. A slope is off by that times the curvature and by $\gamma$ of the
#   mean and of $y$, from which it is subtracted; a gradient by the sum of these and by $\gamma$ of all terms, summed in blocks.
#   Its length counts in $\nu$: an error $e$ has at most the length $\sum_i |e_i| \sqrt{(H^{-1})_{ii}}$.
# - An entry of the Hessian is off by $\varepsilon \sqrt{H_{ii} H_{jj}}$ at most, by the inequality of Cauchy and Schwarz.
# - No inverse is trusted. Of a factor $W$, $W^\top W \approx H^{-1}$, the norm of $I - W H W^\top$ is bounded by some $q < 1$, with
#   the rounding of the products and the error of $H$. So $(1 - q) H^{-1} \preceq W^\top W \preceq (1 + q) H^{-1}$: squared lengths, of
#   $R$ too, are divided by $1 - q$. And $F'' \succeq \kappa H$ with $\kappa = (1 - \lambda) / (1 + q)$, $\lambda$ the largest
#   eigenvalue of $I - W F'' W^\top$ or above it: that none is larger, up to rounding, the Cholesky factor of $\lambda I$ less it shows {cite:p}`rump2006`.
# - The posteriors of a CRF are ratios of sums of positive terms, with a relative error of a few $\mu T (K + |\text{score}|)$ for
#   each of $T$ tokens.
# - Losses are bounded by their terms, not by their values, which may be what is left of two numbers a billion times as large.
#   Every number that is returned is rounded outward.
#
# ## In use
# Single rows are first looked at from the full fit, by their leverages, which needs no pass over the rows for each. Rows that
# this does not certify, and larger folds, are looked at from their own parameters, by a gradient and the full fit's Hessian. What
# is left is refitted: then the ball is the refit's, by its own Hessian if need be, and the bound is the way to it. With
# `complete=True` a fold without a bound is an error. The data are scikit-learn's breast cancer set.

# %%
models = certified.given_regressions(rng, 10_000 if paper else 800)
model, _ = models["breast cancer"]
fit, folds = acv.fit(model), acv.folds.leave_one_out(model.n_sites)
certificate = acv.certify(acv.newton_step(fit, folds), complete=True)
sharp = acv.certify(certificate.result, sharp=True)
print(certificate, sharp, sep="\n")

# %% [markdown]
# The second refits each fold: the bound is the length of the way, and what little is left of it. Beside other refits:

# %% tags=["hide-input", "remove-output"]
seen = certified.both(model, folds)
fig, ax = figures.subplots(figsize=(5.5, 4.2))
figures.bound_and_true(ax, seen)
figures.save(fig, "certified_true")

# %% [markdown]
# ```{figure} figures/certified_true.svg
# :name: fig-certified-true
# :alt: Brown dots in a band above a dashed diagonal, the largest errors close to it; teal dots on the diagonal, over eight decades.
# The proved bound of each left-out patient against the true error of the Newton step. No dot may lie below the diagonal. Brown: the
# cheapest proof, wide from the full fit, near the diagonal from a patient's own parameters or a refit. Teal: all refitted, so that
# the bound is the error, up to the slack for rounding. Numbers below a billionth of a standard error are drawn there.
# {verdict}`beyond.certify.real.violations`
# ```
#
# Does it hold? The tests of the library have problems made to break it: few rows, weak ridges, classes that are nearly separated,
# rows a hundred times too long, fits that have not converged, any method, any folds. There refits have fifty digits.

# %% [markdown]
# ## On given data, beside Theorem 1
# Theorem 1 of {cite:t}`giordano2019` bounds the jackknife's error by constants of the whole data set. On the same folds (of
# `w2a_standin` the rows are random ones of w8a, as w2a was not to be had):

# %%
table = certified.given_table(models, 2000 if paper else 60, rng)
table.drop(columns="violations").T.round(4)

# %% tags=["remove-cell"]
given = [data for _, data in models.values() if data is not None]
ledger.record("beyond.certify.real.certified", table.certified.min(), given)
ledger.record("beyond.certify.real.own", 1.0 - table.refitted.max(), given)
ledger.record("beyond.certify.real.sharp", table.sharp_over_true.max(), given)
ledger.record("beyond.certify.real.cost", table.seconds_over_step.max(), given)
ledger.record("beyond.certify.real.refits", table.seconds_over_exact.max(), given)
ledger.record("beyond.certify.real.theorem1", table.theorem1_certified.mean(), given)
ledger.record("beyond.certify.real.theorem1.ratio", table.theorem1_over_true.min(), given)
wrong, idle = int(table.violations.sum()), seen["sharp"].row()["idle_violations"]
ledger.record("beyond.certify.real.violations", wrong, given, baseline=idle)

# %% [markdown]
# {verdict}`beyond.certify.real.certified` All these folds are certified, as those that need it are refitted; without a refit, at least
# {value}`beyond.certify.real.own | .1%` of each set are. {verdict}`beyond.certify.real.own` Refits outside their bounds:
# {value}`beyond.certify.real.violations`. The full fit, which does nothing, is outside the sharp bounds of
# {value}`beyond.certify.real.violations baseline` of the {given}`569` patients. Theorem 1 certifies
# {value}`beyond.certify.real.theorem1 | .0%`: its condition fails. In the median fold of each set its bound would be
# {value}`beyond.certify.real.theorem1.ratio | .0e` times the jackknife's error or more. A certificate looks at the fold; the theorem,
# at the worst that any fold of these data might do. Certificates are dear, beyond {given}`1.5` steps in each set, our mark where all rows pass the
# first look: a row beyond that takes a gradient over all rows; all Newton steps took one Hessian. The dearest takes {value}`beyond.certify.real.cost | .0f` times as
# long as its step, and the dearest beside exact refits {value}`beyond.certify.real.refits | .2f` times as long as those of all its rows. {verdict}`beyond.certify.real.refits`
#
# ## What to take away
# - `acv.certify(result)` proves where exact refits are, for these convex models, whatever the method and the fit.
# - Single rows: dearer than the Newton step, the more so the more rows have a large leverage ([benchmarks](benchmarks.md)).
# - `sharp=True` where the interval matters more than the seconds.
# - `certificate.refitted` says which folds had to be refitted. What then has no bound has no minimum, or next to none.
# - A fold whose kept rows separate the classes without a penalty has no refit, and is never certified.
# - *Nearest work.* {cite:t}`removal2025` prove how far Newton steps are from refits where columns grow with the rows, so that noise
#   can hide data that are to be forgotten. Theirs is a law of large samples; a certificate is of the folds at hand.
