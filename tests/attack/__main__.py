"""`python -m tests.attack --calls 5000 --seed 0`, from the root of the repository."""

import os

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"  # before numpy is imported: a fork loses other threads

from .run import main  # noqa: E402

raise SystemExit(main())
