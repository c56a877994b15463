"""Models in JAX and torch against the same model by autograd, and what is refused of them."""

import subprocess
import sys

import autograd.numpy as anp
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import acvlib as acv
from acvlib import adapters
from acvlib.folds import Folds

N, D = 40, 3
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, D))
Y = (RNG.random(N) < 1 / (1 + np.exp(-X[:, 0]))).astype(float)
ONES = np.ones(N)


def losses(xp, params, sites=slice(None)):
    margin = (1.0 - 2.0 * Y[sites]) * (X[sites] @ params)
    return xp.log1p(xp.exp(margin)) + 0.1 * xp.tanh(margin)  # no convex function, no GLM


class ByAutograd:
    n_sites = N

    def objective(self, params, weights):
        return anp.sum(weights**2 * losses(anp, params)) + anp.sum(params**2) / 2

    def heldout_loss(self, params, fold):
        return losses(anp, params, fold)

    def initial_params(self, rng):
        return np.array([0.3, -0.2, 0.1])


START = ByAutograd().initial_params(None)


def in_jax(**settings):
    def loss(params, weights):
        return jnp.sum(weights**2 * losses(jnp, params)) + jnp.sum(params**2) / 2

    def heldout(params, sites):
        margin = (1.0 - 2.0 * jnp.asarray(Y)[sites]) * (jnp.asarray(X)[sites] @ params)
        return jnp.log1p(jnp.exp(margin)) + 0.1 * jnp.tanh(margin)

    return acv.from_jax(loss, heldout, n_sites=N, **({"start": START} | settings))


def in_torch(**settings):
    torch = pytest.importorskip("torch")
    x = torch.tensor(X)
    sign = torch.tensor(1.0 - 2.0 * Y)

    def each(params):
        margin = sign * (x @ params)
        return torch.log1p(torch.exp(margin)) + 0.1 * torch.tanh(margin)

    def loss(params, weights):
        return (weights**2 * each(params)).sum() + (params**2).sum() / 2

    def heldout(params, sites):
        return each(params)[sites]

    return acv.from_torch(loss, heldout, n_sites=N, **({"start": START} | settings))


@pytest.fixture(scope="module", params=[in_jax, in_torch], ids=["jax", "torch"])
def make(request):
    return request.param


@pytest.fixture(scope="module")
def model(make):
    return make()


def close(ours, theirs, tolerance=1e-10):
    np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


def test_derivatives_equal_those_of_autograd(model):
    ours, plain = model.derivatives, acv.derivatives_of(ByAutograd())
    for weights in (ONES, RNG.uniform(0.2, 1.5, N), acv.folds.weights(N, [0, 7])):
        value, gradient = ours.value_and_gradient(START, weights)
        close(value, plain.value_and_gradient(START, weights)[0])
        close(gradient, plain.value_and_gradient(START, weights)[1])
        close(ours.hessian(START, weights), plain.hessian(START, weights))
        close(ours.cross_matrix(START, weights), plain.cross_matrix(START, weights))
    assert model.objective(START, ONES) == pytest.approx(ByAutograd().objective(START, ONES))


FOLDS = {
    "one": acv.folds.leave_one_out(N),
    "few": acv.folds.k_fold(N, 2),
    "many sizes": Folds([[0], [1, 2], [3, 4, 5], [6]]),
    "gap": Folds([[0, 1, 2], [3, 4, 5]], [[1], [4]]),
}


@pytest.mark.parametrize("kind", FOLDS)
def test_folds_equal_those_of_autograd(model, kind):
    folds = FOLDS[kind]
    ours, plain = model.derivatives, acv.derivatives_of(ByAutograd())
    apart = START + 0.1 * RNG.standard_normal((len(folds), D))
    close(ours.cross(START, folds), plain.cross(START, folds))
    for params in (START, apart):
        for mine, other in zip(
            ours.fold_gradients(params, folds), plain.fold_gradients(params, folds), strict=True
        ):
            close(mine, other)
        hessians = ours.fold_hessians(params, folds, 0.5).matrices
        close(hessians, plain.fold_hessians(params, folds, 0.5).matrices)
        held = zip(ours.heldout(params, folds), plain.heldout(params, folds), strict=True)
        for mine, other in held:
            close(mine, other)


