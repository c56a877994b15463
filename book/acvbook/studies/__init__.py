"""Experiments of the book that take more than a few lines: each returns a table, and draws
nothing.
"""
