"""Settings of all tests: hypothesis draws the same examples in every run, and takes the time it needs."""

from hypothesis import settings

settings.register_profile("house", deadline=None, derandomize=True)
settings.load_profile("house")