@pytest.mark.parametrize(
    "name", ["infinitesimal_jackknife", "frozen_newton", "newton_step", "exact"]
)
def test_every_rung_equals_that_by_autograd(model, name):
    folds = acv.folds.k_fold(N, 4)
    plain = ByAutograd()
    mine, other = (getattr(acv, name)(acv.fit(m, tolerance=1e-10), folds) for m in (model, plain))
    close(mine.params, other.params, 1e-8)
    close(mine.pointwise, other.pointwise, 1e-8)
    unreliable = [acv.check_result(each).unreliable for each in (mine, other)]
    assert np.array_equal(*unreliable)


def test_the_model_passes_the_check_for_users(model):
    assert max(acv.check_model(model, START, np.random.default_rng(0)).values()) < 1e-6


def test_how_many_lanes_go_together_changes_nothing(model, monkeypatch):
    folds = FOLDS["one"]
    many = model.derivatives.fold_gradients(START, folds)[1]
    monkeypatch.setattr(adapters, "HELD", 1)
    close(model.derivatives.fold_gradients(START, folds)[1], many, 1e-13)


def test_params_may_have_a_form(make, model):
    start = {"slope": START[:2], "level": START[2]}
    xp, adapter = jnp, acv.from_jax
    if make is in_torch:
        xp, adapter = pytest.importorskip("torch"), acv.from_torch
        start = {name: xp.tensor(part) for name, part in start.items()}

    def flat(form):
        return xp.stack([form["slope"][0], form["slope"][1], form["level"]])

    functions = (
        lambda p, w: model.loss(flat(p), w),
        lambda p, s: model.heldout(flat(p), s),
    )
    shaped = adapter(*functions, N, start)
    params = shaped.pack(shaped.start)
    assert shaped.n_params == D
    form = shaped.unpack(params)
    assert set(form) == {"slope", "level"}
    close(shaped.pack(form), params)
    fits = [acv.fit(m).params for m in (shaped, model)]
    unpacked = shaped.unpack(fits[0])
    close([*unpacked["slope"], unpacked["level"]], fits[1], 1e-7)
    with pytest.raises(ValueError, match="has not the form of `start`"):
        shaped.pack({"slope": START})


def test_missing_sites_and_traits_are_the_models(make):
    observed = np.arange(N) > 2
    model = make(observed=observed, convex=True, normalised=True)
    assert model.convex
    assert model.normalised
    with pytest.raises(ValueError, match="site 0"):
        acv.exact(acv.fit(model), Folds([[0]]))


def smooth(params, weights):
    return jnp.sum(weights * (params.sum() - X[:, 0]) ** 2) + jnp.sum(params**4)


def zeros(params, sites):
    return 0.0 * sites + params.sum()


narrow = X.astype(np.float32)
BAD_IN_JAX = {
    "float32 result": (lambda p, w: smooth(p, w).astype(jnp.float32), "loss returns float32"),
    "float32 data": (
        lambda p, w: smooth(p, w) + jnp.sum(w * (narrow @ p)),
        "computes with float32",
    ),
    "jnp data": (lambda p, w: smooth(p, w) + NARROW_DATA @ p, "computes with float32.*enable_x64"),
    "no sum": (lambda p, w: w * p.sum(), r"loss returns shape \(40,\), must be \(\), one number"),
    "stopped weights": (lambda p, w: smooth(p, jax.lax.stop_gradient(w)), "ignores the weights"),
    "hinge": (lambda p, w: jnp.sum(w * jax.nn.relu(1 - X @ p)), "second derivative is 0"),
    "stopped twice": (
        lambda p, w: smooth(p, w) + jnp.sum(w * jax.lax.stop_gradient(X @ p) * (X @ p)),
        "not twice differentiable",
    ),
    "nan": (lambda p, w: jnp.sum(w * jnp.sqrt(X @ p - 100.0)), "loss is nan at start"),
}
NARROW_DATA = jnp.ones(D)


@pytest.mark.parametrize("kind", BAD_IN_JAX)
def test_bad_functions_are_named(kind):
    loss, message = BAD_IN_JAX[kind]
    with pytest.raises(ValueError, match=message):
        acv.from_jax(loss, zeros, N, START)


@pytest.mark.parametrize(
    "loss",
    [
        lambda p, w: np.sum(w * np.exp(X @ p)),
        lambda p, w: smooth(p, w) if p[0] > 0 else 0.0,
        lambda p, w: jnp.sum((X @ p)[w > 0] ** 2),
    ],
)
def test_what_jax_cannot_trace_is_said_plainly(loss):
    with pytest.raises(
        TypeError, match="JAX cannot differentiate or batch.*use jax.numpy for numpy"
    ):
        acv.from_jax(loss, zeros, N, START)


