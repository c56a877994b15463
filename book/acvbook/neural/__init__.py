"""Neural encoders: the only importer of torch.

Emission scores leave here as numpy arrays, for `models`.
"""

try:
    import torch
except ImportError as error:
    raise ImportError(
        "acvbook.neural needs torch: pip install torch. Everything else in acvbook works without it"
    ) from error

from .bilstm_crf import BiLSTMCRF, Sizes
from .checkpoint import CheckpointCorrupt
from .emissions import Emissions, encoded
from .glove import read_word_vectors
from .siamese import Siamese
from .siamese_training import Adam, train_siamese
from .training import Training, train
from .vocabulary import UnseenTag, Vocabulary

__all__ = [
    "Adam",
    "BiLSTMCRF",
    "CheckpointCorrupt",
    "Emissions",
    "Siamese",
    "Sizes",
    "Training",
    "UnseenTag",
    "Vocabulary",
    "encoded",
    "read_word_vectors",
    "train",
    "train_siamese",
]
