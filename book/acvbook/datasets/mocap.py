"""Motion capture: 12 joint-angle channels of 101 recordings, cut into 124 sequences;
and a simulator of their shape.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from . import registry

CHANNELS = (
    *("root.ty", "lowerback.rx", "lowerback.ry", "upperneck.ry", "rhumerus.rz", "rradius.rx"),
    *("lhumerus.rz", "lradius.rx", "rtibia.rx", "rfoot.rx", "ltibia.rx", "lfoot.rx"),
)
N_SEQUENCES, MAX_FRAMES, LONG_FRAMES = 124, 100, 1484
LONG_FILE = "long1484_40fps.csv.gz"

# Rounded values of the real set's scale, for the simulator: standard deviation of each channel, in
# its unit.
_DEVIATION = np.array([1.0, 6, 4, 4, 18, 24, 19, 23, 24, 10, 24, 10])
_N_MOVES, _DAMPING, _NOISE = 12, 0.95, 0.18


@dataclass(frozen=True, eq=False, repr=False)
class Mocap(registry.Shown):
    """N recordings of 12 channels: angles in degrees, root.ty in the recorder's unit,
    each centred per recording.

    sequences: arrays (T_n, 12); rate: frames a second; sha256: of the canonical file that holds the
    frames, also after `scaled` and `take`; of the frames' bytes if simulated.
    """

    of_rows = ("sequences",)
    noun = "sequences"
    sequences: list
    rate: int
    provenance: Literal["real", "simulated"]
    sha256: str
    name: ClassVar[str] = "mocap"

    def take(self, numbers) -> Mocap:
        """These sequences, in this order."""
        return replace(self, sequences=[self.sequences[n] for n in numbers])

    def scaled(self, reference: Mocap | None = None) -> Mocap:
        """Channels divided by their standard deviation in `reference`,
        by default in these sequences.

        The priors of Ghosh et al. (2020), Eqs. 17 and 18, have unit scale, and a single noise
        variance for all channels. Raises ValueError for a channel that does not vary.
        """
        deviation = np.concatenate((reference or self).sequences).std(axis=0)
        if not deviation.all():
            flat = ", ".join(CHANNELS[i] for i in np.flatnonzero(deviation == 0))
            n_sequences = len((reference or self).sequences)
            raise ValueError(f"{flat}: constant in all {n_sequences} sequences, cannot be scaled")
        return replace(self, sequences=[sequence / deviation for sequence in self.sequences])


def load_mocap(rate: int = 30) -> Mocap:
    """The 124 sequences of up to 100 frames, at 30 or 10 frames a second,
    in the order of the canonical list.

    Raises DataNotFound or DataCorrupt, ValueError for another rate. Source: CMU Graphics Lab Motion
    Capture Database; channels and averaging as in Fox, Hughes, Sudderth and Jordan (2014). Not the
    paper's own 124.
    """
    if rate not in (10, 30):
        raise ValueError(f"rate = {rate}: the canonical files have 10 and 30 frames a second")
    import pandas as pd

    path = registry.find("mocap", f"sequences_{rate}fps.csv.gz")
    recordings = dict(list(pd.read_csv(path).groupby("seq")))
    segments = pd.read_csv(registry.find("mocap", f"segments124_{rate}fps.csv"))
    channels = {seq: table[list(CHANNELS)].to_numpy(float) for seq, table in recordings.items()}
    sequences = [channels[row.seq][row.start : row.stop] for row in segments.itertuples()]
    return Mocap(sequences, rate, "real", registry.file_sha256(path))


def load_mocap_long() -> Mocap:
    """One unbroken recording of 1,484 frames at 40 a second; as `load_mocap` otherwise."""
    import pandas as pd

    path = registry.find("mocap", LONG_FILE)
    return Mocap(
        [pd.read_csv(path)[list(CHANNELS)].to_numpy(float)], 40, "real", registry.file_sha256(path)
    )


def simulate_mocap(rng: np.random.Generator) -> Mocap:
    """A stand-in for the 124 sequences at 30 frames a second: smooth moves that switch."""
    lengths = np.where(
        rng.random(N_SEQUENCES) < 0.7, MAX_FRAMES, rng.integers(37, MAX_FRAMES, N_SEQUENCES)
    )
    return _simulated(rng, lengths, 30)


def simulate_mocap_slow(rng: np.random.Generator) -> Mocap:
    """A stand-in for the 124 sequences at 10 frames a second: shorter ones."""
    lengths = np.where(rng.random(N_SEQUENCES) < 0.2, MAX_FRAMES, rng.integers(13, 60, N_SEQUENCES))
    return _simulated(rng, lengths, 10)


def simulate_mocap_long(rng: np.random.Generator) -> Mocap:
    """A stand-in for the recording of 1,484 frames."""
    return _simulated(rng, [LONG_FRAMES], 40)


def _simulated(rng, lengths, rate):
    poses = rng.normal(0.0, 1.3, (_N_MOVES, len(CHANNELS)))
    turns = np.array([_rotation(rng) for _ in range(_N_MOVES)])
    sequences = [_recording(rng, poses, turns, length).round(3) for length in lengths]
    return Mocap(sequences, rate, "simulated", registry.checksum(*sequences))


def _rotation(rng):
    """A damped slow rotation of the 12 channels."""
    generator = rng.normal(0.0, 0.06, (len(CHANNELS), len(CHANNELS)))
    q, _ = np.linalg.qr(np.eye(len(CHANNELS)) + generator - generator.T)
    return _DAMPING * q * np.sign(np.diag(q))


def _recording(rng, poses, turns, length):
    """Autoregressive frames whose move changes with probability 1/20 a frame, centred."""
    move = rng.integers(_N_MOVES)
    x = [poses[move]]
    for _ in range(length - 1):
        move = rng.integers(_N_MOVES) if rng.random() < 0.05 else move
        noise = rng.normal(0.0, _NOISE, len(CHANNELS))
        x.append(poses[move] + turns[move] @ (x[-1] - poses[move]) + noise)
    return (np.array(x) - np.mean(x, axis=0)) * _DEVIATION
