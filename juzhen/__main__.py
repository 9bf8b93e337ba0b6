"""Run the command line: `python -m juzhen` equals `juzhen`."""

import sys

from juzhen.cli.main import main

sys.exit(main())
