"""`python -m tuplet` is the command line."""

import sys

from tuplet.cli import main

sys.exit(main())
