"""Solvers of the equations that the methods pose."""
