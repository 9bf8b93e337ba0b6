"""`juzhen.fit`: the weights of `train.py`, and what rows it reads."""

import warnings

import pyarrow as pa
import pytest
import torch
from jobs import run_job
from refusals import each, rows

from juzhen import SentenceEncoder, fit
from juzhen.core.examples import Kind
from juzhen.core.result import Score
from juzhen.data.convert import convert_rows
from juzhen.data.loading import cut
from juzhen.data.rows import as_examples
from juzhen.evaluation.scoring import Evaluation
from juzhen.losses import CoSENT, InfoNCE
from juzhen.training import fit as training

PAIRS = [
    ("怎么退货", "东西想退掉怎么办", 1),
    ("怎么退货", "什么时候发货", 0),
    ("如何开票", "发票怎么开", 1),
    ("如何开票", "怎么退货", 0),
]


class InputExample:
    """As in sentence-transformers."""

    def __init__(self, *, texts, label=0):
        self.texts, self.label = texts, label


@pytest.fixture
def encoder(encoder_folder):
    return SentenceEncoder.load(encoder_folder)


@pytest.mark.parametrize(
    ("loss", "dataset", "kind", "words"),
    [
        ("cosent", "demo_sts", Kind.SCORED_PAIR, []),
        ("softmax", "demo_nli", Kind.NLI_PAIR, []),
        (CoSENT(temperature=0.1), "demo_qmc", Kind.LABELLED_PAIR, ["loss.temperature=0.1"]),
        (InfoNCE(), "demo_order", Kind.POSITIVE_PAIR, ["loss=info_nce"]),
    ],
)
@pytest.mark.sampled(4)
def test_it_learns_the_weights_of_the_suite(loss, dataset, kind, words, encoder, encoder_folder, tmp_path):
    words = [f"loss={loss}"] if isinstance(loss, str) else words
    run = run_job(
        tmp_path,
        encoder_folder,
        "backbone=local",
        f"dataset=[{dataset}]",
        "evaluation.splits=[test]",  # without dev the last weights are kept
        "training.duration=2 epochs",
        "seed=3",
        *words,
    )
    rows = cut(convert_rows(as_examples(dataset), kind), 48, 3)
    learnt = fit(encoder, rows, loss=loss, epochs=2, batch_size=8, learning_rate=1e-3, seed=3)
    there = SentenceEncoder.load(run).state_dict()
    before = SentenceEncoder.load(encoder_folder).state_dict()
    for name, weight in learnt.state_dict().items():
        torch.testing.assert_close(weight, there[name], rtol=0, atol=1e-6)
    assert max((there[name] - weight).abs().max() for name, weight in before.items()) > 1e-3
    assert all(weight.grad is None for weight in learnt.parameters())


def test_few_steps_on_many_rows_tokenise_few_texts(encoder, encoder_folder, monkeypatch):
    rows = cut(as_examples("demo_qmc"), 400, 3)
    whole = fit(encoder, rows, epochs=16 / 400, batch_size=8, learning_rate=1e-3)
    read, tokenize = [], SentenceEncoder.tokenize

    def counting(self, texts, **options):
        read.extend(texts)
        return tokenize(self, texts, **options)

    monkeypatch.setattr(training, "LOOKED_AT", 20)
    monkeypatch.setattr(SentenceEncoder, "tokenize", counting)
    few = fit(encoder_folder, rows, epochs=16 / 400, batch_size=8, learning_rate=1e-3)
    assert 0 < len(read) <= 2 * (20 + 16) < len(rows.sentences)
    assert len(read) == len({*read})  # each once
    for name, weight in few.state_dict().items():
        assert torch.equal(weight, whole.state_dict()[name])


@pytest.mark.parametrize(
    ("rows", "kind"),
    [
        (["今天", "明天"], Kind.SENTENCE),
        ([("今天", "明天")], Kind.POSITIVE_PAIR),
        (PAIRS, Kind.LABELLED_PAIR),
        ([("今天", "明天", 0.4), ("今天", "后天", 1)], Kind.SCORED_PAIR),
        ([("今天", "明天", "雨", "雪")], Kind.TRIPLET),
    ],
)
def test_columns_say_of_what_kind_rows_are(rows, kind, tmp_path):
    assert as_examples(rows).kind is kind
    if isinstance(rows[0], tuple):
        names = {4: ["anchor", "positive", "negative", "negative_2"]}
        lines = [names.get(len(rows[0]), [f"c{n}" for n in range(len(rows[0]))]), *rows]
        for suffix, separator in ((".tsv", "\t"), (".csv", ",")):
            path = tmp_path / f"rows{suffix}"
            path.write_text(
                "".join(f"{separator.join(map(str, line))}\n" for line in lines), encoding="utf-8"
            )
            read = as_examples(path)
            assert (read.kind, read.fingerprint) == (kind, as_examples(rows).fingerprint)


def test_tables_and_examples_of_others_are_read():
    expected = as_examples(PAIRS).fingerprint
    columns = dict(zip(("text_a", "text_b", "label"), map(list, zip(*PAIRS, strict=True)), strict=True))
    assert as_examples(pa.table(columns).to_reader()).fingerprint == expected
    assert (
        as_examples([InputExample(texts=[a, b], label=label) for a, b, label in PAIRS]).fingerprint
        == expected
    )
    triplets = [InputExample(texts=["今天", "明天", "下雨"])]
    assert as_examples(triplets).fingerprint == as_examples([("今天", "明天", "下雨")]).fingerprint


