"""Masked language modelling as a job: it learns, is continued exactly, scores dev, and leaves an encoder."""

import json

import numpy as np
import pytest
import torch
from jobs import interrupt, logged, run_job, weights
from jobs import module_of as any_module
from transformers import AutoModelForMaskedLM

from juzhen.core.examples import Examples, Kind
from juzhen.core.result import Result
from juzhen.encoders import load_encoder
from lightning_modules.mlm import MaskedPlan

TEXT = ("dataset=[text_tatoeba]", "model=mlm")


@pytest.fixture(scope="module")
def text_folder(tmp_path_factory, project_root):
    """A data folder with one running text: sentences of a built-in set, some to a line."""
    folder = tmp_path_factory.mktemp("data")
    rows = (
        (project_root / "juzhen" / "builtin" / "data" / "demo_nli" / "train.tsv")
        .read_text("utf-8")
        .splitlines()[1:]
    )
    sentences = [row.split("\t")[0] for row in rows][:600]
    lines = ["".join(sentences[first : first + 3]) for first in range(0, len(sentences), 3)]
    (folder / "text").mkdir()
    (folder / "text" / "tatoeba_zh.txt").write_text("\n".join(lines), encoding="utf-8")
    return folder


SCORED = (
    "benchmark=none",
    "+dataset@evaluate.demo_sts=demo_sts",
    "evaluation.splits=[dev]",
    "hardware.eval_batch_tokens=1",
)
"""Pairs to score too, each sentence in a batch of its own: its embedding then does not depend, in the last bit, on
what else is scored."""


def overrides(text_folder, *more):
    layout = "dataset.text_tatoeba.layouts.txt"
    return (*TEXT, f"data_dir={text_folder}", f"{layout}.held_out_percent=20", "debug_rows=80", *more)


def trained(folder, backbone, text_folder, steps):
    half = f"training.validate_every={steps // 2} steps"
    words = ("training.batch_size=16", "optimizer.lr=1e-2", "logger.every_steps=1", *SCORED)
    return run_job(
        folder, backbone, *overrides(text_folder, f"training.duration={steps} steps", half), *words
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory, tiny_backbone, text_folder):
    return trained(tmp_path_factory.mktemp("mlm"), tiny_backbone, text_folder, 6)


@pytest.mark.slow
def test_the_loss_falls_and_dev_with_it(tmp_path, tiny_backbone, text_folder):
    run = trained(tmp_path, tiny_backbone, text_folder, 40)
    found = logged(run)
    assert found[0] == pytest.approx(np.log(7305), abs=0.3)  # knows nothing yet
    assert np.mean(found[-5:]) < 0.75 * found[0]
    scores = Result.read(run).scores
    loss, accuracy = (scores[f"dev/text_tatoeba/mlm_{name}"] for name in ("loss", "accuracy"))
    assert loss.value < 0.75 * found[0]
    assert 100 / 7305 < accuracy.value < 1
    assert loss.count == accuracy.count > 100


@pytest.mark.slow
def test_the_result_has_what_selected_and_pairs_are_scored_too(run):
    result = Result.read(run)
    assert result.training["selected_on"] == ["text_tatoeba"]
    # The tested weights are the selected ones, and the tokens hidden from them are the same.
    assert result.training["best_dev_mlm_accuracy"] == pytest.approx(
        result.scores["dev/text_tatoeba/mlm_accuracy"].value, abs=1e-6
    )
    assert result.data["train/text_tatoeba"]["rows"] == 80
    assert -1 < result.scores["dev/demo_sts/spearman"].value < 1
    assert "test/text_tatoeba/spearman" not in result.scores


@pytest.mark.slow
def test_the_encoder_it_leaves_starts_another_job(run, tmp_path, tiny_backbone):
    encoder = load_encoder(run)
    assert "cls." not in "".join(dict(encoder.backbone.named_parameters()))
    scored = Result.read(run).scores["dev/demo_sts/spearman"].value
    later = run_job(tmp_path, tiny_backbone, f"init_from={run}", "dataset=[]", "debug_rows=80", *SCORED)
    # What mlm says of pairs is what the bi-encoder says of the encoder that was left.
    assert Result.read(later).scores["dev/demo_sts/spearman"].value == pytest.approx(scored, abs=1e-5)


@pytest.mark.parametrize(
    "more",
    [
        pytest.param((), marks=pytest.mark.slow),
        pytest.param(("hardware.num_workers=1", "hardware.precision=bf16-mixed"), marks=pytest.mark.slow),
    ],
)
def test_a_killed_run_ends_with_the_same_weights(tmp_path, tiny_backbone, text_folder, more):
    job = overrides(
        text_folder,
        "training.duration=12 steps",
        "training.validate_every=5 steps",
        "training.checkpoint_every=2 steps",
        "training.accumulate=2",
        *more,
    )
    whole = run_job(tmp_path / "whole", tiny_backbone, *job)
    assert interrupt(tmp_path / "cut", tiny_backbone, 7, "SIGKILL", *job, "resume=auto") == -9
    finished = run_job(tmp_path / "cut", tiny_backbone, *job, "resume=auto")
    assert weights(whole) == weights(finished)


