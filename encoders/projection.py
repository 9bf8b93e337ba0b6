"""Projection: the linear layer that some sentence-transformers models put after pooling (`Dense`)."""

import json
from pathlib import Path

from jaxtyping import Float
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from encoders.foreign import told_simply
from encoders.settings_file import Settings
from schema.errors import UserError, nearest

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

    def __init__(self, in_features: int, out_features: int, *, bias: bool, activation: str) -> None:
        super().__init__()
        self.linear = nn.Linear(in_features, out_features, bias=bias)
        self.activation_name = activation
        self.activation = ACTIVATIONS[activation]()

    def forward(self, embeddings: Float[Tensor, "sentences dim"]) -> Float[Tensor, "sentences projected"]:
        return self.activation(self.linear(embeddings))

    def save(self, folder: Path) -> None:
        """Writes config.json and model.safetensors as sentence-transformers' `Dense` reads them."""
        folder.mkdir()
        config = {
            "in_features": self.linear.in_features,
            "out_features": self.linear.out_features,
            "bias": self.linear.bias is not None,
            "activation_function": self.activation_name,
        }
        (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
        weights = {name: value.detach().cpu().contiguous() for name, value in self.state_dict().items()}
        save_file(weights, folder / _WEIGHTS, metadata={"format": "pt"})

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
        if not (folder / _WEIGHTS).is_file():
            raise UserError(f"{folder}: {_WEIGHTS} is missing; pickled weights are not read, save them anew")
        layer = cls(
            settings.get("in_features", int),
            settings.get("out_features", int),
            bias=settings.get("bias", bool, default=True),
            activation=activation,
        )
        with told_simply(f"{folder}: config.json and {_WEIGHTS} do not belong together"):
            layer.load_state_dict(load_file(folder / _WEIGHTS))
        return layer
