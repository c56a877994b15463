"""The ridge of a conditional random field: one number, or one a parameter."""

from typing import Any

import numpy as np

from ...checks import real_number
from ...protocol import own_copy


def checked_ridge(values: Any, n_params: int) -> float | np.ndarray:
    """The number, or a copy (D,); ValueError unless all are > 0, without which F has a flat ray."""
    ridge = own_copy(values, name="ridge")
    if ridge.ndim == 0:
        return real_number("ridge", values, above=0.0)
    if ridge.shape != (n_params,) or not (ridge > 0.0).all():
        found = f"{ridge.shape}, at least {ridge.min(initial=np.inf):g}"
        raise ValueError(f"ridge {found}: must be one number > 0, or {n_params}, one a parameter")
    return ridge
