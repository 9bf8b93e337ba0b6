"""What all fuzzing shares: how many examples, how valid files are spoilt, and what an answer may be."""

import copy
import functools
import json
import resource
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from juzhen.cli.program import reason_of
from juzhen.core.errors import UserError

QUICK, LARGE = 25, 4000
LONGEST = 1200
"""Characters of a message, paths apart."""

sizes = pytest.mark.parametrize(
    "size", [pytest.param(QUICK, id="quick"), pytest.param(LARGE, id="large", marks=pytest.mark.slow)]
)


def on_examples(size: int, share: float = 1.0, **drawn: st.SearchStrategy[Any]) -> Callable[[Callable], None]:
    """Calls the function that follows, at once, with so many examples of what is drawn, the same ones each time.

    share  for what takes longer than others
    """
    settled = settings(
        max_examples=max(5, int(size * share)),
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    return lambda holds: settled(given(**drawn)(holds))()


def answer(function: Callable[[], Any]) -> Any:
    """What the function gives, or the line in which the program says what it raised."""
    try:
        return function()
    except Exception as error:
        told = str(error) if isinstance(error, UserError) else reason_of(error)
        assert told.strip()
        assert "\n" not in told.strip(), told
        assert len(told) < LONGEST, told
        return told


@functools.cache
def memory_bound() -> None:
    """From now on this process may take 6 GiB more than it has: what asks for more fails instead of freezing all."""
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * 4096 + 6 * 2**30, resource.RLIM_INFINITY))


PIECES = [
    b"\0",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\r",
    b"\n",
    b"\r\n",
    b"\t",
    b",",
    b'"',
    b"\\ud800",
    b"\xe4\xbb",
]
PIECES += [
    b"{",
    b"}",
    b"[",
    b"]",
    b"null",
    b"NaN",
    b"1e999",
    b"-1",
    b"0",
    "٣".encode(),
    "\u200b".encode(),
    b"[" * 5000,
]


@st.composite
def spoilt(draw: st.DrawFn, *valid: bytes) -> bytes:
    """One of some valid files after up to five accidents."""
    raw = draw(st.sampled_from(valid))
    for _ in range(draw(st.integers(0, 5))):
        place = draw(st.integers(0, len(raw)))
        end = min(len(raw), place + draw(st.integers(0, 40)))
        piece = draw(st.one_of(st.sampled_from(PIECES), st.binary(max_size=8)))
        match draw(st.sampled_from(["cut", "take out", "put in", "replace", "repeat"])):
            case "cut":
                raw = raw[:place]
            case "take out":
                raw = raw[:place] + raw[end:]
            case "put in":
                raw = raw[:place] + piece + raw[place:]
            case "replace":
                raw = raw[:place] + piece + raw[end:]
            case "repeat":
                raw = raw[:end] + raw[place:]
    return raw


def any_file(*valid: bytes) -> st.SearchStrategy[bytes]:
    """Arbitrary bytes, or a valid file after accidents."""
    return st.one_of(st.binary(max_size=200), spoilt(*valid), spoilt(*valid), spoilt(*valid))


def dumped(value: Any) -> bytes:
    """JSON as strangers may write it: NaN, half surrogates."""
    return json.dumps(value).encode()


def any_json(*valid: Any) -> st.SearchStrategy[bytes]:
    """A file of JSON after accidents to its bytes, or to what it holds."""
    return st.one_of(any_file(*map(dumped, valid)), st.sampled_from(valid).flatmap(changed).map(dumped))


LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.integers(-2, 3),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from(["", "../..", "a/b/c", "dev/x/spearman", "\ud800", "x" * 3000]),
)
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
)


@st.composite
def changed(draw: st.DrawFn, valid: Any) -> Any:
    """Plain data with up to three of its nodes replaced, left out or renamed."""
    value = copy.deepcopy(valid)
    for _ in range(draw(st.integers(1, 3))):
        nodes: list[tuple[Any, Any]] = []
        _collect(value, nodes)
        if not nodes:
            return draw(JSON)
        parent, key = draw(st.sampled_from(nodes))
        what = draw(st.sampled_from(["replace", "replace", "leave out", "rename"]))
        if what == "replace":
            parent[key] = draw(JSON)
        elif isinstance(parent, list):
            del parent[key]
        elif what == "leave out":
            parent.pop(key)
        else:
            parent[draw(st.text(max_size=5))] = parent.pop(key)
    return value


def _collect(value: Any, nodes: list[tuple[Any, Any]]) -> None:
    """Every (container, key) below a value."""
    entries = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, inner in list(entries):
        nodes.append((value, key))
        _collect(inner, nodes)
