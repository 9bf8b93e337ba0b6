"""Settings of an evaluation: sets, measures and hardware, and the check that the hardware is available."""

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from juzhen.backends.names import BackendName
from juzhen.core.errors import UserError
from juzhen.core.kinds import metric_key, ranking_measure
from juzhen.core.schema import configuration, validated
from juzhen.data.spec import DatasetConfig

SPLITS = ("dev", "test")


def _ranking(name: str) -> str:
    try:
        ranking_measure(name)
    except UserError as error:
        raise ValueError(str(error)) from error
    return metric_key(name)


@configuration
class HardwareConfig:
    """Settings of speed. Only the precision and compiling change the numbers."""

    accelerator: Literal["cpu", "cuda", "mps"] = Field(description="what computes")
    devices: int = Field(ge=1, description="GPUs, or processes on a CPU, of each node")
    num_nodes: int = Field(ge=1, description="machines")
    strategy: Literal["auto", "ddp", "fsdp"] = Field(
        description="ddp: a process for each device · fsdp: each holds a part of the weights"
    )
    precision: Literal["32-true", "bf16-mixed", "16-mixed"] = Field(
        description="in which the model computes · weights are fp32"
    )
    # A process has room for some thousands.
    threads: int | None = Field(
        default=None, ge=1, lt=1025, description="CPU threads per process · null: all cores"
    )
    compile: bool = Field(
        description="torch.compile the layers · pays on few machines, see docs/log/training_speed.md"
    )
    num_workers: int = Field(ge=0, description="processes that prepare batches · 0: none")
    eval_batch_tokens: int = Field(ge=1, description="tokens per batch when nothing is learnt")
    micro_batch_tokens: Annotated[int, Field(ge=1)] | Literal["auto"] | None = Field(
        default=None,
        description="tokens with activations at a time · auto: as many as fit, by an estimate · null: a batch's",
    )
    # Old results lack it.
    gradient_checkpointing: bool = Field(
        default=False, description="layers are computed again on the way back: less memory, more time"
    )

    @property
    def processes(self) -> int:
        """That train together, on all machines."""
        return self.devices * self.num_nodes


def _distinct(names: list[str]) -> list[str]:
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"{twice} is named twice. Name it once")
    return names


@configuration
class EvaluationConfig:
    """Settings of the evaluation of a run."""

    splits: Annotated[list[Literal["dev", "test"]], AfterValidator(_distinct)] = Field(
        description="splits to evaluate"
    )
    bootstrap_samples: int = Field(ge=0, description="resamples for the 95 % interval · 0: none")
    untrained: bool = Field(description="also score the weights before training")
    without_leaks: bool = Field(description="also score the rows whose pair this job's training has not seen")
    backend: BackendName = Field(description="of the final test · validation uses torch")
    cache_embeddings: bool = Field(description="keep embeddings below cache_dir: nothing is encoded twice")
    # Old results lack these.
    verdict: Literal["auto", "always", "never"] = Field(
        default="auto",
        description="WIN, TIE or LOSS against the weights before training · auto: if it takes at most 5 % of it",
    )
    limit: int | None = Field(
        default=None,
        ge=1,
        description="rows of each split, or queries of a retrieval set, at most: the same in every run · null: all",
    )
    transfer: Annotated[list[str], AfterValidator(_distinct)] = Field(
        default_factory=list, description="sets that are classified on frozen embeddings"
    )
    transfer_limit: int | None = Field(
        default=None, description="training rows of such a classifier, at most · null: all"
    )
    rankings: list[Annotated[str, AfterValidator(_ranking)]] = Field(
        default_factory=list,
        description="measures of retrieval and reranking besides those that they always have, such as P@5",
    )
    clusterings: int = Field(
        default=3,
        ge=0,
        lt=1001,
        description="starts of k-means whose mean V-measure texts with classes have · 0: none",
    )


@dataclasses.dataclass
class EvaluationSettings:
    """The part of a job's configuration that an evaluation reads, under the same keys.

    Args:
        seed: Seed of all draws.
        data_dir: Folder of the sets.
        source: builtin, local or hub.
        on_bad_row: "error" stops at a faulty row, "drop" leaves it out.
        filter_leaks: Training rows of the evaluation sets are left out.
        debug_rows: Rows of each split, at most.
        long_texts: "cut" or "chunk", as in `SentenceEncoder.with_long_texts`.
        chunk_overlap: As there.
        dataset: Sets whose training rows are read.
        evaluate: Sets whose dev and test rows are read and scored.
        evaluation: Settings of the evaluation.
        hardware: Where and how it is computed.
    """

    seed: int = 0
    data_dir: str = "data"
    source: str = "local"
    on_bad_row: str = "error"
    filter_leaks: bool = False
    debug_rows: int | None = None
    long_texts: Literal["cut", "chunk"] = "cut"
    chunk_overlap: int | None = None
    dataset: dict[str, DatasetConfig] = dataclasses.field(default_factory=dict)
    evaluate: dict[str, DatasetConfig] = dataclasses.field(default_factory=dict)
    evaluation: EvaluationConfig = dataclasses.field(
        default_factory=lambda: EvaluationConfig(
            splits=["dev", "test"],
            bootstrap_samples=1000,
            untrained=False,
            without_leaks=False,
            backend=BackendName.TORCH,
            cache_embeddings=False,
            transfer_limit=10_000,
        )
    )
    hardware: HardwareConfig = dataclasses.field(
        default_factory=lambda: HardwareConfig(
            accelerator="cpu",
            devices=1,
            num_nodes=1,
            strategy="auto",
            precision="32-true",
            compile=False,
            num_workers=0,
            eval_batch_tokens=16_384,
        )
    )

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> "EvaluationSettings":
        """Read the settings of a stored configuration. Keys added later get their neutral value.

        Args:
            config: The configuration.

        Returns:
            The settings.

        Raises:
            UserError: A key or a type that the schema no longer has.
        """
        values = {
            option.name: config[option.name] for option in dataclasses.fields(cls) if option.name in config
        }
        return validated(cls, values, where="the configuration that the result has stored")


def device_name(hardware: HardwareConfig) -> str:
    """Name of the device: `cpu`, `mps`, or the name of the CUDA device.

    Args:
        hardware: Settings of the hardware.

    Returns:
        The name.
    """
    import torch  # a command line reads this file without it

    return torch.cuda.get_device_name() if hardware.accelerator == "cuda" else hardware.accelerator


def require_device(hardware: HardwareConfig) -> None:
    """Raise UserError if the accelerator is missing or does not support the precision.

    Args:
        hardware: Settings of the hardware.

    Raises:
        UserError: The accelerator is missing, or would only imitate bfloat16.
    """
    import torch

    from juzhen.core.machine import present_devices

    available = present_devices()
    if not available[hardware.accelerator]:
        present = ", ".join(name for name, is_there in available.items() if is_there)
        raise UserError(
            f"accelerator={hardware.accelerator}: not on this machine, or not in this build of torch. "
            f"Available: {present}. Choose accelerator=cpu, or install a torch that fits the device"
        )
    bf16_on_cuda = hardware.accelerator == "cuda" and hardware.precision == "bf16-mixed"
    if bf16_on_cuda and not torch.cuda.is_bf16_supported(including_emulation=False):
        raise UserError(
            f"precision=bf16-mixed: {torch.cuda.get_device_name()} would only imitate bfloat16. Choose "
            "precision=16-mixed"
        )
