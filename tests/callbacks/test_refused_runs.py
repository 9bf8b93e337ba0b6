"""What keeps a run from its checkpoint, its server or a healthy space is told in one line with the way out."""

import time

import pytest
import torch
from jobs import run_job
from refusals import each, rows
from test_checkpoint_io import DAMAGES, failing
from test_health import judged
from test_mining import JOB

from callbacks import resume
from callbacks.reporting import wandb_mode
from callbacks.resume import AtomicCheckpointIO, read_checkpoint, saved_state
from juzhen.core.errors import UserError
from lightning_modules.base import SentenceModule

pytestmark = pytest.mark.usefixtures("keyless")
DAMAGED = r"resume\.ckpt: .*damaged.*rm -r .*checkpoints.*same command again"


def unsaved(f):
    f.monkeypatch.setattr(resume.torch, "save", failing)
    AtomicCheckpointIO().save_checkpoint({"step": 2}, f.tmp_path / "a.ckpt")


def damaged(f, damage, read):
    path = f.tmp_path / "checkpoints" / "resume.ckpt"
    AtomicCheckpointIO().save_checkpoint({"global_step": 1, "state": torch.ones(100)}, path)
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    read(path)


READERS = (
    lambda path: saved_state(path.parent),
    lambda path: AtomicCheckpointIO().load_checkpoint(path),
    read_checkpoint,
)
CHECKPOINTS = [
    (unsaved, r"a.ckpt: .*unexpected pos.* resume=auto"),
    *(
        (lambda f, damage=damage, read=read: damaged(f, damage, read), DAMAGED)
        for damage in DAMAGES
        for read in (READERS[:1] if damage == "no state of ours" else READERS)
    ),
]


def online(f, key):
    """Asks a server that is away, for no longer than some seconds."""
    f.monkeypatch.setenv("WANDB_BASE_URL", f.closed_port)
    if key:
        f.monkeypatch.setenv("WANDB_API_KEY", key)
    start = time.perf_counter()
    try:
        wandb_mode("online")
    finally:
        assert time.perf_counter() - start < 8


SERVERS = [
    (
        lambda f: online(f, ""),
        "logger.wandb=online: no key .*WANDB_API_KEY.* logger.wandb=offline",
    ),
    (lambda f: online(f, "0" * 40), "logger.wandb=online: no answer from the server within 3 s"),
]
SPACES = [
    (
        lambda f, cosine=cosine, rank=rank: judged(
            {"mean_cosine": cosine, "effective_rank": rank}, on_collapse="stop"
        ),
        told,
    )
    for cosine, rank, told in (
        (0.999, 11.0, r"collapse_cosine.*space_health\.on_collapse=warn"),
        (0.1, 1.2, "directions"),
        (0.1, None, "directions"),
    )
]


def mined_for(f, words):
    """Refused before a step."""
    f.monkeypatch.setattr(SentenceModule, "training_step", lambda *given: pytest.fail("a step was made"))
    run_job(f.tmp_path, f.tiny_backbone, *JOB, *words)


MININGS = each(
    mined_for,
    [
        (("loss=cosent",), r"callbacks\.mining: loss=cosent of demo_qmc reads no negatives.*loss=info_nce"),
        (("loss=info_nce_in_batch",), "loss=info_nce_in_batch of demo_qmc reads no negatives"),
        (("model=crossencoder", "loss=bce"), "crossencoder does not learn embeddings from anchors"),
        (
            ("model=simcse",),
            r"callbacks\.mining: cot does not learn embeddings from anchors and positives.*model=biencoder",
        ),
        (("dataset=[demo_sts]",), "loss=info_nce needs"),
        (("callbacks.mining.sets=[]",), r"sets=\[\]: expected names of sets, or null for all"),
        (("schedule=serial", "callbacks.mining.stages=[]"), "expected names of stages, or null for all"),
        (("callbacks.mining.sets=[demo_qmz]",), r"sets=demo_qmz: unknown choice\. Did you mean demo_qmc"),
        (("callbacks.mining.stages=[demo_qmc]",), r"callbacks\.mining\.stages=demo_qmc: "),
        (
            ("schedule=serial", "callbacks.mining.stages=[hrad]"),
            r"stages=hrad: unknown choice\. Known: demo_qmc",
        ),
        (
            (
                "schedule=serial",
                "dataset=[demo_qmc,demo_sts]",
                "+loss@schedule.sets.demo_sts.loss=cosent",
                "callbacks.mining.sets=[demo_sts]",
                "callbacks.mining.stages=[demo_qmc]",
            ),
            "no stage that is mined for learns from demo_sts",
        ),
        (("callbacks.mining.phases=[0.5,0.4,1]",), "expected shares of training that rise to 1"),
        (("callbacks.mining.every_steps=[2]",), r"every_steps=\[2\]: expected 3 numbers"),
        (("callbacks.mining.hard_share=[0,1]",), r"hard_share=\[0, 1\]: expected 4 numbers"),
        (("callbacks.mining.relative_margin=1",), "relative_margin=1: expected a number from 0"),
        (
            ("callbacks.mining.positive_reference=onw",),
            r"positive_reference=onw: unknown choice\. Did you mean own",
        ),
        (("callbacks.mining.index=hnsv",), r"index=hnsv: unknown choice\. Did you mean hnsw"),
        (("callbacks.mining.range_max=5",), r"callbacks\.mining\.range_max=5: expected a number from 8"),
    ],
)
REFUSED = {"a checkpoint": CHECKPOINTS, "a server": SERVERS, "a space": SPACES, "a mining": MININGS}


@pytest.mark.parametrize(("call", "told"), rows(REFUSED, sampled={"a mining": 3}))
def test_what_ends_a_run_is_told_with_the_way_out(call, told, f):
    with pytest.raises(UserError, match=told) as caught:
        call(f)
    assert "weights_only" not in str(caught.value)
