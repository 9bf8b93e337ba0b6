"""Clients of other people against a server, as examples/clients.py has them; and the files of its container."""

import fnmatch
import re
import runpy

import numpy as np
import pytest
import yaml
from forks import ROOT

from juzhen.encoders import SentenceEncoder

EXAMPLE = ROOT / "examples" / "clients.py"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("package", "function"),
    [("openai", "with_openai"), ("langchain_openai", "with_langchain"), ("llama_index", "with_llama_index")],
)
def test_vectors_that_clients_read_are_those_of_the_encoder(address, prompted_folder, package, function):
    pytest.importorskip(package)
    example = runpy.run_path(str(EXAMPLE))
    vectors = example[function](address, "small")
    expected = SentenceEncoder.load(prompted_folder).encode(example["TEXTS"], normalize=True)
    np.testing.assert_allclose(vectors, expected, atol=1e-6)


@pytest.mark.slow
def test_the_client_of_cohere_reranks(address):
    pytest.importorskip("cohere")
    ranked = runpy.run_path(str(EXAMPLE))["rerank_with_cohere"](address, "judge")
    scores = [score for _, score in ranked]
    assert len(scores) == 2
    assert scores == sorted(scores, reverse=True)


def test_what_the_image_copies_is_there_and_not_ignored():
    """The image itself is built nowhere here."""
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").split("\n")
    let_in = [line[1:] for line in lines if line.startswith("!")]
    copied = [
        name for line in re.findall(r"^COPY (.*) \S+$", dockerfile, re.MULTILINE) for name in line.split()
    ]
    assert copied
    assert all(
        (ROOT / name).exists() and any(fnmatch.fnmatch(name, known) for known in let_in) for name in copied
    )
    services = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))["services"]
    for service in services.values():
        assert "JUZHEN_API_KEYS" in service["environment"]
        assert service["command"][0] == "builtin/mini_zh"
