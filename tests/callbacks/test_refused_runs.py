"""What keeps a run from its checkpoint, its server or a healthy space is told in one line with the way out."""

import time

import pytest
import torch
from refusals import rows
from test_checkpoint_io import DAMAGES, failing
from test_health import judged

from callbacks import resume
from callbacks.reporting import wandb_mode
from callbacks.resume import AtomicCheckpointIO, read_checkpoint, saved_state
from juzhen.core.errors import UserError

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
REFUSED = {"a checkpoint": CHECKPOINTS, "a server": SERVERS, "a space": SPACES}


@pytest.mark.parametrize(("call", "told"), rows(REFUSED))
def test_what_ends_a_run_is_told_with_the_way_out(call, told, f):
    with pytest.raises(UserError, match=told) as caught:
        call(f)
    assert "weights_only" not in str(caught.value)
