"""Exact sums over hidden states: chains and graphs."""

from .compiling import announce

announce()
