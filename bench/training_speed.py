"""Seconds per training step, ours and sentence-transformers' on the same work: python -m bench.training_speed

Same weights, pairs, batch size, maximal length, AdamW, clipping and dropout rate. Rounds alternate between the two,
so that a busy machine hits both; what is reported is the median over rounds of the ratio.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytorch_lightning as pl
import torch
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from transformers import AutoTokenizer, BertConfig, BertModel, TrainerCallback

import train
from bench.machine import describe_machine, peak_gflops
from callbacks.trainer import quieten_lightning
from datamodules.datamodule import SentenceDataModule
from datamodules.loading import JobData, load_job_data
from datamodules.stages import plan_stages
from encoders import load_backbone
from launch import typed_config
from launch.naming import register_resolvers
from lightning_modules.biencoder import BiEncoder
from lightning_modules.matching import build_losses, match_losses
from schema.config import JobConfig

SIZES = {"S": (4, 256, 4), "M": (6, 384, 6), "B": (12, 768, 12)}
"""Name → layers, width, heads."""

PRECISIONS = {"fp32": "32-true", "bf16": "bf16-mixed"}
WARM_UP_STEPS = 4
LEARNING_RATE = 1e-4


@dataclass(frozen=True)
class Work:
    """What both have to do."""

    folder: Path
    job: JobConfig
    data: JobData
    precision: str
    steps: int


class StepTimes(pl.Callback):
    """Seconds from the end of one of our steps to the end of the next, and the losses."""

    def __init__(self) -> None:
        self.ends: list[float] = []
        self.losses: list[float] = []

    def on_train_batch_end(self, trainer, module, outputs, *_) -> None:
        self.ends.append(time.perf_counter())
        self.losses.append(float(outputs["loss"]))


def run_ours(work: Work) -> tuple[list[float], list[float]]:
    """Seconds per step after the warm-up, and the losses, of a Lightning run of the bi-encoder."""
    pl.seed_everything(0, verbose=False)
    stage = plan_stages(list(work.job.dataset), "mix")[0]
    data = SentenceDataModule(work.data, stage, job=work.job)
    encoder = load_backbone(work.job.backbone, seed=0)
    module = BiEncoder(
        encoder=encoder,
        losses=build_losses(
            match_losses(work.job), dim=encoder.dim, num_classes=dict.fromkeys(work.job.dataset, 2)
        ),
        job=work.job,
        total_steps=data.total_steps,
        steps_per_epoch=data.steps_per_epoch,
    )
    data.serve(module.collate, module.plan)
    times = StepTimes()
    quieten_lightning()
    trainer = pl.Trainer(
        accelerator="cpu",
        precision=PRECISIONS[work.precision],
        max_epochs=1,
        limit_val_batches=0,
        callbacks=[times],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
    )
    trainer.fit(module, datamodule=data)
    return differences(times.ends), times.losses


def run_theirs(work: Work) -> tuple[list[float], list[float]]:
    """The same of SentenceTransformerTrainer with CoSENTLoss."""
    import datasets
    from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer
    from sentence_transformers.losses import CoSENTLoss
    from sentence_transformers.training_args import SentenceTransformerTrainingArguments

    ends: list[float] = []
    losses: list[float] = []

    class Times(TrainerCallback):
        def on_step_end(self, *_, **__) -> None:
            ends.append(time.perf_counter())

        def on_log(self, args, state, control, logs=None, **_) -> None:
            if "loss" in (logs or {}):
                losses.append(float(logs["loss"]))

    model = SentenceTransformer(str(work.folder), device="cpu")
    model.max_seq_length = work.job.backbone.max_length
    rows = {"sentence1": [], "sentence2": [], "score": []}
    for examples in work.data.train.values():
        rows["sentence1"] += examples.texts("text_a")
        rows["sentence2"] += examples.texts("text_b")
        rows["score"] += examples.targets.tolist()
    with tempfile.TemporaryDirectory() as output:
        arguments = SentenceTransformerTrainingArguments(
            output_dir=output,
            max_steps=work.steps,
            per_device_train_batch_size=work.job.training.batch_size,
            learning_rate=LEARNING_RATE,
            max_grad_norm=1.0,
            bf16=work.precision == "bf16",
            use_cpu=True,
            report_to=[],
            save_strategy="no",
            logging_steps=1,
            disable_tqdm=True,
        )
        trainer = SentenceTransformerTrainer(
            model=model,
            args=arguments,
            train_dataset=datasets.Dataset.from_dict(rows),
            loss=CoSENTLoss(model),
            callbacks=[Times()],
        )
        trainer.remove_callback(
            next(one for one in trainer.callback_handler.callbacks if "Printer" in type(one).__name__)
        )
        trainer.train()
    return differences(ends), losses


def differences(ends: list[float]) -> list[float]:
    """Seconds between consecutive ends, without the warm-up."""
    return [later - earlier for earlier, later in pairwise(ends)][WARM_UP_STEPS:]


def prepare(size: str, precision: str, *, steps: int, datasets: str, folder: Path) -> Work:
    """A random BERT of the given size in `folder`, and the job and rows that both train on."""
    layers, width, heads = SIZES[size]
    root = train.CONFIGURATION.parent
    tokenizer = AutoTokenizer.from_pretrained(root / "builtin" / "encoder")
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=4 * width,
        pad_token_id=tokenizer.pad_token_id,
    )
    BertModel(config, add_pooling_layer=False).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    register_resolvers()
    overrides = [
        f"dataset=[{datasets}]", "suite=none", "backbone=local", f"backbone.path={folder}", "backbone.max_length=64",
        f"training.duration={steps} steps", f"optimiser.lr={LEARNING_RATE}", "optimiser.warmup=0 steps",
        f"hardware.precision={PRECISIONS[precision]}",
    ]  # fmt: skip
    with initialize_config_dir(str(train.CONFIGURATION), version_base="1.3"):
        job = OmegaConf.to_object(typed_config(compose("train", overrides=overrides)))
    kinds = {name: match.kind for name, match in match_losses(job).items()}
    return Work(folder, job, load_job_data(job, kinds), precision, steps)


def measure(work: Work, rounds: int) -> dict[str, object]:
    """Median seconds per step of both, and the median over rounds of theirs / ours."""
    runs: dict[str, Callable[[Work], tuple[list[float], list[float]]]] = {
        "ours": run_ours,
        "theirs": run_theirs,
    }
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    losses: dict[str, list[float]] = {}
    for _ in range(rounds):
        for name, run in runs.items():
            steps, losses[name] = run(work)
            seconds[name].append(statistics.median(steps))
    ratios = [theirs / ours for ours, theirs in zip(seconds["ours"], seconds["theirs"], strict=True)]
    return {
        "seconds_per_step": seconds,
        "ratio": statistics.median(ratios),
        "ratios": ratios,
        "losses": losses,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=["S", "M"])
    parser.add_argument("--precisions", nargs="+", choices=PRECISIONS, default=list(PRECISIONS))
    parser.add_argument(
        "--steps", type=int, default=24, help=f"per round; the first {WARM_UP_STEPS} do not count"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--datasets", default="demo_sts,demo_qmc", help="scored or labelled pairs")
    parser.add_argument("--output", type=Path, default=Path("bench/out/training_speed.json"))
    given = parser.parse_args()
    found: dict[str, object] = {"machine": describe_machine(), "peak_gflops": peak_gflops()}
    for size in given.sizes:
        for precision in given.precisions:
            with tempfile.TemporaryDirectory() as folder:
                work = prepare(
                    size, precision, steps=given.steps, datasets=given.datasets, folder=Path(folder)
                )
                found[f"{size}/{precision}"] = one = measure(work, given.rounds)
            ours, theirs = (statistics.median(one["seconds_per_step"][name]) for name in ("ours", "theirs"))
            print(
                f"{size} {precision}: ours {ours:.3f} s, theirs {theirs:.3f} s per step, ratio {one['ratio']:.2f}"
            )
            given.output.parent.mkdir(parents=True, exist_ok=True)
            given.output.write_text(json.dumps(found, indent=1))
    print(f"written: {given.output}")


if __name__ == "__main__":
    main()
