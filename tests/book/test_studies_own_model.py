"""Lines counted by hand, and errors of a model whose rungs are known."""

import numpy as np
from acvbook.studies import own_model

import acvlib as acv


class Short:
    def __init__(self, values):
        self.values = values

    def mean(self):

        total = sum(self.values)
        return total / len(self.values)


def test_lines_with_code_in_them_are_counted():
    assert own_model.source_lines(Short) == 6


def test_errors_are_medians_over_the_folds_of_each_draw():
    def draw(rng):
        return acv.models.GLM(rng.normal(size=(200, 2)), rng.poisson(2.0, 200) * 1.0, "poisson")

    table = own_model.theta_errors(draw, 3, np.random.default_rng(1))
    rng = np.random.default_rng(1)
    model = draw(rng)
    rungs = acv.ladder(model, acv.fit(model), acv.folds.contiguous(200, 2.5, 20, rng))
    none = np.median(acv.theta_errors(rungs["exact"], rungs["no_adjustment"]))
    assert table.no_adjustment[0] == none
    assert table.shape == (3, 4)
    assert (table.newton_step < table.no_adjustment).all()
