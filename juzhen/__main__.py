"""`python -m juzhen` does what the console script `juzhen` does."""

import sys

from juzhen.cli.main import main

sys.exit(main())
