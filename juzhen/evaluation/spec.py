"""What an evaluation is asked for, and what computes it: the groups `evaluation` and `hardware` of a configuration."""

from dataclasses import dataclass

from juzhen.backends.names import BackendName
from juzhen.core.option import Described, option

SPLITS = ("dev", "test")


@dataclass
class HardwareConfig(Described):
    """Speed, and not the maths; only the precision and compiling make other numbers."""

    accelerator: str = option("what computes", among=("cpu", "cuda", "mps"))
    devices: int = option("GPUs, or processes on a CPU, of each node", at_least=1)
    num_nodes: int = option("machines", at_least=1)
    strategy: str = option("ddp: a process for each device", among=("auto", "ddp"))
    precision: str = option(
        "in which the model computes; weights are fp32", among=("32-true", "bf16-mixed", "16-mixed")
    )
    # A process has room for some thousands.
    threads: int | None = option("CPU threads per process; null: all cores", None, at_least=1, below=1025)
    compile: bool = option("torch.compile the layers; pays on few machines, see LOG.md")
    num_workers: int = option("processes that prepare batches; 0: none", at_least=0)
    eval_batch_tokens: int = option("tokens per batch when nothing is learnt", at_least=1)
    micro_batch_tokens: int | None = option(
        "tokens with activations at a time; null: a batch's", None, at_least=1
    )


@dataclass
class EvaluationConfig(Described):
    splits: list[str] = option(among=SPLITS)
    bootstrap_samples: int = option("resamples for the 95 % interval; 0: none", at_least=0)
    untrained: bool = option("also score the weights before training")
    without_leaks: bool = option("also score the rows whose pair this job's training has not seen")
    backend: str = option("of the final test; validation uses torch", among=tuple(BackendName))
    cache_embeddings: bool = option("keep embeddings below cache_dir: nothing is encoded twice")
    # Old results lack these.
    limit: int | None = option(
        "rows of each split, or queries of a retrieval set, at most: the same in every run; null: all",
        None,
        at_least=1,
    )
    transfer: list[str] = option("sets that are classified on frozen embeddings", [])
    transfer_limit: int | None = option("training rows of such a classifier, at most; null: all", None)
    rankings: list[str] = option(
        "measures of retrieval and reranking besides those that they always have", []
    )
    clusterings: int = option(
        "starts of k-means whose mean V-measure texts with classes have; 0: none", 3, at_least=0, below=1001
    )
