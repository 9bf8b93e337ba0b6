"""Docstrings of losses: their examples run, and their input table is that of the class."""

import doctest
import re
from importlib import import_module

import pytest

from juzhen import losses
from juzhen.losses.loss import Loss

MODULES = sorted({getattr(losses, name).__module__ for name in losses.__all__})


@pytest.mark.parametrize("module", MODULES)
def test_examples_print_what_they_show(module):
    failed, _ = doctest.testmod(import_module(module), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert not failed


@pytest.mark.parametrize("name", [name for name in losses.__all__ if name[0].isupper()])
def test_a_loss_says_which_rows_it_takes(name):
    loss = getattr(losses, name)
    if not (isinstance(loss, type) and issubclass(loss, Loss)) or not loss.choose_when:
        return
    assert ">>> " in loss.__doc__
    assert "Relations:" in loss.__doc__
    if loss.input_kinds:  # one around another loss takes the rows of that one
        kinds = re.findall(r"^ *\| [^|\n]* \| [^|\n]* \| (\w+) \|$", loss.__doc__, re.MULTILINE)
        assert kinds == list(loss.input_kinds)
