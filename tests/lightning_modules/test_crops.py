"""Pieces of texts as pairs: how they are cut, that they are the same again, and that an encoder learns from them."""

import numpy as np
import pytest
from jobs import logged, run_job, typed_job, weights

from juzhen.core.errors import UserError
from juzhen.core.examples import Examples, Kind
from juzhen.core.result import Result
from juzhen.data.text import TextTable
from juzhen.encoders.crops import CropCollator, Crops
from juzhen.encoders.packing import pack
from lightning_modules.matching import match_losses

LINES = ["一二三四五六七八九十", "天地玄黄宇宙洪荒", "日月盈昃辰宿列张寒来暑往", "好"]


def collator(tokenizer, *, seed=1, shares=(0.3, 0.8), delete=0.0, neighbour_share=0.0):
    crops = Crops(shares, delete=delete, neighbour_share=neighbour_share, tokenizer=tokenizer)
    return CropCollator(lambda texts: tokenizer(list(texts))["input_ids"], pack, crops=crops, seed=seed)


def table():
    raw = "\n".join(LINES).encode()
    ends = np.cumsum([len(line.encode()) + 1 for line in LINES]) - 1
    return TextTable(np.frombuffer(raw, np.uint8), ends - [len(line.encode()) for line in LINES], ends)


def examples(sentences):
    return Examples(
        "some", "train", Kind.SENTENCE, sentences, {"text": np.arange(len(sentences), dtype=np.int32)}, None
    )


def pieces(batch, tokenizer):
    """(anchors, positives) as texts."""
    parts = batch.tokens.input_ids.split(batch.tokens.lengths.tolist())
    texts = []
    for place in batch.tokens.inverse_permutation.tolist():
        words = tokenizer.convert_ids_to_tokens(parts[place].tolist())
        assert (words[0], words[-1]) == ("[CLS]", "[SEP]")
        texts.append("".join(words[1:-1]))
    return tuple([texts[row] for row in batch.columns[name].tolist()] for name in ("anchor", "positive"))


@pytest.mark.parametrize("sentences", [LINES, table()], ids=["list", "running text"])
def test_pieces_are_stretches_of_their_text_of_the_length_asked_for(tokenizer, sentences):
    collate = collator(tokenizer)
    shares = []
    for index in range(200):
        batch = collate.training_batch(examples(sentences), np.array([2, 0, 3]), index=index)
        assert batch.kind is Kind.POSITIVE_PAIR
        assert batch.rows.tolist() == [2, 0, 3]
        assert len(set(batch.sentence_ids.tolist())) == 6
        for column in pieces(batch, tokenizer):
            for piece, row in zip(column, (2, 0, 3), strict=True):
                assert piece
                assert piece in LINES[row]
            shares.append(len(column[0]) / len(LINES[2]))
    assert min(shares) == pytest.approx(0.3, abs=0.06)
    assert max(shares) == pytest.approx(0.8, abs=0.06)


def test_pieces_depend_on_seed_batch_and_sentence_and_on_nothing_else(tokenizer):
    rows = examples(LINES)
    first = pieces(collator(tokenizer).training_batch(rows, np.array([0, 1, 2]), index=7), tokenizer)
    again = pieces(collator(tokenizer).training_batch(rows, np.array([2, 0]), index=7), tokenizer)
    assert [column[0] for column in first] == [column[1] for column in again]
    assert [column[2] for column in first] == [column[0] for column in again]
    other = [
        pieces(collator(tokenizer).training_batch(rows, np.array([0, 1, 2]), index=8), tokenizer),
        pieces(collator(tokenizer, seed=2).training_batch(rows, np.array([0, 1, 2]), index=7), tokenizer),
    ]
    assert first not in other


def test_tokens_are_deleted_and_never_all(tokenizer):
    collate = collator(tokenizer, shares=(1.0, 1.0), delete=0.5)
    lengths = []
    for index in range(300):
        anchors, _ = pieces(collate.training_batch(examples(LINES), np.array([2, 3]), index=index), tokenizer)
        assert anchors[1] == "好"
        letters = iter(LINES[2])
        assert all(letter in letters for letter in anchors[0])  # in order, with gaps
        lengths.append(len(anchors[0]))
    assert np.mean(lengths) == pytest.approx(len(LINES[2]) / 2, rel=0.1)


