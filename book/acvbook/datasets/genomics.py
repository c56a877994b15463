"""Gene expression of mouse lungs after influenza, 1,000 genes at 14 times, and a simulator."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

import numpy as np

from . import registry
from .registry import DataNotFound, find, get

MEANS, TRAIN = "top1000_time_means.csv.gz", "train_genes.txt"
RAW, SAMPLES = "raw500_expression.csv.gz", "raw500_samples.csv"
HOURS = np.array([0.0, 3, 6, 9, 12, 18, 24, 30, 36, 48, 60, 72, 120, 168])
N_REPLICATES = 3
VARIANCE = 0.29  # within triplicates, of the one gene of the 1,000 whose raw data are at hand
N_DONORS = 50  # the tenth of 500 raw genes that vary most over time, as the 1,000 do


@dataclass(frozen=True, eq=False, repr=False)
class Genomics(registry.Shown):
    """Time means of genes, and what is needed to rebuild their replicates.

    means (n_genes, 14): mean log2 expression over three mice, less an offset of the gene; train:
    the genes that a model is fitted to, the others are test genes; donors (n_donors, 14, 3):
    residuals within the triplicates of other genes of the same mice. sha256: of the means.
    provenance: "rebuilt", as all replicates are published means plus borrowed scatter.
    """

    of_rows = ("means",)
    noun = "genes"
    means: np.ndarray
    train: np.ndarray
    donors: np.ndarray
    provenance: Literal["rebuilt", "simulated"]
    sha256: str
    hours: np.ndarray = field(default_factory=HOURS.copy)
    name: ClassVar[str] = "genomics"

    @property
    def test(self) -> np.ndarray:
        """The genes that are not in `train`."""
        return np.setdiff1d(np.arange(len(self.means)), self.train)

    def replicates(self, rng: np.random.Generator, variance: float = VARIANCE) -> np.ndarray:
        """Expression (n_genes, 14, 3) with these time means:
        each gene takes the residuals of a donor drawn at random.

        Residuals have mean zero in a triplicate and are scaled together, to a mean variance of
        `variance` (log2 units squared). They keep how noise differs between genes and times; what
        they cannot keep is a gene's own noise.
        """
        scale = np.sqrt(variance * (N_REPLICATES - 1) / (self.donors**2).sum(axis=2).mean())
        drawn = rng.integers(len(self.donors), size=len(self.means))
        return self.means[..., None] + scale * self.donors[drawn]

    def take(self, n_train: int, n_test: int) -> Genomics:
        """The first training and test genes, renumbered."""
        genes = np.concatenate([self.train[:n_train], self.test[:n_test]])
        return replace(self, means=self.means[genes], train=np.arange(n_train))


def load_genomics() -> Genomics:
    """The 1,000 genes that respond most to the infection; 700 of them,
    the paper's choice, to train on.

    Raises DataNotFound or DataCorrupt. Source: Shoemaker et al. (2015), GEO series GSE63786;
    reduced to time means by others, see data/README.md: the replicates themselves are not to be
    had.
    """
    import pandas as pd

    path = registry.find("genomics", MEANS)
    samples = pd.read_csv(registry.find("genomics", SAMPLES))
    means = pd.read_csv(path)[[f"h{hour:g}" for hour in HOURS]].to_numpy()
    train = np.loadtxt(registry.find("genomics", TRAIN), dtype=int)
    infected = samples[samples.condition == "C"].sort_values(["hour", "replicate"])
    raw = pd.read_csv(registry.find("genomics", RAW))[infected["sample"]].to_numpy()
    donors = _donors(raw.reshape(len(raw), len(HOURS), N_REPLICATES))
    return Genomics(means, train, donors, "rebuilt", registry.file_sha256(path))


def _donors(expression):
    """Residuals within triplicates of the genes that vary most over time."""
    means = expression.mean(axis=2)
    order = np.argsort(-means.var(axis=1))[:N_DONORS]
    return (expression - means[..., None])[order]


def simulate_genomics(
    rng: np.random.Generator, n_genes: int = 1000, n_clusters: int = 18
) -> Genomics:
    """A stand-in of the real set's shape and scale: genes scatter about smooth curves,
    most of which rise.

    A curve rises as (h / peak) exp(1 - h / peak) from the infection on;
    the peak is between 6 and 90 hours.
    """
    height = rng.uniform(0.8, 5.0, n_clusters) * np.where(rng.random(n_clusters) < 0.3, -1.0, 1.0)
    early = HOURS / np.exp(rng.uniform(np.log(6), np.log(90), (n_clusters, 1)))
    curves = height[:, None] * early * np.exp(1.0 - early)
    cluster = rng.choice(n_clusters, n_genes, p=rng.dirichlet(np.full(n_clusters, 5.0)))
    means = curves[cluster] * rng.uniform(0.8, 1.2, (n_genes, 1))
    means += 0.3 * rng.standard_normal(means.shape)
    means -= means.mean(axis=1, keepdims=True)
    noise = rng.gamma(2.0, 0.5, (N_DONORS, 1, 1)) ** 0.5
    noise = noise * rng.standard_normal((N_DONORS, len(HOURS), N_REPLICATES))
    donors = noise - noise.mean(axis=2, keepdims=True)
    train = np.sort(rng.permutation(n_genes)[: round(0.7 * n_genes)])
    return Genomics(means, train, donors, "simulated", registry.checksum(means, train))


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
