"""One file a method, its equation in code."""