def module_of(backbone, *more):
    torch.manual_seed(0)
    return any_module(backbone, "dataset=[demo_sts]", "model=mlm", *more)


def examples(texts):
    return Examples.from_texts("some", "dev", kind=Kind.SENTENCE, texts={"text": texts})


def test_the_loss_is_the_mean_over_hidden_tokens(tiny_backbone):
    module = module_of(tiny_backbone, "backbone.dropout=0", "model.mask_rate=0.5")
    rows = examples([f"这是第{number}个很短的句子" for number in range(9)])
    batch = module.collate(rows, np.arange(9))
    loss, logs = module.objective(batch)
    seen, hidden = module._masked(batch.tokens, batch.sentence_ids, step=module._batch_index)
    logits = module.head(module.encoder.token_states(seen))
    every = torch.nn.functional.cross_entropy(logits, batch.tokens.input_ids, reduction="none")
    assert 20 < len(hidden) < 80
    assert loss.item() == pytest.approx(every[hidden].mean().item(), abs=1e-5)
    right = (logits.argmax(-1) == batch.tokens.input_ids)[hidden].float().mean()
    assert logs["mlm_accuracy"] == pytest.approx(right)


def test_nothing_hidden_is_a_loss_of_zero(tiny_backbone):
    module = module_of(tiny_backbone, "model.mask_rate=0.000001")
    loss, _ = module.objective(module.collate(examples(["好", "你好"]), np.arange(2)))
    loss.backward()
    assert loss.item() == 0


def test_evaluation_hides_the_same_tokens_wherever_a_text_stands(tiny_backbone):
    module = module_of(tiny_backbone).eval()
    texts = [f"这是第{number}个很短的句子" for number in range(30)]
    pairs = Examples.from_texts(
        "pairs",
        "dev",
        kind=Kind.LABELLED_PAIR,
        texts={"text_a": texts[:4], "text_b": texts[3:7]},
        targets=np.array([0, 1, 0, 1]),
    )

    def scores(*sets, batches):
        plan = MaskedPlan(sets, trained=["some"])
        outputs = np.empty((len(plan.examples), 3 + module.encoder.dim), np.float32)
        with torch.no_grad():
            for rows in np.array_split(np.random.default_rng(0).permutation(len(plan.examples)), batches):
                outputs[rows] = module.output(module.collate(plan.examples, rows)).numpy()
        return plan, outputs

    plan, outputs = scores(examples(texts), batches=1)
    alone = plan.text_scores(outputs)
    plan, outputs = scores(pairs, examples(texts), batches=5)
    beside = plan.text_scores(outputs)
    assert alone.keys() == beside.keys() == {"dev/some/mlm_loss", "dev/some/mlm_accuracy"}
    for key, score in alone.items():
        assert score.count == beside[key].count > 50
        assert score.value == pytest.approx(beside[key].value, abs=1e-5)
    # Sentences of pairs are read as they are, though the same texts are guessed in beside them.
    (found,) = plan.scores(outputs)
    embeddings = module.encoder.encode(texts[:7], batch_tokens=512, show_progress=False)
    unit = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
    assert found == pytest.approx((unit[:4] * unit[3:7]).sum(1), abs=1e-5)


@pytest.mark.slow
def test_pairs_can_be_learnt_from_as_sentences(tmp_path, tiny_backbone):
    done = run_job(tmp_path, tiny_backbone, "model=mlm", "training.duration=2 steps")
    result = Result.read(done)
    assert result.data["train/demo_sts"]["kind"] == "sentence"
    assert result.scores["dev/demo_sts/mlm_loss"].value < 12
    assert "dev/demo_sts/spearman" in result.scores


@pytest.mark.slow
def test_any_masked_language_model_goes_on_with_its_own_head(tmp_path, tiny_backbone):
    """A RoBERTa, whose vocabulary and head are others: its head is found in its folder and goes on learning."""
    from transformers import AutoTokenizer, RobertaConfig, RobertaForMaskedLM

    folder = tmp_path / "roberta"
    tokenizer = AutoTokenizer.from_pretrained(tiny_backbone)
    size = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    config = RobertaConfig(vocab_size=len(tokenizer), pad_token_id=0, type_vocab_size=1, **size)
    torch.manual_seed(3)
    model = RobertaForMaskedLM(config)
    torch.nn.init.normal_(model.lm_head.bias)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    module = module_of(folder, "backbone=local", "backbone.max_length=64")
    whole = AutoModelForMaskedLM.from_pretrained(folder)
    assert torch.equal(module.head.model.lm_head.bias, whole.lm_head.bias)
    run = run_job(tmp_path / "runs", folder, "backbone=local", "model=mlm", "training.duration=2 steps")
    assert json.loads((run / "encoder" / "config.json").read_text())["model_type"] == "roberta"


@pytest.mark.parametrize("more", [(), pytest.param(("benchmark=zh_published",), marks=pytest.mark.slow)])
@pytest.mark.slow
def test_the_recipe_of_pretraining_is_accepted(more):
    from launch.check import check_command_line
    from train import CONFIGURATION

    check_command_line(["experiment=pretrain/mlm", *more], conf_dir=CONFIGURATION)
