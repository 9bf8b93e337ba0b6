"""The devices that torch computes on here."""

import torch

from juzhen.core.errors import UserError


def present_devices() -> dict[str, bool]:
    """Kind of device → whether this machine, and this build of torch, have one."""
    return {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}


def open_device(device: str | torch.device) -> torch.device:
    """A device by its name, such as cuda:1. Raises UserError for one that is not there."""
    try:
        chosen = torch.device(device)
    except RuntimeError as error:
        raise UserError(f"device={device}: {str(error).splitlines()[0]}") from error
    present = [name for name, is_there in present_devices().items() if is_there]
    too_many = chosen.type == "cuda" and (chosen.index or 0) >= torch.cuda.device_count()
    if chosen.type not in present or too_many:
        raise UserError(
            f"device={device}: this machine, or this build of torch, has none. There is: {', '.join(present)}"
        )
    return chosen
