"""What may come after pooling: linear layers (sentence-transformers' `Dense`) and a normalization (its `LayerNorm`)."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jaxtyping import Float
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from juzhen.core.errors import UserError, nearest
from juzhen.encoders.settings_file import Settings, told_simply

ACTIVATIONS: dict[str, type[nn.Module]] = {
    "torch.nn.modules.activation.Tanh": nn.Tanh,
    "torch.nn.modules.activation.ReLU": nn.ReLU,
    "torch.nn.modules.activation.GELU": nn.GELU,
    "torch.nn.modules.activation.SiLU": nn.SiLU,
    "torch.nn.modules.activation.Sigmoid": nn.Sigmoid,
    "torch.nn.modules.linear.Identity": nn.Identity,
}
"""Activation as written in config.json → class. A fixed table: a file must not name code to import."""

_WEIGHTS = "model.safetensors"


class Projection(nn.Module):
    """activation(W x + b); `activation` is a key of ACTIVATIONS."""

    kind = "Dense"

    def __init__(self, in_features: int, out_features: int, *, bias: bool, activation: str) -> None:
        super().__init__()
        self.linear = nn.Linear(in_features, out_features, bias=bias)
        self.activation_name = activation
        self.activation = ACTIVATIONS[activation]()

    @property
    def in_features(self) -> int:
        return self.linear.in_features

    @property
    def out_features(self) -> int:
        return self.linear.out_features

    def forward(self, embeddings: Float[Tensor, "sentences dim"]) -> Float[Tensor, "sentences projected"]:
        return self.activation(self.linear(embeddings))

    def save(self, folder: Path) -> None:
        """Writes config.json and model.safetensors as sentence-transformers' `Dense` reads them."""
        config = {
            "in_features": self.linear.in_features,
            "out_features": self.linear.out_features,
            "bias": self.linear.bias is not None,
            "activation_function": self.activation_name,
        }
        _write(self, config, folder)

    @classmethod
    def load(cls, folder: Path) -> "Projection":
        """Reads a `Dense` folder. Raises UserError for pickled weights and for variants we do not compute."""
        settings = Settings.read(folder / "config.json")
        config = settings.values
        activation = settings.get("activation_function", str, default="torch.nn.modules.activation.Tanh")
        if activation not in ACTIVATIONS:
            raise UserError(
                f"{folder}: activation {activation!r} is not supported; {nearest(activation, ACTIVATIONS)}"
            )
        inputs = {
            str(config.get(key) or "sentence_embedding")
            for key in ("module_input_name", "module_output_name")
        }
        if config.get("use_residual") or inputs != {"sentence_embedding"}:
            raise UserError(f"{folder}: only plain Dense layers over the sentence embedding are supported")
        wanted = [settings.get(key, int) for key in ("in_features", "out_features")]
        bias = settings.get("bias", bool, default=True)
        with told_simply(f"{folder}: config.json and {_WEIGHTS} do not belong together"):
            layer = cls(*wanted, bias=bias, activation=activation)
            layer.load_state_dict(_read_weights(folder))
        return layer


class OutputNorm(nn.Module):
    """γ (x − mean(x)) / √(var(x) + 1e-5) + β over the dimensions of an embedding; fresh ones have γ = 1, β = 0.

    Ba et al. 2016, https://arxiv.org/abs/1607.06450
    """

    kind = "LayerNorm"
    activation_name = "LayerNorm"

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim)

    @property
    def in_features(self) -> int:
        return self.out_features

    @property
    def out_features(self) -> int:
        return self.norm.normalized_shape[0]

    def forward(self, embeddings: Float[Tensor, "sentences dim"]) -> Float[Tensor, "sentences dim"]:
        return self.norm(embeddings.float())

    def save(self, folder: Path) -> None:
        """Writes config.json and model.safetensors as sentence-transformers' `LayerNorm` reads them."""
        _write(self, {"dimension": self.out_features}, folder)

    @classmethod
    def load(cls, folder: Path) -> "OutputNorm":
        """Reads a `LayerNorm` folder. Raises UserError for pickled weights."""
        dimension = Settings.read(folder / "config.json").get("dimension", int)
        with told_simply(f"{folder}: config.json and {_WEIGHTS} do not belong together"):
            layer = cls(dimension)
            layer.load_state_dict(_read_weights(folder))
        return layer


def load_projections(
    folders: Sequence[Path], *, width: int, layer_norm: bool | None
) -> list[Projection | OutputNorm]:
    """What the folders hold, in their order.

    width       numbers of a pooled state
    layer_norm  true: a fresh normalization is put last, unless one is there · false: none is used · None: as they are
    """
    layers: list[Projection | OutputNorm] = []
    for folder in folders:
        is_norm = "dimension" in Settings.read(folder / "config.json").values
        layers.append((OutputNorm if is_norm else Projection).load(folder))
        if layers[-1].in_features != width:
            raise UserError(
                f"{folder}: takes {layers[-1].in_features} numbers, and gets {width} from what stands before it"
            )
        width = layers[-1].out_features
    if layer_norm is False:
        return [one for one in layers if one.kind != OutputNorm.kind]
    if layer_norm and OutputNorm.kind not in [one.kind for one in layers[-1:]]:
        layers.append(OutputNorm(width))
    return layers


def _write(layer: nn.Module, config: dict[str, Any], folder: Path) -> None:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    weights = {name: value.detach().cpu().contiguous() for name, value in layer.state_dict().items()}
    save_file(weights, folder / _WEIGHTS, metadata={"format": "pt"})


def _read_weights(folder: Path) -> dict[str, Tensor]:
    if not (folder / _WEIGHTS).is_file():
        raise UserError(f"{folder}: {_WEIGHTS} is missing; pickled weights are not read, save them anew")
    return load_file(folder / _WEIGHTS)
