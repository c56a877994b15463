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
_ESTIMATES = {
    "train_error": "train",
    "test_error": "test",
    "cv_in_sample": "exact",
    "lin_in_sample": "ij",
}


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
    columns = {
        "model": "family",
        "train_error": "train",
        "test_error": "test",
        "exact_cv": "exact",
        "approx_cv": "ij",
    }
    seconds = tables["seconds"].astype({"data_size": int})
    seconds = seconds.rename(
        columns={"data_size": "n", "exact_cv_seconds": "exact", "ij_seconds": "ij"}
    )
    return GiordanoResults(
        tables["errors"].rename(columns=columns),
        seconds.set_index("n"),
        _genomics_errors(tables["genomics_errors"]),
        _genomics_seconds(tables["genomics_seconds"]),
        get("genomics").files[_FILES["errors"]],
    )


def _genomics_errors(table):
    names = {
        "lo_num_times": "left_out",
        "output": "estimate",
        "med": "median",
        "qlow": "low",
        "qhigh": "high",
    }
    table = table.rename(columns=names).replace({"estimate": _ESTIMATES})
    wide = table.pivot(
        index=["df", "left_out"], columns="estimate", values=["mean", "median", "low", "high"]
    )
    return wide.swaplevel(axis=1).sort_index(axis=1)


def _genomics_seconds(table):
    names = {
        "lo_num_times": "left_out",
        "num_comb": "n_folds",
        "initial_opt_time": "fit",
        "lr_hess_time": "ij",
    }
    names |= {"total_refit_time": "exact", "param_length": "n_params"}
    table = table.rename(columns=names).astype({"n_folds": int, "n_params": int})
    return table.set_index(["df", "left_out"])[
        ["fit", "ij", "exact", "n_folds", "n_params"]
    ].sort_index()
