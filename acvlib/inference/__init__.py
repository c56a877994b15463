"""Exact sums over hidden states: chains and graphs."""
