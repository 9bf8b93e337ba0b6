"""Layers after pooling: linear layers (`Dense` of sentence-transformers), normalization (`LayerNorm`), score heads."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from jaxtyping import Float
from safetensors.torch import save_model
from torch import Tensor, nn
from torch.nn import functional

from juzhen.core.atomic_write import write_json
from juzhen.core.batch import constants
from juzhen.core.errors import UserError, require_choice
from juzhen.core.examples import NLI_GRADES
from juzhen.core.text import short
from juzhen.encoders.folder_settings import naming, read_module, read_settings, read_tensors
from juzhen.encoders.layout import EMBEDDING, TOKEN_STATES
from juzhen.encoders.resolve_path import SCORE_FILE

IDENTITY = "torch.nn.modules.linear.Identity"

ACTIVATIONS: dict[str, type[nn.Module]] = {
    f"torch.nn.modules.activation.{kind.__name__}": kind
    for kind in (
        *(nn.Tanh, nn.ReLU, nn.GELU, nn.SiLU, nn.Sigmoid),
        *(nn.CELU, nn.ELU, nn.Hardsigmoid, nn.Hardswish, nn.Hardtanh, nn.LeakyReLU, nn.LogSigmoid, nn.Mish),
        *(nn.ReLU6, nn.SELU, nn.Softplus, nn.Softsign, nn.Tanhshrink),
    )
} | {IDENTITY: nn.Identity}
"""Activation as written in config.json → class. A fixed table: a file must not name code to import."""

_WEIGHTS = "model.safetensors"


class OutputLayer(nn.Module, ABC):
    """A layer over embeddings, saved as config.json and model.safetensors, as in sentence-transformers.

    Attributes:
        kind: Name of the module in sentence-transformers.
    """

    kind: ClassVar[str]
    activation_name: str
    in_features: int
    out_features: int

    @abstractmethod
    def config(self) -> dict[str, Any]:
        """Content of config.json.

        Returns:
            Setting → value, in the spelling of sentence-transformers.
        """

    def save(self, folder: Path) -> None:
        """Write both files.

        Args:
            folder: Folder that does not exist yet.
        """
        folder.mkdir()
        write_json(folder / "config.json", self.config(), indent=2, in_own_folder=True)
        save_model(self, str(folder / _WEIGHTS), metadata={"format": "pt"})

    @classmethod
    def _filled(cls, folder: Path, *sizes: int, **options: Any) -> Self:
        """Build the layer and load the weights of a folder. Pickled weights are not read."""
        with naming(f"{folder}: config.json and {_WEIGHTS} do not belong together"):
            layer = cls(*sizes, **options)
            layer.load_state_dict(read_tensors(folder / _WEIGHTS))
        return layer


class Projection(OutputLayer):
    """activation(W x + b).

    Args:
        in_features: Dimensions of x.
        out_features: Dimensions of the result.
        bias: Learn b. False: b is 0.
        activation: A key of ACTIVATIONS.
        adds_input: Add the input, projected by another matrix if the sizes differ.
    """

    kind = "Dense"

    def __init__(
        self, in_features: int, out_features: int, *, bias: bool, activation: str, adds_input: bool = False
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.linear = nn.Linear(in_features, out_features, bias=bias)
        self.activation_name = activation
        self.activation = ACTIVATIONS[activation]()
        self.adds_input = adds_input
        if adds_input and in_features != out_features:
            self.residual = nn.Linear(in_features, out_features, bias=False)

    def forward(self, embeddings: Float[Tensor, "sentences dim"]) -> Float[Tensor, "sentences projected"]:
        """Apply the layer.

        Args:
            embeddings: Embeddings, or token states for a layer before pooling.

        Returns:
            Array with `out_features` dimensions.
        """
        projected = self.activation(self.linear(embeddings))
        if not self.adds_input:
            return projected
        return projected + (self.residual(embeddings) if hasattr(self, "residual") else embeddings)

    def config(self) -> dict[str, Any]:
        return {
            "in_features": self.in_features,
            "out_features": self.out_features,
            "bias": self.linear.bias is not None,
            "activation_function": self.activation_name,
        } | ({"use_residual": True} if self.adds_input else {})

    @classmethod
    def load(cls, folder: Path, *, of_tokens: bool = False) -> Self:
        """Read a `Dense` folder.

        Args:
            folder: The folder.
            of_tokens: True for a layer over token states, which PyLate does not record.

        Returns:
            The layer with its weights, on the CPU.

        Raises:
            UserError: Pickled weights, or an unsupported variant.
        """
        config = read_module(folder, cls.kind)
        activation = config.get("activation_function", "torch.nn.modules.activation.Tanh")
        require_choice(f"{folder}: activation", activation, ACTIVATIONS)
        if of_tokens:  # what stands behind the pooling reads what its place says (`juzhen.encoders.layout`)
            source = config.get("module_input_name") or TOKEN_STATES
            target = config.get("module_output_name") or source
            if (source, target) != (TOKEN_STATES,) * 2:
                key = "module_input_name" if source != TOKEN_STATES else "module_output_name"
                raise UserError(
                    f"{folder / 'config.json'}: {key}={short(repr(config[key]))}: a layer before the pooling reads and "
                    f"gives the states of tokens here. Name {TOKEN_STATES}, or use another model"
                )
        with naming(f"{folder}/config.json"):
            sizes = config["in_features"], config["out_features"]
        options = {"bias": config.get("bias", True), "adds_input": config.get("use_residual", False)}
        return cls._filled(folder, *sizes, activation=activation, **options)


NORM_EPS = 1e-5
"""What torch and sentence-transformers add to the variance in a normalization."""


class OutputNorm(OutputLayer):
    """γ (x − mean(x)) / √(var(x) + 1e-5) + β over the dimensions of an embedding. Initially γ = 1, β = 0.

    Ba et al. 2016, https://arxiv.org/abs/1607.06450

    Args:
        dim: Dimensions of an embedding.
    """

    kind = "LayerNorm"
    activation_name = "LayerNorm"

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.in_features = self.out_features = dim
        self.norm = nn.LayerNorm(dim)

    def forward(self, embeddings: Float[Tensor, "sentences dim"]) -> Float[Tensor, "sentences dim"]:
        """Normalize each embedding.

        Args:
            embeddings: Embeddings in any precision.

        Returns:
            float32.
        """
        return self.norm(embeddings.float())

    def config(self) -> dict[str, Any]:
        return {"dimension": self.out_features}

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read a `LayerNorm` folder.

        Args:
            folder: The folder.

        Returns:
            The layer with its weights, on the CPU.

        Raises:
            UserError: Pickled weights.
        """
        return cls._filled(folder, read_module(folder, cls.kind)["dimension"])


