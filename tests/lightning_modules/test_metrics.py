"""Measures as metrics of torchmetrics: batch by batch, in one process and in two, they are what one call gives."""

import os

import numpy as np
import pytest
import torch
import torch.multiprocessing
from sklearn.metrics import roc_auc_score
from torchmetrics import Metric, MetricCollection

from juzhen.metrics.correlation import pearson, spearman
from juzhen.metrics.threshold import area_under_curve, average_precision, decision_quality
from lightning_modules.base import PairMeasures, RowOutputs

DRAW = np.random.default_rng(0)
SCORES = DRAW.normal(size=301).astype(np.float32)
LABELS = (SCORES + DRAW.normal(size=301) > 0).astype(np.float32)
GRADES = np.round(DRAW.random(301), 1).astype(np.float32)


def batches(*columns, size=64):
    for start in range(0, len(columns[0]), size):
        yield [torch.from_numpy(column[start : start + size]) for column in columns]


def test_labelled_pairs_are_measured_as_in_validation():
    metric = PairMeasures("labelled_pair")
    assert isinstance(metric, Metric)
    for batch in batches(SCORES, LABELS):
        metric.update(*batch)
    found = {name: value.item() for name, value in metric.compute().items()}
    assert found["spearman"] == spearman(SCORES, LABELS)
    assert found["auc"] == area_under_curve(SCORES, LABELS)
    assert found["average_precision"] == average_precision(SCORES, LABELS)
    assert found["accuracy"] == decision_quality(SCORES, LABELS, objective="accuracy", threshold=None)
    assert found["auc"] == pytest.approx(roc_auc_score(LABELS, SCORES), abs=1e-12)


def test_they_are_a_collection_in_anybodys_module():
    both = MetricCollection(
        {name: PairMeasures("scored_pair", measure=name) for name in ("spearman", "pearson")}
    )
    for batch in batches(SCORES, GRADES):
        both.update(*batch)
    found = both.compute()
    assert found["spearman"].dtype == torch.float64
    assert (found["spearman"].item(), found["pearson"].item()) == (
        spearman(SCORES, GRADES),
        pearson(SCORES, GRADES),
    )
    both.reset()
    both.update(torch.ones(5), torch.rand(5))
    assert both.compute()["spearman"].isnan(), "constant scores have no correlation"


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_outputs_come_back_in_the_order_of_the_rows(shape):
    values = DRAW.normal(size=(5, *shape)).astype(np.float32)
    outputs = RowOutputs()
    for rows in ([4, 1], [0], [2, 3], [0]):
        outputs.update(torch.tensor(rows), torch.from_numpy(values[rows]))
    np.testing.assert_array_equal(outputs.as_array(), values)
    assert not outputs.state_dict(), "checkpoints hold none of it"


def _measure(rank, port, folder):
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.distributed.init_process_group("gloo", rank=rank, world_size=2)
    metric, outputs, uneven = PairMeasures("labelled_pair", measure="auc"), RowOutputs(), RowOutputs()
    for number, (rows, scores, labels) in enumerate(batches(np.arange(301), SCORES, LABELS)):
        if number % 2 == rank:
            metric.update(scores, labels)
            outputs.update(rows, torch.stack([scores, labels], dim=1))
        if rank == 0:
            uneven.update(rows, scores)
    torch.save([metric.compute().item(), outputs.as_array(), uneven.as_array()], folder / f"{rank}.pt")
    torch.distributed.destroy_process_group()


@pytest.mark.slow
def test_two_processes_give_what_one_gives(tmp_path):
    torch.multiprocessing.spawn(_measure, (29_571, tmp_path), nprocs=2)
    for rank in (0, 1):
        auc, outputs, uneven = torch.load(tmp_path / f"{rank}.pt", weights_only=False)
        assert auc == area_under_curve(SCORES, LABELS)
        np.testing.assert_array_equal(outputs, np.stack([SCORES, LABELS], axis=1))
        np.testing.assert_array_equal(uneven, SCORES)
