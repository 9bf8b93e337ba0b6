"""Shard weights, gradients and optimizer states over processes. Each holds a part of every tensor (FSDP2).

A layer is gathered when it is needed and freed again afterwards. Weights outside of layers stay whole during
a step. Results equal those of one process. Only a copy of the model is sharded, and only for training. All
later work uses whole weights.
"""

import copy

import pytorch_lightning as pl
import torch
from pytorch_lightning.strategies import ModelParallelStrategy
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from conf.job import JobConfig
from juzhen.core.errors import UserError
from juzhen.encoders.base_weights import frozen_names
from juzhen.training.optimizer import layer_of

STEPS = ("training_step", "validation_step", "test_step")
"""Methods through which Lightning enters a model: weights outside of layers are put together when one begins."""

WHOLE_WEIGHTS = ("averaging", "mining", "set_weights", "unfreezing")
"""Modules of callbacks that look at whole weights, or encode while others do not."""


def check_sharding(job: JobConfig) -> None:
    """Check that a job needs no whole weights in each process during training.

    Args:
        job: `hardware.precision`, `callbacks` and `backbone.adapter` are read.

    Raises:
        UserError: An option needs whole weights.
    """
    if job.hardware.precision == "16-mixed":
        raise UserError(
            "hardware.strategy=fsdp: type hardware.precision=bf16-mixed or 32-true. Losses of 16-mixed are scaled, and "
            "a process would scale its part alone"
        )
    for name, node in job.callbacks.items():
        if node is not None and node["_target_"].split(".")[-2] in WHOLE_WEIGHTS:
            raise UserError(
                f"hardware.strategy=fsdp: callbacks.{name} needs the whole weights in each process. Type "
                f"callbacks.{name}=null, or hardware=cuda_ddp"
            )
    adapter = job.backbone.adapter
    if adapter is not None and adapter.base != "float32":
        raise UserError(
            f"hardware.strategy=fsdp: frozen weights in {adapter.base} are not shared out. Type adapter=lora"
        )


class Sharded(ModelParallelStrategy):
    """Lightning's strategy with sharded weights only, and checkpoints in one file each.

    It has no tensor parallelism.

    Args:
        processes: Number of processes that share the weights.
    """

    def __init__(self, processes: int) -> None:
        super().__init__(
            data_parallel_size=processes, tensor_parallel_size=1, save_distributed_checkpoint=False
        )


def copy_to_shard(module: pl.LightningModule) -> pl.LightningModule:
    """Return a copy of the model with separate weights, which is sharded once its Trainer has processes.

    Args:
        module: The model with whole weights. It is not changed.

    Returns:
        The copy, with `is_sharded` set.
    """
    twin = copy.deepcopy(module)
    twin.is_sharded = True
    return twin


def shard(module: pl.LightningModule) -> None:
    """Keep only this process's part of each tensor of `module`, once. Lightning calls it before each pass.

    Args:
        module: A copy from `copy_to_shard` with its Trainer. It is changed in place.
    """
    from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method

    if isinstance(module, FSDPModule):
        return
    mesh = module.trainer.strategy.device_mesh["data_parallel"]
    layers: list[str] = []
    for name, part in module.named_modules():
        is_within = any(name.startswith(f"{layer}.") for layer in layers)  # such as one of a list of experts
        if not is_within and name.rpartition(".")[2].isdecimal() and layer_of(f"{name}."):
            fully_shard(part, mesh=mesh)
            layers.append(name)
    # What is looked at between steps, such as the health of the space, finds what lies outside of layers whole.
    fully_shard(module, mesh=mesh, reshard_after_forward=False)
    for step in STEPS:
        register_fsdp_forward_method(module, step)
    inner = getattr(module.encoder, "inner", module.encoder)
    vars(inner)["most_pieces"] = lambda count: _most_of_all(count, module.device)
    module.strict_loading = not frozen_names(module)


def _most_of_all(count: int, device: torch.device) -> int:
    counts = torch.tensor(count, device=device)
    torch.distributed.all_reduce(counts, torch.distributed.ReduceOp.MAX)
    return int(counts)


@torch.no_grad()
def put_together(module: nn.Module, sharded: nn.Module) -> None:
    """Copy the weights of the sharded copy into `module`. All processes must call it.

    Args:
        module: The model with whole weights.
        sharded: Its trained copy. Parameters and buffers have the same names.
    """
    whole = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    for name, values in {**dict(sharded.named_parameters()), **dict(sharded.named_buffers())}.items():
        whole[name].copy_(whole_tensor(values))


def whole_tensor(values: Tensor) -> Tensor:
    """Gather the whole tensor if this process has a part.

    Args:
        values: A tensor, or this process's part of one.

    Returns:
        The whole tensor. A tensor that is not sharded is returned unchanged.
    """
    return values.full_tensor() if isinstance(values, DTensor) else values
