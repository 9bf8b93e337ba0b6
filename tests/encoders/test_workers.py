"""Several processes encode as one does; what they cannot do is refused before any starts."""

import numpy as np
import pytest
import torch

from juzhen import SentenceEncoder
from juzhen.core.errors import UserError
from juzhen.encoders import PromptEncoder
from juzhen.encoders.prompts import Templates
from juzhen.encoders.workers import Workers

TEXTS = ["今天天气很好吗", "我", "我你他们", "今" * 30, "今天"] * 7


@pytest.mark.slow
def test_workers_give_the_vectors_of_one_process_for_several_calls(bert_folder, load):
    encoder = load(bert_folder, prompts={"query": "我们"}, max_length=16).eval()
    options = {"batch_tokens": 64}
    with Workers(encoder, ["cpu", "cpu"]) as workers:
        for more in ({}, {"prompt_name": "query"}, {"normalize": True}):
            expected = encoder.encode(TEXTS, **options, **more)
            np.testing.assert_array_equal(encoder.encode(TEXTS, workers=workers, **options, **more), expected)
        with torch.no_grad():
            next(encoder.parameters()).add_(0.1)
        with pytest.raises(UserError, match="workers: they hold another encoder"):
            encoder.encode(TEXTS, workers=workers)


@pytest.mark.slow
def test_workers_of_one_call_read_templates(bert_folder, load):
    encoder = PromptEncoder.around(load(bert_folder), Templates("“[X]”，[MASK]")).eval()
    np.testing.assert_array_equal(encoder.encode(TEXTS, workers=2), encoder.encode(TEXTS))


@pytest.mark.parametrize(
    ("workers", "message"),
    [
        (0, "workers=0: expected a whole number, at least 1"),
        ([], "workers=0: expected"),
        (["cuda:97"], "device=cuda:97: this machine, or this build of torch, has none"),
        (["gpu"], "device=gpu: "),
    ],
)
def test_workers_that_cannot_start_are_refused(bert_folder, load, workers, message):
    with pytest.raises(UserError, match=message):
        load(bert_folder).encode(TEXTS, workers=workers)


def test_an_encoder_is_loaded_on_a_device_and_gives_tensors_there():
    encoder = SentenceEncoder.load("builtin/mini_zh", device="cpu")
    assert encoder.device == torch.device("cpu")
    vectors = encoder.encode(TEXTS[:2], convert_to_tensor=True)
    assert (type(vectors), vectors.dtype, vectors.requires_grad) == (torch.Tensor, torch.float32, False)
    np.testing.assert_array_equal(vectors.numpy(), encoder.encode(TEXTS[:2]))
    assert encoder.encode(TEXTS[0], convert_to_tensor=True).shape == (encoder.dim,)
    with pytest.raises(UserError, match=r"device=mps: .*There is: cpu"):
        SentenceEncoder.load("builtin/mini_zh", device="mps")
    with pytest.raises(UserError, match=r"^device=gpu: .*Type cpu, cuda, cuda:1 or mps$"):
        SentenceEncoder.load("builtin/mini_zh", device="gpu")
