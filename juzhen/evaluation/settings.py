"""What decides an evaluation: which sets, which rows of them, which numbers, which device."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from juzhen.backends.names import BackendName
from juzhen.core.schema import validated
from juzhen.data.spec import DatasetConfig
from juzhen.evaluation.spec import EvaluationConfig, HardwareConfig


@dataclass
class EvaluationSettings:
    """The part of a job's configuration that an evaluation reads, under the same keys.

    dataset   sets whose training rows are read
    evaluate  sets whose dev and test rows are read and scored
    long_texts, chunk_overlap  as of `SentenceEncoder.with_long_texts`
    """

    seed: int = 0
    data_dir: str = "data"
    source: str = "local"
    on_bad_row: str = "error"
    filter_leaks: bool = False
    debug_rows: int | None = None
    long_texts: Literal["cut", "chunk"] = "cut"
    chunk_overlap: int | None = None
    dataset: dict[str, DatasetConfig] = field(default_factory=dict)
    evaluate: dict[str, DatasetConfig] = field(default_factory=dict)
    evaluation: EvaluationConfig = field(
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
    hardware: HardwareConfig = field(
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
        """Those of a stored configuration; what came to the schema after it has the value that it stands for.

        Raises UserError for a key or a type that the schema does not have any more.
        """
        values = {option.name: config[option.name] for option in fields(cls) if option.name in config}
        return validated(cls, values, where="the configuration that the result has stored")
