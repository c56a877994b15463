"""The linear-chain CRF on top of the network, in torch: used in training alone;
`models.LinearChainCRF` is exact.
"""

import torch
from torch import nn


class CRFLayer(nn.Module):
    """-log p(z | x) of tags given emission scores; parameters start (K,),
    transitions (K, K), end (K,).
    """

    def __init__(self, n_tags):
        super().__init__()
        self.start, self.end = nn.Parameter(torch.zeros(n_tags)), nn.Parameter(torch.zeros(n_tags))
        self.transitions = nn.Parameter(0.1 * torch.randn(n_tags, n_tags))

    def forward(self, scores, tags, mask):
        """Sum over the batch; scores (B, T, K), tags (B, T) long, mask (B, T) bool,
        True from each row's start.
        """
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
