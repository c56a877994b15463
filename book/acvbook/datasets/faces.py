"""AT&T's faces: 40 people, 10 images of 92 x 112 pixels each; and a simulator of the same shape."""

from __future__ import annotations

import tarfile
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from PIL import Image

from . import registry

CANONICAL_FILE = "att_faces.tar.gz"
N_PEOPLE, N_IMAGES, HEIGHT, WIDTH = 40, 10, 112, 92


@dataclass(frozen=True, eq=False, repr=False)
class Faces(registry.Rows):
    """images (n, height, width) float64 in [0, 1]; person (n,) int64."""

    of_rows = ("person", "images")
    noun = "images"
    images: np.ndarray
    person: np.ndarray
    provenance: Literal["real", "simulated"]
    sha256: str
    name: ClassVar[str] = "att_faces"

    def reduced(self, factor: int) -> Faces:
        """Means over squares of `factor` pixels, which must divide height and width: ValueError."""
        n, height, width = self.images.shape
        if height % factor or width % factor:
            raise ValueError(f"factor = {factor} does not divide {height} x {width}")
        blocks = self.images.reshape(n, height // factor, factor, width // factor, factor)
        return replace(self, images=blocks.mean(axis=(2, 4)))


def load_att_faces() -> Faces:
    """All 400 images, ten of each person in turn. Raises DataNotFound or DataCorrupt.

    Source: AT&T Laboratories Cambridge; Samaria and Harter (1994).
    """
    path = registry.find("att_faces", CANONICAL_FILE)
    people, numbers = range(1, N_PEOPLE + 1), range(1, N_IMAGES + 1)
    with tarfile.open(path) as archive:
        names = [f"att_faces/s{person}/{number}.pgm" for person in people for number in numbers]
        images = [np.asarray(Image.open(archive.extractfile(name))) for name in names]
    person = np.repeat(np.arange(N_PEOPLE), N_IMAGES)
    return Faces(np.array(images) / 255.0, person, "real", registry.file_sha256(path))


def simulate_att_faces(rng: np.random.Generator) -> Faces:
    """A stand-in: a smooth pattern a person, changed a little in each image, with noise."""
    rows, columns = (
        np.cos(np.pi * np.outer(np.arange(6), np.arange(n) + 0.5) / n) for n in (HEIGHT, WIDTH)
    )
    own = np.repeat(rng.standard_normal((N_PEOPLE, 6, 6)), N_IMAGES, axis=0)
    waves = own + 0.4 * rng.standard_normal((N_PEOPLE * N_IMAGES, 6, 6))
    images = rows.T @ waves @ columns + 0.3 * rng.standard_normal((len(waves), HEIGHT, WIDTH))
    images = np.clip(112 + 12 * images, 0, 255).round() / 255.0
    person = np.repeat(np.arange(N_PEOPLE), N_IMAGES)
    return Faces(images, person, "simulated", registry.checksum(images))
