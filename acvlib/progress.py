"""A progress bar for anything that takes longer than two seconds; none in CI or where output is recorded."""

import os

from tqdm import tqdm


def track(items, label):
    """`items`, with a progress bar named `label` once two seconds have passed."""
    silent = any(os.environ.get(name) for name in ("CI", "ACVLIB_OUTPUT"))
    return tqdm(items, desc=label, delay=2, leave=False, disable=silent)
