"""Steps in headless Chromium for tests of pages; sweeps/browser.py has the steps."""

import json
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest
from forks import python

PROGRAM = Path(__file__).parent / "sweeps" / "browser.py"
SYSTEM = ("chromium", "chromium-browser", "google-chrome")


def require_chromium() -> None:
    """Skips the test by name where there is no browser."""
    if find_spec("playwright") is None:
        pytest.skip('headless Chromium: pip install -e ".[browser]"')
    if not any(map(shutil.which, SYSTEM)) and not list(Path.home().glob(".cache/ms-playwright/chromium*")):
        pytest.skip("headless Chromium: playwright install chromium, or the package chromium of the system")


def browse(page: Path, *steps: tuple | list, scheme: str = "light") -> tuple[list, list[str]]:
    """What each step gave, and what the page complained about."""
    done = python(PROGRAM, page, json.dumps(steps), scheme, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    *given, complaints = json.loads(done.stdout.splitlines()[-1])
    return given, complaints
