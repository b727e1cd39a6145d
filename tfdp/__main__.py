"""``python -m tfdp`` is the command ``tfdp``."""

from __future__ import annotations

import sys

from tfdp.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
