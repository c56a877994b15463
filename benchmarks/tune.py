"""The price of a gradient of exact cross-validation, and tuning beside random search.

Ratios within this run, of processor time: loss and gradient over a fit with exact cross-validation;
random search over tune, until it has found as low a loss or has drawn ten times as often.
"""

import time
import warnings

import numpy as np
from _measure import report
from acvbook import datasets
from acvbook.studies import tuning

import acvlib as acv
from acvlib.trials import attempt

MOST = 10  # times as many draws as tune has evaluations


def problems(rng):
    cells = datasets.load_or_simulate("covtype", rng)
    cars = datasets.load_or_simulate("dodgers", rng)
    june = datasets.load_or_simulate("philadelphia", rng)
    yield tuning.forest(cells, 400, rng)
    yield tuning.traffic(cars, 14, rng)
    yield tuning.crime(june, 32, rng)


def random_over_tune(problem, rng):
    """Processor time of random search over tune's, at least, if it never finds as much."""
    began = time.process_time()
    box = (problem.start / tuning.WIDTH, problem.start * tuning.WIDTH)
    tuned = acv.tune(problem.model_of, problem.start, problem.folds, problem.params, box)
    ours = time.process_time() - began
    began = time.process_time()

    def loss(model):
        return acv.exact(acv.fit(model, problem.params), problem.folds).loss

    for _ in range(MOST * len(tuned.losses)):
        alpha = box[0] * (box[1] / box[0]) ** rng.random(len(problem.start))
        found, failed = attempt(loss, problem.model_of(alpha))  # paid for either way
        if not failed and found <= tuned.loss:
            break
    return (time.process_time() - began) / ours


def main():
    warnings.simplefilter("ignore")  # of what does not converge far out, in either search
    rng = np.random.default_rng(0)
    forest, traffic, tracts = problems(rng)
    for problem in (forest, traffic, tracts):
        name = f"loss and gradient over exact, {problem.name}"
        report(name, tuning.price(problem, 5), 2)
    for problem in (forest, traffic):
        name = f"random search over tune, {problem.name}"
        report(name, random_over_tune(problem, rng), 2, at_least=True)


if __name__ == "__main__":
    main()
