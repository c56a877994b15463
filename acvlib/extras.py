"""Packages that only some functions need: imported where used, with an error if missing."""

from importlib import import_module
from types import ModuleType


def require(name: str, extra: str) -> ModuleType:
    """Import the module `name`; ImportError says which extra of acvlib brings it if missing."""
    package, *_ = name.split(".")
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != package:  # the package is there, and lacks something itself
            raise
        raise ImportError(f"this needs {package}: pip install 'acvlib[{extra}]'") from error
