"""Who cannot be reached is known in seconds, and what can be done is said."""

import socket
import threading

import pytest

from juzhen.core import machine
from juzhen.core.machine import answers
from juzhen.data import source
from juzhen.data.source import require_hub


@pytest.fixture(autouse=True)
def nobody(monkeypatch, tmp_path):
    """No proxy, no cache of the hub, no answer kept from an earlier test."""
    for name in ("HTTPS_PROXY", "https_proxy", "HF_HUB_OFFLINE", "HF_HUB_CACHE", "HF_DATASETS_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    machine._hub_problem.cache_clear()
    yield
    machine._hub_problem.cache_clear()


def test_a_server_answers_or_does_not(open_port):
    assert answers(open_port)
    assert not answers("http://127.0.0.1:9")
    assert not answers("http://127.0.0.1:99999999")


def test_a_proxy_stands_for_what_is_behind_it(open_port, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", open_port)
    assert answers("https://no-such-host.invalid")


def test_a_name_that_nobody_resolves_is_not_waited_for(monkeypatch):
    done = threading.Event()

    def wait(*place, **more):
        done.wait()
        raise OSError("too late")

    monkeypatch.setattr(socket, "create_connection", wait)
    assert not answers("https://huggingface.co", seconds=0.05)
    done.set()


@pytest.mark.parametrize("entry", ["hub/datasets--C-MTEB--BQ", "datasets/C-MTEB___bq"])
def test_a_copy_in_the_cache_is_asked_without_a_network(monkeypatch, tmp_path, entry):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (tmp_path / "hf" / entry).mkdir(parents=True)
    require_hub("toy", "C-MTEB/BQ")


def test_the_hub_is_asked_once(monkeypatch, open_port):
    monkeypatch.setenv("HF_ENDPOINT", open_port)
    asked = []
    monkeypatch.setattr(machine, "answers", lambda url: asked.append(url) or True)
    for name in ("C-MTEB/BQ", "C-MTEB/LCQMC"):
        source.require_hub("toy", name)
    assert asked == [open_port]