class _UnitLength(OutputLayer):
    """x / ‖x‖ before a layer (`Normalize` in sentence-transformers). The last one is `PooledEncoder.normalize`."""

    kind = activation_name = "Normalize"

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.in_features = self.out_features = dim

    def forward(self, embeddings: Float[Tensor, "sentences dim"]) -> Float[Tensor, "sentences dim"]:
        return functional.normalize(embeddings.float(), dim=-1)

    def config(self) -> dict[str, Any]:
        return {"module_input_name": EMBEDDING, "module_output_name": EMBEDDING}


def load_projections(
    folders: Sequence[Path | None], *, width: int, layer_norm: bool | None, token_layers: int = 0
) -> list[OutputLayer]:
    """Load the layers of folders, in order. None scales to length 1.

    Args:
        folders: Folders of the layers.
        width: Dimensions of a pooled state.
        layer_norm: true appends a new normalization unless there is one · false removes it · None changes nothing.
        token_layers: Number of first layers over token states.

    Returns:
        The layers in order. The last one has as many outputs as the embedding has dimensions.

    Raises:
        UserError: A layer does not load, or does not take the outputs of the layer before.
    """
    layers: list[OutputLayer] = []
    for number, folder in enumerate(folders):
        settings = {} if folder is None else read_settings(folder / "config.json")
        if folder is None or settings.keys() == _UnitLength(1).config().keys():
            layers.append(_UnitLength(width))
        elif "dimension" in settings:
            layers.append(OutputNorm.load(folder))
        else:
            layers.append(Projection.load(folder, of_tokens=number < token_layers))
        if layers[-1].in_features != width:
            raise UserError(
                f"{folder}/config.json: a layer of {layers[-1].in_features} numbers, where {width} come from the one "
                "before. Copy the folder and modules.json again"
            )
        width = layers[-1].out_features
    if layer_norm is False:
        return [layer for layer in layers if not isinstance(layer, OutputNorm)]
    if layer_norm and not (layers and isinstance(layers[-1], OutputNorm)):
        layers.append(OutputNorm(width))
    return layers


