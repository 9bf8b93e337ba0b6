"""A step of training, and encoding, packed against padded, of an encoder with rotary positions and of a decoder."""

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer, ModernBertConfig, ModernBertModel, Qwen3Config, Qwen3Model

from benchmarks.inference import DEMO, REAL
from benchmarks.measure import Numbers, alternate, device, medians, wait
from benchmarks.table import SIZES
from benchmarks.work import BUILTIN, DATA, MAX_LENGTH, read_set
from juzhen.encoders import SentenceEncoder
from juzhen.encoders.pooling import unit

POOLINGS = {"modernbert": "mean", "qwen3": "last"}
PACKED, PADDED = "ours packed", "theirs padded"


@contextmanager
def random_weights(family: str, size: str) -> Iterator[Path]:
    """The folder of an encoder with random weights, always the same, and the built-in vocabulary."""
    layers, width, heads = SIZES[size]
    tokenizer = AutoTokenizer.from_pretrained(BUILTIN / "encoder")
    shape: dict[str, Any] = {
        "vocab_size": len(tokenizer), "hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": heads,
        "intermediate_size": 2 * width, "pad_token_id": tokenizer.pad_token_id,
    }  # fmt: skip
    if family == "qwen3":
        shape |= {"num_key_value_heads": heads // 2, "head_dim": width // heads}
    build: Any = {"qwen3": (Qwen3Config, Qwen3Model), "modernbert": (ModernBertConfig, ModernBertModel)}[
        family
    ]
    with tempfile.TemporaryDirectory() as scratch, torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        for part in (build[1](build[0](**shape)), tokenizer):
            part.save_pretrained(scratch)
        yield Path(scratch)


def opened(folder: Path, family: str, *, packs: bool) -> SentenceEncoder:
    """The encoder; where it does not pack, padded, with transformers' own attention."""
    encoder = SentenceEncoder.load(folder).to(device())
    encoder.pooling, encoder.max_length = POOLINGS[family], MAX_LENGTH
    if not packs:
        encoder._packs = False
        encoder.backbone.set_attn_implementation("sdpa")
    return encoder


def training(encoder: SentenceEncoder, texts: Sequence[str], batch_size: int) -> None:
    """Forward and backward of batches in the order of the set, as a loss of pairs has them."""
    encoder.train()
    for start in range(0, len(texts), 2 * batch_size):
        tokens = encoder.collate(encoder.tokenize(texts[start : start + 2 * batch_size]))
        embeddings = torch.nn.functional.normalize(encoder(tokens.to(encoder.device)), dim=-1)
        (embeddings @ embeddings.T).logsumexp(1).mean().backward()
    encoder.zero_grad()
    wait()


def encoding(encoder: SentenceEncoder, texts: Sequence[str], batch_size: int) -> None:
    encoder.eval().encode(texts, show_progress=False)


def timed(
    work: Callable[..., None], encoder: SentenceEncoder, texts: Sequence[str], batch_size: int, number: int
) -> Numbers:
    start = time.perf_counter()
    work(encoder, texts, batch_size)
    return {"seconds": time.perf_counter() - start}


def packing(*, sizes: Sequence[str], rounds: int, sentences: int, batch_size: int) -> dict[str, Any]:
    """Rows of a Report. Raises AssertionError where the two ways do not give the same embeddings."""
    names = REAL if DATA.is_dir() else DEMO
    texts = list(dict.fromkeys(chain(*(read_set(name, "dev").sentences for name in names))))[:sentences]
    rows, apart = [], 0.0
    for size in sizes:
        for family in POOLINGS:
            with random_weights(family, size) as folder:
                sides = {side: opened(folder, family, packs=side == PACKED) for side in (PACKED, PADDED)}
                vectors = [unit(encoder.encode(texts[:256])) for encoder in sides.values()]
                apart = max(apart, float(abs(vectors[0] - vectors[1]).max()))
                assert apart < 1e-4, f"{family}: packed and padded embeddings differ by {apart:.1e}"
                for work in (training, encoding):
                    for encoder in sides.values():  # the first batches of a shape are slower
                        work(encoder, texts[: 2 * batch_size], batch_size)
                    turns = {
                        side: partial(timed, work, encoder, texts, batch_size)
                        for side, encoder in sides.items()
                    }
                    table = medians(alternate(turns, rounds), "seconds", lambda side: PADDED)
                    rows += [
                        {"size": f"{work.__name__}, {family}, {size}", "side": side}
                        | numbers
                        | {"sentences_per_second": len(texts) / numbers["seconds"]}
                        for side, numbers in table.items()
                    ]
    return {"rows": rows, "checks": {"largest_difference": apart}}
