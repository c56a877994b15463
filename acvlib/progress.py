"""A progress bar for anything that takes longer than two seconds; none in CI or where output is recorded."""

import os

from tqdm import tqdm


def track(items, label, total=None):
    """`items`, with a progress bar named `label` once two seconds have passed; `total` where they have no len."""
    silent = any(os.environ.get(name) for name in ("CI", "ACVLIB_OUTPUT"))
    return tqdm(items, desc=label, total=total, delay=2, leave=False, disable=silent)
