"""Rows of files and frames for `treecv` and `kfold`."""

from collections.abc import Sequence
from typing import Any

from ..checks import check_whole, in_order_of
from ..treecv import Examples as ArrayExamples


class Examples(ArrayExamples):
    __doc__ = ArrayExamples.__doc__

    @classmethod
    def of(
        cls,
        source: Any,
        target: Any = None,
        features: Sequence[str] | None = None,
        memory: int = 2**30,
    ) -> "Examples":
        """Read the rows of a file or frame (extra `parquet`, except for .npy).

        Parameters
        ----------
        source : a Parquet file, or a folder of them in the order of their names, numbers in these
            by value; a .npy file; a pandas or polars frame or an arrow table
        target : the column to predict; or n numbers, or a .npy file of them, in the order of the
            rows; a pandas Series beside a pandas frame by its index; None for nothing
        features : names of columns, all but the target if None
        memory : bytes of X that are held in memory. A larger one is mapped: a .npy file of float64
            where it is, others as a scratch file in the folder of temporary files (TMPDIR). With
            shuffle=False `treecv` and `kfold` read it there. Shuffling takes a copy in memory: put
            rows of a larger file into a random order when it is written

        Raises
        ------
        ValueError : a column that is no number (text, categories, times), or has missing values
        """
        from .sources import read

        check_whole("memory", memory, 0)
        target = in_order_of(getattr(source, "index", None), "target", target)
        return cls(*read(source, target, features, memory))
