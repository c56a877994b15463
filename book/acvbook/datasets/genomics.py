"""Gene expression of mouse lungs after influenza, 1,000 genes at 14 times, and a simulator."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

import numpy as np

from . import registry

MEANS, TRAIN = "top1000_time_means.csv.gz", "train_genes.txt"
RAW, SAMPLES = "raw500_expression.csv.gz", "raw500_samples.csv"
HOURS = np.array([0.0, 3, 6, 9, 12, 18, 24, 30, 36, 48, 60, 72, 120, 168])
N_REPLICATES = 3
VARIANCE = 0.29  # within triplicates, of the one gene of the 1,000 whose raw data are at hand
N_DONORS = 50  # the tenth of 500 raw genes that vary most over time, as the 1,000 do


@dataclass(frozen=True, eq=False, repr=False)
class Genomics:
    """Time means of genes, and what is needed to rebuild their replicates.

    means (n_genes, 14): mean log2 expression over three mice, less an offset of the gene; train:
    the genes that a model is fitted to, the others are test genes; donors (n_donors, 14, 3):
    residuals within the triplicates of other genes of the same mice. sha256: of the means.
    provenance: "rebuilt", as all replicates are published means plus borrowed scatter.
    """

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

    def __repr__(self) -> str:
        return f"Genomics({len(self.means)} genes, {len(self.hours)} times, {self.provenance})"


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
    sha256 = hashlib.sha256(means.tobytes() + train.tobytes()).hexdigest()
    return Genomics(means, train, donors, "simulated", sha256)
