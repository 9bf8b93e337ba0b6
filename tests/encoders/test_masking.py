"""What is hidden from a masked language model: how much, of which tokens, and always the same."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from juzhen.encoders.forward import pack
from juzhen.encoders.masking import LONGEST_SPAN, Masking, Vocabulary, mixed, span_start_rate, uniform

CLS, SEP, MASK = 0, 1, 2
SIZE = 200
FIRST_CONTINUING = 150


@pytest.fixture(scope="module")
def vocabulary():
    special = torch.zeros(SIZE, dtype=torch.bool)
    special[:3] = True
    return Vocabulary(MASK, special, torch.arange(SIZE) >= FIRST_CONTINUING, torch.arange(3, SIZE))


@pytest.fixture(scope="module")
def sentences():
    generator = np.random.default_rng(0)
    return [
        np.concatenate([[CLS], generator.integers(3, SIZE, size), [SEP]]).tolist()
        for size in generator.integers(5, 60, 400)
    ]


def masking(**changes):
    numbers = {"rate": 0.3, "strategy": "span", "mean_span": 2.0, "mask_share": 0.8, "random_share": 0.1}
    return Masking(**(numbers | changes))


def masked(how, token_lists, vocabulary, *, numbers=None, seed=1, step=5):
    tokens = pack(token_lists)
    numbers = torch.arange(len(token_lists)) if numbers is None else torch.tensor(numbers)
    seen, hidden = how(tokens, numbers, vocabulary, seed=seed, step=step)
    return tokens, seen, hidden


def per_sentence(tokens, values):
    """Values of each sentence, in the order given."""
    parts = values.split(tokens.lengths.tolist())
    return [parts[place].tolist() for place in tokens.inverse_permutation.tolist()]


@pytest.mark.parametrize("strategy", ["token", "word", "span"])
@pytest.mark.parametrize("rate", [0.15, 0.4])
def test_as_many_tokens_are_hidden_as_asked_for_and_replaced_as_asked_for(
    vocabulary, sentences, strategy, rate
):
    tokens, seen, hidden = masked(masking(strategy=strategy, rate=rate), sentences, vocabulary)
    ids = tokens.input_ids
    ordinary = ~vocabulary.special[ids]
    assert not (hidden & ~ordinary).any()
    assert hidden.sum() / ordinary.sum() == pytest.approx(rate, abs=0.025)
    assert torch.equal(seen[~hidden], ids[~hidden])
    replaced = (seen[hidden] == MASK).float().mean()
    kept = (seen[hidden] == ids[hidden]).float().mean()
    assert replaced == pytest.approx(0.8, abs=0.02)
    assert kept == pytest.approx(0.1, abs=0.02)
    at_random = seen[hidden & (seen != MASK) & (seen != ids)]
    assert at_random.unique().numel() > 50
    assert not vocabulary.special[at_random].any()


def test_the_first_tokens_of_a_sentence_are_hidden_as_often_as_others(vocabulary):
    sentences = [[CLS, *range(3, 23), SEP]] * 4000
    _, _, hidden = masked(masking(mean_span=4.0), sentences, vocabulary)
    by_place = hidden.view(4000, 22).float().mean(0)[1:-1]
    assert (by_place - 0.3).abs().max() < 0.03


@pytest.mark.parametrize("strategy", ["word", "span"])
def test_words_are_hidden_whole(vocabulary, sentences, strategy):
    tokens, _, hidden = masked(masking(strategy=strategy), sentences, vocabulary)
    continues = vocabulary.continues[tokens.input_ids] & ~vocabulary.special[tokens.input_ids]
    after_special = torch.roll(vocabulary.special[tokens.input_ids], 1)
    goes_on = continues & ~after_special
    assert goes_on.any()
    assert torch.equal(hidden[goes_on], torch.roll(hidden, 1)[goes_on])


def runs(hidden):
    """Lengths of the runs of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], hidden, [0]])))
    return edges[1::2] - edges[::2]


def test_spans_have_the_length_asked_for(vocabulary):
    sentences = [[CLS, *range(3, 143), SEP]] * 400
    lengths = {}
    for mean in (1.0, 3.0):
        # At a low rate spans hardly meet, and runs are spans.
        tokens, _, hidden = masked(masking(rate=0.02, mean_span=mean), sentences, vocabulary)
        lengths[mean] = np.concatenate([runs(one) for one in per_sentence(tokens, hidden.int())])
    assert lengths[1.0].mean() == pytest.approx(1.0, abs=0.1)
    # Geometric with mean 3, cut at LONGEST_SPAN.
    expected = sum((1 - 1 / 3) ** lag for lag in range(LONGEST_SPAN))
    assert lengths[3.0].mean() == pytest.approx(expected, rel=0.12)


def test_the_start_rate_solves_its_equation():
    for rate, mean in [(0.3, 1.0), (0.3, 2.0), (0.15, 5.0)]:
        start = span_start_rate(rate, mean=mean)
        spared = np.prod([1 - start * (1 - 1 / mean) ** lag for lag in range(LONGEST_SPAN)])
        assert 1 - spared == pytest.approx(rate, abs=1e-9)


@pytest.mark.parametrize("strategy", ["token", "word", "span"])
def test_masks_depend_on_seed_step_and_sentence_and_on_nothing_else(vocabulary, sentences, strategy):
    how = masking(strategy=strategy)
    tokens, seen, _ = masked(how, sentences[:20], vocabulary)
    first = per_sentence(tokens, seen)
    # Another order and other company change nothing for a sentence.
    order = [13, 2, 7, 300, 19]
    others, seen, _ = masked(how, [sentences[row] for row in order], vocabulary, numbers=order)
    again = per_sentence(others, seen)
    assert [again[place] for place in (0, 1, 2, 4)] == [first[row] for row in (13, 2, 7, 19)]
    for changed in ({"seed": 2}, {"step": 6}, {"numbers": list(range(1, 21))}):
        tokens, seen, _ = masked(how, sentences[:20], vocabulary, **changed)
        assert per_sentence(tokens, seen) != first


def test_hashes_are_evenly_spread_and_neighbours_unrelated():
    numbers = uniform(mixed(torch.arange(100_000)))
    assert 0 <= numbers.min() < numbers.max() < 1
    counts = torch.histc(numbers, bins=50, min=0, max=1)
    assert ((counts - 2000).abs() < 250).all()
    assert abs(float(torch.corrcoef(torch.stack([numbers[:-1], numbers[1:]]))[0, 1])) < 0.02


def test_what_begins_and_what_continues_a_word_is_read_from_the_vocabulary():
    wordpiece = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##a", "##s", "天", "1"]
    bpe = ["<s>", "<mask>", "Ġthe", "re", "天", "!", "9"]

    def tokenizer(tokens, specials, mask):
        return SimpleNamespace(
            mask_token_id=mask,
            all_special_ids=list(range(specials)),
            name_or_path="some",
            get_vocab=lambda: {token: number for number, token in enumerate(tokens)},
        )

    found = Vocabulary.of(tokenizer(wordpiece, 5, 4), size=12)
    assert found.continues.nonzero().flatten().tolist() == [6, 7]
    assert found.ordinary.tolist() == [5, 6, 7, 8, 9]
    assert Vocabulary.of(tokenizer(bpe, 2, 1), size=7).continues.nonzero().flatten().tolist() == [3, 6]
