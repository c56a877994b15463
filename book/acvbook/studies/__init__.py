"""Experiments of the book: each returns a table, and draws nothing."""
