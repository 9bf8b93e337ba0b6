"""Documents that a cross-encoder is shown besides those of a row: drawn from other rows, known answers never."""

import numpy as np
import pytest

from juzhen.core.examples import DrawnDocuments, Examples, Kind
from juzhen.encoders.pair_encoder import CrossEncoderCollator
from juzhen.encoders.tokens import TokenTable

ANCHORS = np.array([0, 0, 1, 2, 3], dtype=np.int32)
POSITIVES = np.array([4, 5, 0, 6, 7], dtype=np.int32)


def test_a_draw_depends_on_seed_batch_and_row_alone():
    documents, rows = DrawnDocuments(ANCHORS, POSITIVES), np.array([3, 0, 2])
    whole = documents.draw(rows, 2, seed=(1, 7))
    np.testing.assert_array_equal(whole[1:], documents.draw(rows[1:], 2, seed=(1, 7)))
    assert any(not np.array_equal(whole, documents.draw(rows, 2, seed=seed)) for seed in ((1, 8), (2, 7)))


def test_known_answers_are_never_drawn_and_all_others_are():
    documents = DrawnDocuments(ANCHORS, POSITIVES)
    seen = {row: set() for row in range(5)}
    for batch in range(200):
        for row, drawn in enumerate(documents.draw(np.arange(5), 2, seed=(0, batch))):
            assert len(set(drawn.tolist())) == 2
            seen[row] |= set(drawn.tolist())
    assert seen == {0: {6, 7}, 1: {6, 7}, 2: {4, 5, 6, 7}, 3: {0, 4, 5, 7}, 4: {0, 4, 5, 6}}


def test_joint_inputs_of_drawn_documents_follow_those_of_the_row():
    texts = [*"abcdefgh"]
    columns = {"anchor": ANCHORS, "positive": POSITIVES}
    examples = Examples(
        name="set", split="train", kind=Kind.POSITIVE_PAIR, sentences=texts, columns=columns, targets=None
    )
    seen = []

    def join(first, second):
        seen.append((first.flat().tolist(), second.flat().tolist()))
        return None

    collator = CrossEncoderCollator(
        lambda some: TokenTable.of([[ord(text)] for text in some]),
        join=join,
        room=np.add,
        both_in_training=False,
        both_in_evaluation=False,
        drawn={"set": 2},
        seed=3,
    )
    batch = collator.training_batch(examples, np.array([0, 3]), index=5)
    drawn = DrawnDocuments(ANCHORS, POSITIVES).draw(np.array([0, 3]), 2, seed=(3, 5))
    expected = [4, 6, *drawn.T.ravel()]
    assert seen == [([97, 99] * 3, [97 + number for number in expected])]
    assert len(batch) == 2
    assert len(batch.sentence_ids) == 6
    collator(examples, np.array([0, 3]))
    assert seen[-1] == ([97, 99], [101, 103])  # evaluation reads the rows alone


@pytest.mark.parametrize("both", [False, True])
def test_documents_that_a_row_lacks_are_not_read(both):
    """Their places are those of the row's positive, so that scores come out in the order of rows and documents."""
    seen = []

    def join(first, second):
        seen.extend(zip(first.flat().tolist(), second.flat().tolist(), strict=True))

    examples = Examples.from_texts(
        "set", "train", kind=Kind.TRIPLET,
        texts={"anchor": [*"ab"], "positive": [*"cd"], "negative": [*"ef"], "negative_2": [*"cg"]},
        missing=np.array([[False, False, True], [False, False, False]]),
    )  # fmt: skip
    collator = CrossEncoderCollator(
        lambda some: TokenTable.of([[ord(text)] for text in some]),
        join=join, room=np.add, both_in_training=both, both_in_evaluation=False, drawn={"set": 1},
    )  # fmt: skip
    batch = collator.training_batch(examples, np.array([0, 1]), index=0)
    pairs = [(chr(first), chr(second)) for first, second in seen]
    drawn = [second for _, second in pairs[5:7]]
    rows = [("a", "c"), ("b", "d"), ("a", "e"), ("b", "f"), ("b", "g"), ("a", drawn[0]), ("b", drawn[1])]
    assert pairs == rows + [(second, first) for first, second in rows] * both
    assert batch.sentence_ids.tolist() == [0, 1, 0, 1, 1, 0, 1] * (1 + both)
    documents = [[pairs[place] for place in places] for places in batch.columns.values()]
    assert documents[0] == [*rows[:4], rows[0], *rows[4:]]
    assert documents[1:] == [[(second, first) for first, second in documents[0]]] * both
