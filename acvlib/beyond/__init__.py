"""Choosing, tuning, forecasting, influence: beyond the papers, and needed by no core module."""
