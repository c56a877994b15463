"""Neural encoders: the only importer of torch.

Emission scores leave here as numpy arrays, for `models`.
"""

from .batches import Vocabulary
from .bilstm_crf import BiLSTMCRF, Sizes
from .siamese import Adam, Siamese, train_siamese
from .training import Emissions, Training, encoded, train
