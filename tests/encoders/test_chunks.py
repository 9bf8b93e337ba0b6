"""Long texts: the mean of their chunks, and chunks of which each has its vector."""

import numpy as np
import pytest
from decoders import write

from juzhen.cli.main import main
from juzhen.encoders.chunks import windows
from juzhen.encoders.embedding_cache import EmbeddingCache, encoder_digest
from juzhen.encoders.pooling import unit
from juzhen.encoders.tokens import batches_by_length

CHARACTERS = "今天气很好吗我你他们是的在不了有和人这中大为上个国说要就出会也时年得"


def text_of(count: int, start: int = 0) -> str:
    """So many tokens: a character is one."""
    return "".join(CHARACTERS[(start + place) % len(CHARACTERS)] for place in range(count))


def plain_mean(encoder, text: str, size: int, overlap: int) -> np.ndarray:
    """Of pieces that are encoded as texts, by their characters."""
    pieces = [text[start:end] for start, end in windows(len(text), size, overlap)]
    weights = np.array([len(piece) for piece in pieces])
    mean = (weights[:, None] * encoder.encode(pieces, long_texts="cut")).sum(0) / weights.sum()
    return unit(mean[None])[0] if encoder.normalize else mean


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("overlap", [0, 5])
@pytest.mark.sampled(2)
def test_a_long_text_is_the_mean_of_its_pieces_by_tokens(any_folder, load, normalize, overlap):
    encoder = load(any_folder, max_length=16, normalize=normalize).eval()
    texts = [text_of(count, start) for start, count in enumerate((3, 14, 15, 28, 40))]
    vectors = encoder.encode(texts, long_texts="chunk", overlap=overlap, batch_tokens=40)
    cut = encoder.encode(texts, batch_tokens=40)
    assert np.allclose(vectors[:2], cut[:2], atol=1e-6)  # two special tokens and 14 characters just fit
    assert np.array_equal(encoder.encode(texts[1], long_texts="chunk"), encoder.encode(texts[1]))
    for text, vector in zip(texts[2:], vectors[2:], strict=True):
        assert np.allclose(vector, plain_mean(encoder, text, 14, overlap), atol=1e-6)
    assert not np.allclose(vectors[2:], cut[2:], atol=1e-3)


def test_a_prompt_stands_before_each_chunk(bert_folder, load):
    encoder = load(bert_folder, max_length=16, prompts={"query": "问今天："}).eval()
    before = len(encoder.tokenizer("问今天：", add_special_tokens=False)["input_ids"])
    text = text_of(30)
    vector = encoder.encode(text, prompt_name="query", long_texts="chunk")
    expected = plain_mean(encoder.with_prompt("query"), text, 14 - before, 0)
    assert np.allclose(vector, expected, atol=1e-6)


def test_caches_and_sizes(bert_folder, load, tmp_path):
    encoder = load(bert_folder, max_length=16, normalize=True).eval()
    texts, cache = [text_of(40), text_of(4)], EmbeddingCache(tmp_path)
    whole = encoder.encode(texts, long_texts="chunk")
    for _ in range(2):
        assert np.array_equal(encoder.encode(texts, long_texts="chunk", cache=cache), whole)
    assert not np.allclose(encoder.encode(texts, cache=cache)[0], whole[0], atol=1e-3)
    half = encoder.encode(texts, long_texts="chunk", truncate_dim=16)
    assert np.allclose(half, unit(whole[:, :16]), atol=1e-6)
    readers = [encoder.with_long_texts("chunk", overlap) for overlap in (0, 1)]
    assert np.array_equal(readers[0].encode(texts), whole)
    digests = {encoder_digest(reader, "torch") for reader in (encoder, *readers)}
    assert len(digests) == 3
    assert encoder_digest(readers[0].with_long_texts("cut"), "torch") == encoder_digest(encoder, "torch")


def test_what_is_lost_is_counted(bert_folder, load):
    encoder = load(bert_folder, max_length=16).eval()
    texts = [text_of(count) for count in (3, 14, 15, 40)]
    assert encoder.lost_tokens(texts).tolist() == [0, 0, 1, 26]
    assert encoder.lost_tokens(text_of(13), prompt="今天").tolist() == [1]
    assert not encoder.with_long_texts("chunk").lost_tokens(texts).any()


def test_lines_that_are_cut_are_named_and_listed(folder, tmp_path, capsys):
    lines = tmp_path / "lines.txt"
    lines.write_text("\n".join([text_of(3), text_of(40), text_of(31)]) + "\n", encoding="utf-8")
    report, output = tmp_path / "cut.tsv", tmp_path / "lines.npy"
    assert main(["encode", str(folder), str(lines), "--cut-report", str(report)]) == 0
    printed = capsys.readouterr().err
    assert "2 of 3 lines are longer than 32 tokens" in printed
    assert "--cut-report FILE" in printed
    assert report.read_text() == "line\ttokens\tlost\n2\t42\t10\n3\t33\t1\n"
    cut = np.load(output)
    assert main(["encode", str(folder), str(lines), "--long-texts", "chunk", "--overlap", "4"]) == 0
    assert "were cut" not in capsys.readouterr().err
    whole = np.load(output)
    assert np.allclose(whole[0], cut[0], atol=1e-6)
    assert not np.allclose(whole[1], cut[1], atol=1e-3)


def test_a_text_of_8192_tokens_goes_alone():
    lengths = np.array([8192, 20, 20, 4096, 4000, 2048, 2048, 2048, 2048, 2048, 1024])
    batches = [batch.tolist() for batch in batches_by_length(lengths, batch_tokens=16_384)]
    assert batches == [[0], [3], [4], [5, 6, 7, 8], [9, 10, 1, 2]]
    assert all(sum(lengths[batch] ** 2) <= 16_384 * 1024 for batch in batches[1:])


@pytest.mark.parametrize("family", ["qwen3", "modernbert"])
def test_each_chunk_of_a_decoder_ends_as_a_text_does(family, tmp_path, load):
    pooling = "last" if family == "qwen3" else "mean"
    encoder = load(write(family, tmp_path / family), max_length=16, pooling=pooling, normalize=True).eval()
    special = encoder.tokenizer.num_special_tokens_to_add()
    text = text_of(40)
    vector = encoder.encode(text, long_texts="chunk")
    assert np.allclose(vector, plain_mean(encoder, text, 16 - special, 0), atol=1e-5)
    if family != "qwen3":
        assert np.allclose(
            encoder.encode_chunks(text[:12], late=True).vectors[0], encoder.encode(text[:12]), atol=1e-6
        )
