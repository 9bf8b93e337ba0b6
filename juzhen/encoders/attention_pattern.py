"""Which tokens of its sentence a token attends to: all, those before it, those nearby."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from juzhen.core.batch import Group


@dataclass(frozen=True)
class Pattern:
    """To which tokens of its sentence a token attends.

    causal  none behind it
    reach   none that is further away; None: at any distance
    """

    causal: bool = False
    reach: int | None = None

    def within(self, length: int) -> "Pattern":
        """The same for sentences of at most so many tokens: a window that is wider than they are is none."""
        return self if self.reach is None or self.reach < length - 1 else Pattern(self.causal)

    def mask(self, group: Group, device: torch.device) -> Tensor | None:
        """True where a token of a padded group may look, (sentences or 1, 1, length or 1, length); None: anywhere.

        A token that would see none, as one of the padding may, sees itself, since the softmax of nothing would be NaN.
        """
        pattern = self.within(group.length)
        if pattern == Pattern():
            return group.mask
        positions = torch.arange(group.length, device=device)
        ahead = positions - positions.unsqueeze(1)
        seen = ahead <= 0 if pattern.causal else torch.ones_like(ahead, dtype=torch.bool)
        if pattern.reach is not None:
            seen = seen & (ahead.abs() <= pattern.reach)
        seen = seen[None, None]
        # Padding is behind a sentence, where a causal token does not look.
        if group.mask is None or (pattern.causal and not group.hides):
            return seen
        seen = seen & group.mask
        return seen | ((ahead == 0) & ~seen.any(dim=-1, keepdim=True))


EVERYWHERE = Pattern()


def pattern_of(module: nn.Module, *, is_causal: bool | None, sliding_window: int | None) -> Pattern:
    """The pattern that a layer of transformers asks for.

    is_causal  of the call, by config.json; None: as the layer is built. A window of `sliding_window` tokens counts the
               token itself, but for a causal layer that is called as one that looks both ways
    """
    is_built_causal = bool(getattr(module, "is_causal", True))
    causal = is_built_causal if is_causal is None else is_causal
    if sliding_window is None:
        return Pattern(causal)
    return Pattern(causal, sliding_window - (causal or not is_built_causal))
