"""`python -m tuplet` is the command line."""

import sys

from tuplet.cli.commands import main

sys.exit(main())
