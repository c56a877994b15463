"""The BiLSTM-CRF of Ghosh et al. (2020), Appendix L.2: characters by convolution, LSTMs, a CRF.

Variational dropout: one mask for all time steps of a sequence (Gal and Ghahramani 2016).
"""

from typing import NamedTuple

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from .batches import PADDING, UNKNOWN


class Sizes(NamedTuple):
    """The paper's sizes; word is 300 there. unknown_rate: how often a singleton is unknown."""

    word: int = 100
    character: int = 50
    filters: int = 30
    hidden: int = 50
    layers: int = 2
    dropout: float = 0.25
    unknown_rate: float = 0.5


class CRFLayer(nn.Module):
    """-log p(z | x) of tags given scores, in torch: for training; `models.LinearChainCRF` is exact.

    Parameters start (K,), transitions (K, K), end (K,).
    """

    def __init__(self, n_tags):
        super().__init__()
        self.start, self.end = nn.Parameter(torch.zeros(n_tags)), nn.Parameter(torch.zeros(n_tags))
        self.transitions = nn.Parameter(0.1 * torch.randn(n_tags, n_tags))

    def forward(self, scores, tags, mask):
        """Sum over the batch; scores (B, T, K), tags (B, T), mask (B, T), True from the start."""
        return (self._log_partition(scores, mask) - self._path_score(scores, tags, mask)).sum()

    def _log_partition(self, scores, mask):
        alpha = self.start + scores[:, 0]
        for t in range(1, scores.shape[1]):
            ahead = torch.logsumexp(alpha[:, :, None] + self.transitions, dim=1) + scores[:, t]
            alpha = torch.where(mask[:, t, None], ahead, alpha)
        return torch.logsumexp(alpha + self.end, dim=1)

    def _path_score(self, scores, tags, mask):
        own = (scores.gather(2, tags[..., None])[..., 0] * mask).sum(1)
        links = (self.transitions[tags[:, :-1], tags[:, 1:]] * mask[:, 1:]).sum(1)
        last = tags.gather(1, mask.sum(1, keepdim=True) - 1)[:, 0]
        return self.start[tags[:, 0]] + own + links + self.end[last]


class VariationalDropout(nn.Module):
    """Drops features of (B, T, F) for all of a sequence at once."""

    def __init__(self, rate):
        super().__init__()
        self.rate = rate

    def forward(self, features):
        if not self.training:
            return features
        keep = torch.full((features.shape[0], 1, features.shape[2]), 1.0 - self.rate)
        return features * torch.bernoulli(keep) / (1.0 - self.rate)


class CharacterCNN(nn.Module):
    """Words spelled (..., L) → features (..., filters): embedding, convolution, maximum."""

    def __init__(self, n_characters, sizes):
        super().__init__()
        self.embedding = nn.Embedding(n_characters, sizes.character, padding_idx=PADDING)
        self.dropout = nn.Dropout(sizes.dropout)
        self.convolution = nn.Conv1d(sizes.character, sizes.filters, kernel_size=3, padding=2)

    def forward(self, spelled):
        letters = self.dropout(self.embedding(spelled.flatten(0, -2))).transpose(1, 2)
        return self.convolution(letters).amax(dim=2).unflatten(0, spelled.shape[:-1])


class BiLSTMCRF(nn.Module):
    """Emission scores of K tags for every word, and the CRF's loss of the tags."""

    def __init__(self, n_words, n_characters, n_tags, sizes):
        super().__init__()
        self.sizes = sizes
        self.words = nn.Embedding(n_words, sizes.word, padding_idx=PADDING)
        nn.init.uniform_(self.words.weight, -((3 / sizes.word) ** 0.5), (3 / sizes.word) ** 0.5)
        self.characters = CharacterCNN(n_characters, sizes)
        widths = [sizes.word + sizes.filters, *[2 * sizes.hidden] * (sizes.layers - 1)]
        self.lstms = nn.ModuleList(
            nn.LSTM(w, sizes.hidden, batch_first=True, bidirectional=True) for w in widths
        )
        self.dropout = VariationalDropout(sizes.dropout)
        self.scores = nn.Linear(2 * sizes.hidden, n_tags)
        self.crf = CRFLayer(n_tags)
        self.register_buffer("rare", torch.zeros(n_words, dtype=torch.bool))

    def emissions(self, batch):
        """Scores (B, T, K)."""
        features = torch.cat(
            [self.words(self._some_unknown(batch.words)), self.characters(batch.characters)], dim=2
        )
        for lstm in self.lstms:
            packed = pack_padded_sequence(self.dropout(features), batch.lengths, batch_first=True)
            features, _ = pad_packed_sequence(lstm(packed)[0], batch_first=True)
        return self.scores(self.dropout(features))

    def forward(self, batch):
        """Sum of -log p(tags | words) over the batch."""
        return self.crf(self.emissions(batch), batch.tags, batch.mask)

    def _some_unknown(self, words):
        """In training, words seen once are at times read as unknown, so that unknown is learned."""
        if not self.training:
            return words
        hide = self.rare[words] & (torch.rand(words.shape) < self.sizes.unknown_rate)
        return torch.where(hide, torch.full_like(words, UNKNOWN), words)
