"""Our measures as metrics of torchmetrics: rows come batch by batch, in one process or several.

The sums of a correlation, a threshold or an area cannot be added up over batches, so the states are all scores and gold
values; they are measured in float64 by the functions of `juzhen.metrics`.
"""

from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torchmetrics import Metric

from juzhen.core.examples import TEXT_COLUMNS, Examples, Kind
from juzhen.evaluation.scoring import assemble_outputs, score_set


class RowOutputs(Metric):
    """What a model puts out for numbered rows, by all processes together, in the order of the rows.

    A row that several processes have had, as samplers fill up the last batch, counts once.
    """

    full_state_update = False
    higher_is_better = None
    rows: list[Tensor]
    values: list[Tensor]
    shape: Tensor

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.add_state("rows", [], dist_reduce_fx="cat")
        self.add_state("values", [], dist_reduce_fx="cat")
        self.add_state(
            "shape", torch.full((3,), -1), dist_reduce_fx="max"
        )  # of a row; −1 where it has no such axis

    def update(self, rows: Int[Tensor, "batch"], values: Float[Tensor, "batch *numbers"]) -> None:
        """rows  their numbers · values  a number, a vector or a matrix of each"""
        is_shared = self.distributed_available_fn is not None and self.distributed_available_fn()
        where = rows.device if is_shared else torch.device("cpu")
        self.shape = torch.tensor([*values.shape[1:], -1, -1, -1][:3], device=self.shape.device)
        self.rows.append(rows.to(where))
        self.values.append(values.detach().float().flatten().to(where))

    def compute(self) -> Float[Tensor, "rows *numbers"]:
        rows, values = (
            torch.cat(state) if isinstance(state, list) else state for state in (self.rows, self.values)
        )
        count = 1 + int(rows.max())
        sizes = [size for size in self.shape.tolist() if size >= 0]
        parts = [(rows.cpu().numpy(), values.cpu().numpy().reshape(len(rows), *sizes))]
        return torch.from_numpy(assemble_outputs(parts, count))

    def as_array(self) -> Float[np.ndarray, "rows *numbers"]:
        """`compute`, also in a process that no batch came to."""
        if not self.rows:  # all processes gather states of one type
            self.update(
                torch.empty(0, dtype=torch.int64, device=self.device), torch.empty(0, device=self.device)
            )
        return self.compute().numpy()


class PairMeasures(Metric):
    """Everything that is measured of a set of pairs on its dev split, from one score per row.

    kind     scored_pair, labelled_pair or nli_pair: says which measures there are, see `juzhen.core.kinds`
    measure  one of them, such as `auc`: `compute` gives that number; None: a mapping of all

    Float64; NaN where a measure is undefined. `compute` of a labelled pair fits thresholds on one half of the rows and
    judges the other, as validation does.

    >>> metric = PairMeasures("scored_pair", measure="spearman")
    >>> metric.update(torch.tensor([0.1, 0.9]), torch.tensor([0.0, 1.0]))
    >>> metric.update(torch.tensor([0.5]), torch.tensor([0.4]))
    >>> metric.compute().item()
    1.0
    """

    full_state_update = False
    higher_is_better = True
    scores: list[Tensor]
    targets: list[Tensor]

    def __init__(self, kind: str, *, measure: str | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.kind, self.measure = Kind(kind), measure
        self.add_state("scores", [], dist_reduce_fx="cat")
        self.add_state("targets", [], dist_reduce_fx="cat")

    def update(self, scores: Float[Tensor, "batch"], targets: Float[Tensor, "batch"]) -> None:
        """scores  of the model, higher = closer · targets  grade from 0 to 1, label 0 or 1, or class number"""
        self.scores.append(scores.detach())
        self.targets.append(targets.detach())

    def compute(self) -> Tensor | dict[str, Tensor]:
        scores, targets = (
            (torch.cat(state) if isinstance(state, list) else state).float().cpu().numpy()
            for state in (self.scores, self.targets)
        )
        columns = dict.fromkeys(TEXT_COLUMNS[self.kind], np.zeros(len(scores), dtype=np.int32))
        rows = Examples("rows", "dev", self.kind, ["-"], columns, targets)
        values = {
            name: torch.tensor(float("nan") if score.value is None else score.value, dtype=torch.float64)
            for name, score in score_set(scores, rows, dev=None, bootstrap_samples=0, seed=0).items()
        }
        if self.measure is None:
            return values
        return values[self.measure]
