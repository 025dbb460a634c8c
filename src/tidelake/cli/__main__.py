"""`python -m tidelake.cli`, for places where the script `tidelake` is not on the path."""

from __future__ import annotations

import sys

from tidelake.cli import main

sys.exit(main())