def test_the_second_piece_may_come_from_the_next_stretch(tokenizer):
    collate = collator(tokenizer, neighbour_share=1.0)
    anchors, positives = pieces(
        collate.training_batch(examples(table()), np.array([0, 1, 3]), index=0), tokenizer
    )
    assert [anchors[row] in LINES[number] for row, number in enumerate((0, 1, 3))] == [True] * 3
    # The last one has no next.
    assert [positives[row] in LINES[number] for row, number in enumerate((1, 2, 3))] == [True] * 3
    half = collator(tokenizer, neighbour_share=0.5)
    taken = [
        pieces(half.training_batch(examples(table()), np.array([0]), index=index), tokenizer)[1][0]
        in LINES[1]
        for index in range(200)
    ]
    assert np.mean(taken) == pytest.approx(0.5, abs=0.12)


def test_evaluation_reads_whole_sentences(tokenizer):
    batch = collator(tokenizer)(examples(LINES), np.array([1, 2]))
    assert batch.kind is Kind.SENTENCE
    assert batch.tokens.lengths.tolist() == [len(LINES[1]) + 2, len(LINES[2]) + 2]


@pytest.mark.slow
def test_a_job_learns_from_pieces_and_is_continued_with_the_same_ones(tmp_path, tiny_backbone):
    job = (
        "model=crops",
        "loss=info_nce",
        "debug_rows=160",
        "training.batch_size=32",
        "training.duration=3 epochs",
        "backbone.dropout=0.0",
        "logger.every_steps=1",
    )
    run = run_job(tmp_path / "one", tiny_backbone, *job, "optimizer.lr=5e-3")
    result = Result.read(run)
    assert result.data["train/demo_sts"]["kind"] == "sentence"
    losses = logged(run)
    assert sum(losses[-3:]) < sum(losses[:3])
    assert weights(run_job(tmp_path / "two", tiny_backbone, *job, "optimizer.lr=5e-3")) == weights(run)


def test_a_loss_that_takes_no_pairs_of_pieces_is_refused():
    with pytest.raises(UserError, match=r"loss=cosent: CropEncoder makes positive pairs.*info_nce"):
        match_losses(typed_job("suite=none", "dataset=[demo_sts]", "model=crops", "loss=cosent"))
    job = typed_job("suite=none", "dataset=[demo_sts]", "model=crops", "loss=by_kind")
    (match,) = match_losses(job).values()
    assert match.kind is Kind.SENTENCE
    assert match.loss["_target_"].endswith("InfoNCE")


def test_a_view_that_the_model_cannot_use_is_refused():
    words = ("dataset=[demo_nli]", "model=crops", "loss=info_nce", "dataset.demo_nli.view=triplet")
    with pytest.raises(UserError, match="model=CropEncoder needs sentences"):
        match_losses(typed_job("suite=none", *words))


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ({"shares": (0.8, 0.3)}, r"shares=\[0.8, 0.3\]"),
        ({"shares": (0.5,)}, "shortest and the longest"),
        ({"delete": 1.0}, "delete=1.0"),
        ({"neighbour_share": -0.1}, "neighbour_share=-0.1"),
    ],
)
def test_numbers_that_make_no_sense_are_named(tokenizer, numbers, message):
    with pytest.raises(UserError, match=message):
        collator(tokenizer, **numbers)


MASKED = (
    "model=crops",
    "loss=info_nce",
    "debug_rows=160",
    "training.batch_size=32",
    "training.duration=4 epochs",
    "backbone.dropout=0.0",
    "logger.every_steps=1",
    "model.mlm_weight=0.5",
    "optimizer.lr=5e-3",
)


@pytest.mark.slow
def test_hidden_tokens_are_named_in_the_same_pass(tmp_path, tiny_backbone):
    run = run_job(tmp_path / "one", tiny_backbone, *MASKED)
    contrast, named = (logged(run, f"train/demo_sts/{name}") for name in ("contrast", "mlm_loss"))
    expected = [one + 0.5 * other for one, other in zip(contrast, named, strict=True)]
    assert logged(run) == pytest.approx(expected, rel=1e-5)
    assert sum(named[-3:]) / 3 < sum(named[:3]) / 3 - 0.2
    assert weights(run_job(tmp_path / "two", tiny_backbone, *MASKED)) == weights(run)


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("model.mlm_weight=-1", r"model\.mlm_weight=-1"),
        ("hardware.micro_batch_tokens=100", r"model\.mlm_weight learns both from one pass"),
    ],
)
def test_numbers_of_masking_that_make_no_sense_are_named(tmp_path, tiny_backbone, word, message):
    with pytest.raises(UserError, match=message):
        run_job(tmp_path, tiny_backbone, *MASKED, word)
