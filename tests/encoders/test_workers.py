"""Several processes encode as one does; what they cannot do is refused before any starts."""

import numpy as np
import pytest
import torch

from juzhen import SentenceEncoder
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


@pytest.mark.slow
def test_workers_of_one_call_read_templates(bert_folder, load):
    encoder = PromptEncoder.around(load(bert_folder), Templates("“[X]”，[MASK]")).eval()
    np.testing.assert_array_equal(encoder.encode(TEXTS, workers=2), encoder.encode(TEXTS))


def test_an_encoder_is_loaded_on_a_device_and_gives_tensors_there():
    encoder = SentenceEncoder.load("builtin/mini_zh", device="cpu")
    assert encoder.device == torch.device("cpu")
    vectors = encoder.encode(TEXTS[:2], convert_to_tensor=True)
    assert (type(vectors), vectors.dtype, vectors.requires_grad) == (torch.Tensor, torch.float32, False)
    np.testing.assert_array_equal(vectors.numpy(), encoder.encode(TEXTS[:2]))
    assert encoder.encode(TEXTS[0], convert_to_tensor=True).shape == (encoder.dim,)
