"""Every front door beside what its users would run instead, in one run.

`python benchmarks/doors.py sklearn hmm` runs some of them.
"""

import sys

import _doors_crf
import _doors_emissions
import _doors_graph
import _doors_hmm
import _doors_sklearn
import _doors_treecv

DOORS = {
    "sklearn": _doors_sklearn,
    "hmm": _doors_hmm,
    "emissions": _doors_emissions,
    "crf": _doors_crf,
    "graph": _doors_graph,
    "treecv": _doors_treecv,
}


def main(names):
    for name in names or DOORS:
        DOORS[name].main()


if __name__ == "__main__":
    main(sys.argv[1:])
