"""Takes training steps of jobs on a CUDA device that is there in name only, and tells what went wrong in each.

    LD_PRELOAD=<library made of device.cpp> python steps.py <folder> <tiny backbone> <jobs, as JSON: name -> overrides>

Tensors are fake: they have a shape, a type and a device, and no numbers. Tensors of two devices that meet, a number
that is fetched, a shape that follows from numbers, a copy from the processor's memory within a step, and float64,
which a Mac's GPU has not, all raise.
The last line printed is a JSON object: name of a job -> calls of aten in its last step, or what was raised.
"""

import json
import logging
import sys
import traceback
import warnings
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from jobs import SMALL, compose_job
from torch._subclasses import FakeTensor, FakeTensorMode
from torch.utils._foreach_utils import _foreach_supported_types
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import train
from juzhen.core.batch import mapped
from juzhen.encoders import forward
from juzhen.encoders.forward import ragged_kernel
from juzhen.losses import matryoshka
from launch.curriculum import StageRun
from lightning_modules.colbert import ColBERT
from lightning_modules.distill import Taught
from lightning_modules.splade import Splade

STEPS = 2
DEVICE = torch.device("cuda", 0)


class Taken(Exception):  # noqa: N818 — nothing is wrong
    """All steps were taken."""


class OnDevice(TorchDispatchMode):
    """Counts calls, lists kernels of attention, and after the `first` step refuses copies from the host's memory."""

    def __init__(self, *, first: bool) -> None:
        super().__init__()
        self.first = first
        self.kernels: set[str] = set()
        self.calls = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        given = kwargs or {}
        self.calls += function.namespace == "aten"
        if function is torch.ops.aten._to_copy.default and given.get("device") == DEVICE and not self.first:
            assert args[0].device == DEVICE, f"{tuple(args[0].shape)} is copied to the GPU within a step"
        if function._overloadpacket in (
            torch.ops.aten._flash_attention_forward,
            torch.ops.aten._efficient_attention_forward,
        ):
            self.kernels.add(function.name())
        result = function(*args, **given)
        for one in tree_leaves(result):
            is_double = isinstance(one, torch.Tensor) and one.dtype is torch.float64
            assert not (is_double and one.device == DEVICE), (
                f"{function.name()} gives float64, which MPS has not"
            )
        return result


def chosen_kernel(query, key, value, *, rate, pattern):
    """What a GPU of today has; torch asks the real device, which is not there."""
    assert query.device == key.device == value.device == DEVICE
    if query.dtype is torch.bfloat16:
        return forward.flash
    return forward.memory_efficient if pattern.reach is None else None


def put_on_device(module: torch.nn.Module) -> None:
    for part in module.modules():
        for name, weight in part._parameters.items():
            if weight is not None:
                empty = torch.empty(weight.shape, dtype=weight.dtype, device=DEVICE)
                part._parameters[name] = torch.nn.Parameter(empty, requires_grad=weight.requires_grad)
        for name, buffer in part._buffers.items():
            if buffer is not None:
                part._buffers[name] = torch.empty(buffer.shape, dtype=buffer.dtype, device=DEVICE)
    module._device = DEVICE


def take_steps(run: StageRun) -> None:
    """In place of StageRun._fit."""
    trainer, module, data = run.trainer, run.module, run.data
    forward.ragged_kernel = chosen_kernel  # a model may have looked at its encoder on the processor before
    module.trainer = data.trainer = trainer
    module.log = module.log_dict = lambda *what, **how: None
    # Numbers drawn on the processor are fake, too.
    matryoshka._draw = lambda count, chosen: [*range(count)][:chosen]
    data.setup("fit")
    if isinstance(module, Taught):  # what it says, without its weights
        module.collate.targets = lambda name, numbers: np.ones((len(numbers), 256), dtype=np.float32)
    batches = iter(data.train_dataloader())
    some = [next(batches) for _ in range(STEPS)]
    planned = list(islice(data.val_dataloader(), 1))  # none for a set without pairs
    mixed = run.job.hardware.precision == "bf16-mixed"
    with FakeTensorMode() as fake:
        some, planned = ([mapped(one, fake.from_tensor).to(DEVICE) for one in of] for of in (some, planned))
        put_on_device(module)
        if hasattr(module, "vocabulary"):
            module.vocabulary = mapped(module.vocabulary, lambda one: fake.from_tensor(one).to(DEVICE))
        optimizer = module.configure_optimizers()["optimizer"]
        for index, batch in enumerate(some):
            with OnDevice(first=index == 0) as seen:
                module.on_train_batch_start(batch, index)
                with torch.autocast("cuda", torch.bfloat16, enabled=mixed):
                    loss = module.training_step(batch, index)
                assert loss.device == DEVICE
                # torch's own account of the other kernel's gradients is wrong for fake tensors (2.13).
                if mixed:
                    loss.backward()
                    module.configure_gradient_clipping(optimizer)
                    optimizer.step()
                    optimizer.zero_grad()
        name = "_flash_attention_forward" if mixed else "_efficient_attention_forward"
        assert seen.kernels == {f"aten::{name}"}, seen.kernels
        module.eval()
        with torch.inference_mode(), torch.autocast("cuda", torch.bfloat16, enabled=mixed):
            if not isinstance(
                module, ColBERT | Splade
            ):  # their vectors go to the processor's memory, batch by batch
                assert all(module.output(batch).device == DEVICE for batch in planned)
    raise Taken(seen.calls)


def outcome(overrides: list[str], folder: Path, backbone: str) -> str | int:
    forward.ragged_kernel = ragged_kernel
    words = [*SMALL, f"backbone.path={backbone}", f"output_dir={folder}", *overrides]
    try:
        train.run_job(compose_job(*words))
    except Taken as taken:
        return taken.args[0]
    except BaseException as error:
        traceback.print_exc()
        return f"{type(error).__name__}: {str(error)[:300]}"
    return "no step was asked for"


def main(folder: str, backbone: str, jobs: str) -> None:
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    torch.cuda.is_available = torch.cuda.is_bf16_supported = lambda *what, **how: True
    # By their class torch takes fake tensors one by one where a GPU clips all gradients in a few calls.
    _foreach_supported_types.append(FakeTensor)
    StageRun._fit = take_steps
    found = {
        name: outcome(overrides, Path(folder) / str(number), backbone)
        for number, (name, overrides) in enumerate(json.loads(jobs).items())
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