def test_a_score_within_its_range_is_read():
    rows = [("今天", "明天", 0.5), ("今天", "后天", 5)]
    assert as_examples(rows, score_range=(0, 5)).targets.max() == 1


def test_numbers_in_columns_of_texts_are_texts(tmp_path):
    path = tmp_path / "rows.csv"
    rows = [f"{10086 + 7 * number},怎么退货{number},{number % 2}" for number in range(40)]
    path.write_text("\n".join(["question1,question2,label", *rows]), encoding="utf-8")
    read = as_examples(path)
    assert (read.kind, list(read.texts("text_a"))[:2]) == (Kind.LABELLED_PAIR, ["10086", "10093"])


def two_labels(f):
    rows = [f"今天{number},明天{number},{number % 2},{number // 2 % 2}" for number in range(40)]
    path = f.tmp_path / "rows.csv"
    path.write_text("\n".join(["q1,q2,label_a,label_b", *rows]), encoding="utf-8")
    as_examples(path)


def like_labels(f, words):
    rows = [(f"今天{number}", f"明天{number}", words[number % len(words)]) for number in range(6)]
    assert as_examples(rows).kind is Kind.TRIPLET


def without_a_change(f, given):
    rows, options = given
    before = {name: weight.clone() for name, weight in f.encoder.state_dict().items()}
    fit(f.encoder, rows, **options)
    assert all(torch.equal(weight, before[name]) for name, weight in f.encoder.state_dict().items())


def of_topics(texts, labels):
    return [{"text": text, "label": label} for text, label in zip(texts, labels, strict=True)]


OWN = [("iphone 订单", "怎么退货？", 1), ("如何开票", "发票怎么开", 1), ("如何开票", "怎么退货", 0)]
OWN_TRIPLETS = [(a, b, "什么时候发货") for a, b, _ in OWN]
TRAINED_ON = [
    [("ＩＰＨＯＮＥ　訂單", "怎麼退貨？", 1), ("好", "不好", 0)],
    [("怎么退货？", "iphone 订单", 1), ("好", "不好", 0)],
    [("怎么退货？", "iPhone订单", "发票怎么开")],
    [("怎么退货", "“iphone 订单”。", 1), ("好", "不好", 0)],
]
"""Rows of dev that are found as the leak filter finds them."""
ASKED = ["怎么退货？", "如何退貨", "发票怎么开", "开发票"]
AGAIN = ["怎么退货", "如何退货!", "甲", "乙"]
SAID = {
    "labels": [(two_labels, "label_b is read .* label_a")],
    "negatives": each(like_labels, [(("A类", "B类"), "A类"), (("E", "C", "N"), "E")]),
    "no change": each(
        without_a_change,
        [
            (([PAIRS[0]] * 4, {}), "batch_size"),
            (([("今天", "明天", 1), ("你好", "您好", 1)], {"loss": "cosent"}), "batch_size"),
            (([("今天", "明天")], {"loss": "info_nce"}), "batch_size"),
            ((PAIRS, {"epochs": 1}), "warmup=0"),
            ((PAIRS, {"learning_rate": 1e-300}), "learning_rate"),
        ],
    ),
    "dev": [
        (
            lambda f: fit(f.encoder, PAIRS, epochs=1, batch_size=4, learning_rate=1e-2, dev=PAIRS),
            f"^dev: {len(PAIRS)} rows",
        ),
        *each(
            lambda f, given: fit(f.encoder, given[0], dev=given[1], epochs=1),
            [((OWN if len(dev) == 2 else OWN_TRIPLETS, dev), "^dev: 1 row") for dev in TRAINED_ON],
        ),
        (
            lambda f: fit(
                f.encoder, of_topics(ASKED, "aabb"), dev=of_topics(AGAIN, "aabb"), loss="supcon", epochs=1
            ),
            "^dev: 2 rows",
        ),
    ],
}


@pytest.mark.parametrize(("call", "told"), rows(SAID))
def test_what_may_surprise_is_said(f, call, told):
    with pytest.warns(UserWarning, match=told) as caught:
        call(f)
    assert not [each for each in caught if "lr_scheduler" in str(each.message)]


def test_negatives_that_look_like_texts_are_not_said():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        as_examples([(f"今天{number}", f"明天{number}", f"下雨{number}") for number in range(6)])


@pytest.mark.filterwarnings("ignore:dev")
def test_the_best_weights_on_dev_are_kept(encoder, monkeypatch):
    scores = iter([0.95, 0.1, 0.9, 0.2])  # before training, and after each epoch
    weights = []

    def evaluated(encoder, settings):
        def run(sets, tasks, *, seen):
            weights.append(encoder.state_dict()["backbone.embeddings.word_embeddings.weight"].clone())
            return Evaluation({f"dev/{sets[0].name}/spearman": Score(next(scores))}), {}

        return run

    monkeypatch.setattr(training, "EvaluationRun", evaluated)
    learnt = fit(encoder, PAIRS, epochs=3, batch_size=4, learning_rate=1e-2, dev=PAIRS)
    kept = learnt.state_dict()["backbone.embeddings.word_embeddings.weight"]
    assert torch.equal(kept, weights[2])
    assert not torch.equal(kept, weights[3])
    assert "0.9500 → 0.9000" in str(learnt.fit_scores)
