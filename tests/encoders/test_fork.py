"""A process that is forked after threads have worked encodes, too."""

import os

import pytest
from forks import python

FORKS = """
import multiprocessing
import sys
import torch
torch.set_num_threads(2)
from juzhen.core.machine import limit_threads
from juzhen.encoders import CrossEncoder, SentenceEncoder
encoder, inner = SentenceEncoder.load(sys.argv[1]), SentenceEncoder.load(sys.argv[1])
pairs = CrossEncoder(inner, outputs=1, segments=False, symmetric=False, seed=0).eval()
texts = [str(number) + "今天天气很好" * 9 for number in range(64)]
expected = encoder.encode(texts)

def work():
    limit_threads(2)
    assert abs(encoder.encode(texts) - expected).max() < 1e-5
    assert encoder.search(texts[3], texts, 1)[0].document == 3
    assert pairs.score(list(zip(texts, texts[1:]))).shape == (63,)

child = multiprocessing.get_context("fork").Process(target=work)
child.start()
child.join(60)
child.kill()
assert child.exitcode == 0, child.exitcode
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.slow
def test_a_fork_encodes_with_one_thread_and_says_so_once(encoder_folder):
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    ended = python("-c", FORKS, encoder_folder, env=environment, timeout=120)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.count("threads: 1, since this process was forked") == 1