class BilinearScore(nn.Module):
    """s(u, v) = ûᵀ W v̂, with û = u/‖u‖ and v̂ = v/‖v‖. W starts as the identity, so that s starts as the cosine.

    Su 2022, https://kexue.fm/archives/9341, where CoSENT accepts any function of two texts as a score. There the form
    takes u and v. Here they are normalized, so their norm has no effect, and temperatures for cosines fit at the start.
    The order of the sentences counts: s(u, v) = s(v, u) only as long as W is symmetric.

    Args:
        dim: Dimensions of an embedding.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.form = nn.Parameter(torch.eye(dim))

    def forward(
        self, first: Float[Tensor, "batch dim"], second: Float[Tensor, "batch dim"]
    ) -> Float[Tensor, "batch"]:
        """Score pairs. It computes in float32 also under autocast, which would tie close scores.

        Args:
            first: Embeddings of the first sentences, of any length.
            second: Embeddings of the second sentences.

        Returns:
            One score a pair, float32.
        """
        with torch.autocast(first.device.type, enabled=False):
            first, second = (functional.normalize(layer.float(), dim=-1) for layer in (first, second))
            return ((first @ self.form) * second).sum(dim=-1)

    def save(self, folder: Path) -> None:
        """Write SCORE_FILE.

        Args:
            folder: Existing folder of the encoder.
        """
        save_model(self, str(folder / SCORE_FILE), metadata={"format": "pt"})

    @classmethod
    def load(cls, folder: Path, *, dim: int) -> "BilinearScore | None":
        """Load SCORE_FILE. None if it is missing.

        Args:
            folder: Its folder.
            dim: Dimensions of the embeddings.

        Returns:
            The form with its weights, on the CPU.

        Raises:
            UserError: Its size does not fit.
        """
        if not (folder / SCORE_FILE).is_file():
            return None
        with naming(f"{folder / SCORE_FILE}: no form over embeddings of {dim} numbers"):
            head = cls(dim)
            head.load_state_dict(read_tensors(folder / SCORE_FILE))
        return head


GRADES = {2: (0.0, 1.0), len(NLI_GRADES): NLI_GRADES}
"""Number of classes → how close the sentences are in each: 0/1 labels, NLI classes."""


def similarity(
    logits: Float[Tensor, "pairs outputs"], grades: Sequence[float] = ()
) -> Float[Tensor, "pairs"]:
    """One number per pair, higher = closer: the logit itself, or the logit of the expected grade.

    With class probabilities p and grades g (1, 0.5, 0 for NLI), s = log Σ p_c g_c − log Σ p_c (1 − g_c). The
    sigmoid of s is the expected grade, from 0 to 1. For two classes s = z_1 − z_0, whose sigmoid is the
    probability of label 1.

    Args:
        logits: Logits of the pairs.
        grades: Grade of each class, from 0 to 1. Empty takes GRADES.

    Returns:
        Scores, the type of `logits`.
    """
    if logits.shape[1] == 1:
        return logits[:, 0]
    of_classes = constants(tuple(grades) or GRADES[logits.shape[1]], like=logits)
    closer, apart = (logits + part.log() for part in (of_classes, 1 - of_classes))
    return closer.logsumexp(dim=1) - apart.logsumexp(dim=1)


def checked_grades(outputs: int, grades: Sequence[float] | None) -> tuple[float, ...]:
    """Grades of the classes of a head.

    Args:
        outputs: Numbers that the head returns. 1 needs no grades.
        grades: Grade of each class, from 0 to 1. None or empty takes GRADES.

    Returns:
        One grade a class. Empty for a head of one output without grades.

    Raises:
        UserError: Their number is wrong, a grade is out of range, or all are equal.
    """
    checked = tuple(grades or GRADES.get(outputs, ()))
    if outputs == 1 and not checked:
        return ()
    are_shares = all(isinstance(grade, int | float) and 0 <= grade <= 1 for grade in checked)
    if len(checked) != outputs or not are_shares or len(set(checked)) < 2:
        raise UserError(
            f"grades={list(checked)}: a head of outputs={outputs} classes needs a grade for each, from 0 to 1, not all "
            "the same. Give one for each, or outputs=1 and none"
        )
    return tuple(map(float, checked))
