"""Rows that cannot be read and options that cannot be meant are refused by their name, and no weight changes."""

import pandas as pd
import pytest
import torch
from refusals import rows
from test_fit import PAIRS

from juzhen import SentenceEncoder, fit, losses
from juzhen.core.errors import UserError
from juzhen.data.rows import as_examples

NAN, INFINITE = float("nan"), float("inf")
GRADED = [("今天", "明天", 0.5), ("今天", "后天", 5)]


@pytest.fixture
def encoder(encoder_folder):
    return SentenceEncoder.load(encoder_folder)


def trained(f, given=PAIRS, **options):
    before = {name: weight.clone() for name, weight in f.encoder.state_dict().items()}
    try:
        fit(f.encoder, given, **options)
    finally:
        assert all(torch.equal(weight, before[name]) for name, weight in f.encoder.state_dict().items())


def broken(encoder):
    next(encoder.parameters()).data[0] = NAN
    return encoder


def table(f, text):
    (f.tmp_path / "rows.tsv").write_text(text, encoding="utf-8")
    return f.tmp_path / "rows.tsv"


OPTIONS = [
    *(("epochs", value) for value in (NAN, INFINITE, 0, -1)),
    *(("batch_size", value) for value in (0, -3, 2.5)),
    *((key, NAN) for key in ("learning_rate", "warmup", "weight_decay", "clip_norm", "layer_decay")),
    *((key, -1) for key in ("seed", "learning_rate", "warmup", "weight_decay", "clip_norm", "layer_decay")),
    *(
        ("seed", 2**70),
        ("clip_norm", 1e-300),
        ("epochs", 1e30),
        ("learning_rate", 1e30),
        ("weight_decay", 1e30),
    ),
    *((key, wrong) for key in ("epochs", "batch_size", "seed", "warmup") for wrong in ("x", True, None)),
    *(("dev", []), ("dev", 5), ("dev", [(a, b, NAN) for a, b, _ in PAIRS]), ("sheet", "x")),
    *(("warmup", 2), ("loss", torch.nn.MSELoss()), ("loss", dict), ("device", "gpu"), ("adapter", "lorra")),
]
REFUSED = {
    "rows": [
        (lambda f, given=given, options=options: as_examples(given, **options), words)
        for given, options, words in (
            (GRADED, {}, r"rows, row 2: .* 5, .*score_range \[0, 1\]"),
            ([("今天", "明天"), ("今天", "后天", 5)], {}, "rows, row 2: .*expected 2"),
            ([("今\ud800天", "明天", 1), PAIRS[0]], {}, "rows.*row 1: column 1"),
            ([{"text_a": "今天", "text_b": "\udfff", "label": 1}], {}, "rows.*row 1: text_b"),
            (
                pd.DataFrame([["今天", "明天", 1]], columns=["text", "text", "label"]),
                {},
                "several columns text",
            ),
            *(
                (given, {}, "^rows: (column 3|label) .*all 2 rows.*columns=")
                for missing in (NAN, None, pd.NA)
                for given in (
                    [("今天", "明天", missing), ("今天", "后天", missing)],
                    pd.DataFrame({"text_a": ["今", "天"], "text_b": ["明", "天"], "label": [missing] * 2}),
                )
            ),
            ([("是", "今天", "明天"), ("否", "今天", "后天")], {}, "^rows: column 1 holds 是, 否"),
            (PAIRS, {"sheet": 2}, "^sheet="),
            (PAIRS, {"header": True}, "^header="),
            ("demo_sts", {"columns": {"text_a": 1, "text_b": 2, "label": 3}}, "^columns="),
            (PAIRS, {"on_bad_row": "ignore"}, "^on_bad_row="),
            (PAIRS, {"score_range": (5, 0)}, "^score_range="),
            (PAIRS, {"score_range": (0, NAN)}, "^score_range="),
        )
    ]
    + [(lambda f: as_examples(table(f, "a\tb\tlabel\n今天\t明天\t1\n今天\t\t0\n")), "rows.tsv:3")],
    "an option": [
        (lambda f, key=key, value=value: trained(f, **{key: value}), f"^{key}[=:]") for key, value in OPTIONS
    ],
    "a choice": [
        (lambda f: trained(f, decay="liner"), "decay=liner: .*Did you mean linear"),
        (lambda f: trained(f, GRADED[:1], loss="cosnet"), "cosnet: .*Did you mean cosent"),
        (lambda f: trained(f, GRADED[:1], loss="ce"), "unknown loss"),
        (
            lambda f: trained(f, [("今天", "明天", 0.4), ("今天", "后天", 1)], loss="info_nce"),
            "loss=InfoNCE needs .*scored pairs.* Losses for rows: .*CoSENT",
        ),
        (lambda f: fit(broken(f.encoder), PAIRS), "^learning_rate="),
        (
            lambda f: trained(f, loss=losses.SoftmaxClassifier(dim=3, num_classes=2)),
            "^loss=SoftmaxClassifier: its dim is 3",
        ),
    ],
}


@pytest.mark.parametrize(("call", "words"), rows(REFUSED))
@pytest.mark.sampled(2)
def test_what_cannot_be_trained_on_is_refused(f, call, words):
    with pytest.raises(UserError, match=words):
        call(f)


@pytest.mark.parametrize(
    "options",
    [
        {"decay": "cubic"},
        {"dev": "missing.csv"},
        {"dev": [("今天", "明天"), ("后天", "昨天")], "columns": {"text_a": "x"}},
        {"loss": "margin_mse"},
        {"loss": losses.NestedInfoNCE(dims=(9999,))},
        {"score_range": (1, 0)},
    ],
)
def test_a_refused_fit_leaves_the_encoder_without_adapter_and_as_it_was(encoder, options):
    encoder.nested_dims = (2,)
    names, before = [name for name, _ in encoder.named_parameters()], encoder.encode(["今天"])
    with pytest.raises(UserError):
        fit(encoder, PAIRS, adapter="lora", **options)
    assert [name for name, _ in encoder.named_parameters()] == names
    assert not encoder.training
    assert encoder.nested_dims == (2,)
    assert all(values.requires_grad for values in encoder.parameters())
    assert encoder.encode(["今天"]).tolist() == before.tolist()
