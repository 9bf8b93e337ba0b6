"""Writes the golden curves anew: python tests/golden/regenerate.py"""

import os
import sys
from pathlib import Path

import pytest

if __name__ == "__main__":
    os.environ["JUZHEN_REGENERATE_GOLDEN"] = "1"
    sys.exit(pytest.main([str(Path(__file__).parent), "-q"]))