@pytest.mark.parametrize(
    ("heldout", "message"),
    [
        (lambda p, s: p.sum(), r"heldout returns shape \(\), must be \(1,\), one loss for each"),
        (lambda p, s: (jnp.asarray(X)[s] @ p)[:1], r"heldout returns shape \(1,\), must be \(2,\)"),
        (lambda p, s: s, "heldout returns int64"),
    ],
)
def test_bad_heldout_losses_are_named(heldout, message):
    with pytest.raises(ValueError, match=message):
        acv.from_jax(smooth, heldout, N, START)


def terms(params, sites):
    eta = jnp.asarray(X)[sites] @ params
    return jnp.logaddexp(0.0, eta) - jnp.asarray(Y)[sites] * eta


def weighed(params, weights):
    return weights @ terms(params, slice(None)) + params @ params


def mean(params, weights):
    return weights @ terms(params, slice(None)) / weights.sum() + params @ params


BALANCE = 1.0 + Y
ANOTHER = {
    "weighed in the fit alone": (lambda p, w: weighed(p, BALANCE * w), terms),
    "another score": (weighed, lambda p, s: abs(jnp.asarray(Y)[s] - jnp.asarray(X)[s] @ p)),
    "as far from all": (lambda p, w: w @ (Y - p[0]) ** 2, lambda p, s: abs(Y - p[0])[s]),
    "plus what no parameter moves": (mean, lambda p, s: terms(p, s) + 3.0 * jnp.asarray(Y)[s]),
}


@pytest.mark.parametrize("kind", ANOTHER)
def test_users_may_score_by_another_loss(kind):
    loss, heldout = ANOTHER[kind]
    start = START[:1] if kind == "as far from all" else START
    model = acv.from_jax(loss, heldout, N, start, normalised=loss is mean)
    assert model.heldout_loss(start, np.array([7, 3])).shape == (2,)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"n_sites": 41}, (ValueError, TypeError), "incompatible shapes|broadcast"),
        ({"start": [0.1, np.nan, 0.0]}, ValueError, "start must be finite"),
        ({"start": {}}, ValueError, "start holds no number"),
        ({"loss": 3}, TypeError, "loss must be of type Callable"),
        ({"loss": lambda p: p.sum()}, TypeError, "takes 1 positional argument but 2 were given"),
    ],
)
def test_bad_arguments_are_named(change, error, message):
    given = {"loss": smooth, "heldout": zeros, "n_sites": N, "start": START}
    with pytest.raises(error, match=message):
        acv.from_jax(**(given | change))


def test_bad_torch_functions_are_named():
    torch = pytest.importorskip("torch")
    x = torch.tensor(X)

    def smooth(params, weights):
        return (weights * (x @ params) ** 2).sum() + (params**4).sum()

    def zeros(params, sites):
        return x[sites] @ params

    bad = {
        "loss returns float32": lambda p, w: smooth(p, w).float(),
        "computes with float32.*torch.double": lambda p, w: (
            smooth(p, w) + torch.ones(3) @ p.float()
        ),
        "loss returns shape float": lambda p, w: 1.0,
        "gradient is off": lambda p, w: smooth(p, w) + (w * (x @ p).detach() ** 3).sum(),
    }
    for message, loss in bad.items():
        with pytest.raises(ValueError, match=message):
            acv.from_torch(loss, zeros, N, START)
    unfit = [
        lambda p, w: smooth(p, w) * p[0].item(),
        lambda p, w: smooth(p, w) if p[0] > 0 else w.sum(),
        lambda p, w: torch.tensor(np.exp(p.numpy())).sum() * w.sum(),
    ]
    for loss in unfit:
        with pytest.raises(TypeError, match="torch.func cannot differentiate or batch .*no numpy"):
            acv.from_torch(loss, zeros, N, START)


def test_the_process_stays_in_its_own_precision(model):
    acv.infinitesimal_jackknife(acv.fit(model), FOLDS["few"])
    assert jnp.ones(1).dtype == jnp.float32
    assert not jax.config.jax_enable_x64


def test_neither_library_is_imported_unasked():
    code = "import sys, acvlib, acvlib.models; print({'jax', 'torch'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
