"""The numbers behind Figures 1 and 2 of Giordano et al. (2019), as their authors published them."""

from __future__ import annotations

from dataclasses import dataclass

from acvlib.datasets.registry import DataNotFound, find, get

_ERRORS = "paper_results/fig1_synthetic_errors.csv"
_TIMES = "paper_results/fig2_synthetic_timings.csv"


@dataclass(frozen=True)
class GiordanoResults:
    """errors: 50 data sets a family, columns family, train, test, exact, ij; seconds: by n, columns exact, ij."""

    errors: pd.DataFrame  # noqa: F821 - pandas loads slowly, and only where it is needed
    seconds: pd.DataFrame  # noqa: F821
    sha256: str
    provenance: str = "real"


def load_giordano_results() -> GiordanoResults | None:
    """The authors' results, or None where the files are not at hand: nothing can stand in for them."""
    import pandas as pd

    try:
        errors, times = (pd.read_csv(find("genomics", file)) for file in (_ERRORS, _TIMES))
    except DataNotFound:
        return None
    names = {"model": "family", "train_error": "train", "test_error": "test", "exact_cv": "exact", "approx_cv": "ij"}
    seconds = times.astype({"data_size": int}).rename(
        columns={"data_size": "n", "exact_cv_seconds": "exact", "ij_seconds": "ij"}
    )
    return GiordanoResults(errors.rename(columns=names), seconds.set_index("n"), get("genomics").files[_ERRORS])
