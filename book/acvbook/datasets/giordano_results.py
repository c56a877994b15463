"""The numbers behind Figures 1 to 4 of Giordano et al. (2019), as their authors published them."""

from __future__ import annotations

from dataclasses import dataclass

from .registry import DataNotFound, find, get

_FILES = {
    "errors": "paper_results/fig1_synthetic_errors.csv",
    "seconds": "paper_results/fig2_synthetic_timings.csv",
    "genomics_errors": "paper_results/fig3_mse_summary.csv",
    "genomics_seconds": "paper_results/fig4_fit_metadata.csv",
}
_ESTIMATES = dict(train_error="train", test_error="test", cv_in_sample="exact", lin_in_sample="ij")
_COLUMNS = {"model": "family", "exact_cv": "exact", "approx_cv": "ij", "data_size": "n"}
_COLUMNS |= {"exact_cv_seconds": "exact", "ij_seconds": "ij", "lo_num_times": "left_out"}
_COLUMNS |= {"output": "estimate", "med": "median", "qlow": "low", "qhigh": "high"}
_COLUMNS |= {"num_comb": "n_folds", "param_length": "n_params", "initial_opt_time": "fit"}
_COLUMNS |= {"lr_hess_time": "ij", "total_refit_time": "exact"} | _ESTIMATES


@dataclass(frozen=True)
class GiordanoResults:
    """errors: 50 data sets a family, columns family, train, test, exact, ij; seconds: by n,
    columns exact, ij.

    genomics_errors: by (df, left_out), columns (estimate, statistic): train, ij, exact, test by
    mean, median, quartiles low and high; genomics_seconds: by (df, left_out), columns fit, ij,
    exact, n_folds, n_params.
    """

    errors: pd.DataFrame  # noqa: F821 - pandas loads slowly, and only where it is needed
    seconds: pd.DataFrame  # noqa: F821
    genomics_errors: pd.DataFrame  # noqa: F821
    genomics_seconds: pd.DataFrame  # noqa: F821
    sha256: str
    provenance: str = "real"


def load_giordano_results() -> GiordanoResults | None:
    """The authors' results, or None where the files are not at hand: they have no stand-in."""
    import pandas as pd

    try:
        tables = {name: pd.read_csv(find("genomics", file)) for name, file in _FILES.items()}
    except DataNotFound:
        return None
    errors, seconds, by_df, of_fits = (table.rename(columns=_COLUMNS) for table in tables.values())
    by_df = by_df.replace({"estimate": _ESTIMATES})
    statistics = ["mean", "median", "low", "high"]
    wide = by_df.pivot(index=["df", "left_out"], columns="estimate", values=statistics)
    counts = {"n_folds": int, "n_params": int}
    of_fits = of_fits.astype(counts).set_index(["df", "left_out"]).sort_index()
    return GiordanoResults(
        errors,
        seconds.astype({"n": int}).set_index("n"),
        wide.swaplevel(axis=1).sort_index(axis=1),
        of_fits[["fit", "ij", "exact", *counts]],
        get("genomics").files[_FILES["errors"]],
    )
