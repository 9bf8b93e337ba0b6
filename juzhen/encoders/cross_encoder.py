"""The cross-encoder itself: both sentences in one input → transformer → [CLS] or mean → head → logits."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from safetensors import safe_open
from torch import Tensor, nn
from torch.nn import functional
from transformers import PretrainedConfig

from juzhen.core.batch import Tokens
from juzhen.core.columns import require_finite_weights
from juzhen.core.errors import UserError, check_count, require_choice, require_number
from juzhen.core.examples import Kind
from juzhen.core.kinds import text_roles
from juzhen.core.lazy_names import offered
from juzhen.core.machine import open_device
from juzhen.encoders.backbone import DROPOUTS, read_architecture
from juzhen.encoders.backbone_config import BackboneConfig
from juzhen.encoders.base_weights import around_same_weights
from juzhen.encoders.components import read_components, unlike_predict, warn_of
from juzhen.encoders.folder_settings import naming, read_settings, read_tensors, require_flags
from juzhen.encoders.forward import use_cheap_dropout
from juzhen.encoders.layout import PAIRS_FILE, gives_answers, inside
from juzhen.encoders.pair_encoder import PairEncoder, PairTemplate
from juzhen.encoders.peer_options import check_flag, takes_peer_options
from juzhen.encoders.preflight import EncoderFiles, find_encoder
from juzhen.encoders.projection import (
    IDENTITY,
    NORM_EPS,
    OutputLayer,
    OutputNorm,
    Projection,
    checked_grades,
    load_projections,
)
from juzhen.encoders.prompts import JOINT, refuse_prompt
from juzhen.encoders.resolve_path import (
    CLASSIFIER,
    HEAD_FILE,
    download,
    encoder_folder,
    encoder_source,
    locate_folder,
    scores_pairs,
    weight_files,
)
from juzhen.encoders.sentence_encoder import SentenceEncoder

_ACTIVATION = "torch.nn.modules.activation."
NORM, CHOSEN = "LayerNorm", "classifier_activation"
"""Marks a normalization instead of a linear layer · marks the activation named in config.json."""
_ROBERTA = (("classifier.dense", "Tanh"), ("classifier.out_proj", None))
HEADS: dict[str, tuple[tuple[str, str | None], ...]] = {
    **{
        name: ((f"{name}.pooler.dense", "Tanh"), ("classifier", None))
        for name in ("bert", "gte", "nomic_bert")
    },
    "albert": (("albert.pooler", "Tanh"), ("classifier", None)),
    "distilbert": (("pre_classifier", "ReLU"), ("classifier", None)),
    "deberta-v2": (("pooler.dense", "GELU"), ("classifier", None)),
    "electra": (("classifier.dense", "GELU"), ("classifier.out_proj", None)),
    "eurobert": (("dense", "GELU"), ("classifier", None)),
    "modernbert": (("head.dense", CHOSEN), ("head.norm", NORM), ("classifier", None)),
    **dict.fromkeys(("roberta", "xlm-roberta", "camembert", "mpnet", "jina_embeddings_v3"), _ROBERTA),
}
"""Architecture → the layers over a pooled state in its class with a head, and their activations."""

POOLED = {"cls": "cls", "bos": "cls", "mean": "mean", "late": "mean"}
"""`classifier_pooling` of config.json → our pooling. late: the first layer of the head comes before pooling."""

CHOICES = {"gelu": "GELU", "relu": "ReLU", "silu": "SiLU", "tanh": "Tanh", "sigmoid": "Sigmoid"}
"""`classifier_activation` of config.json → the activation."""

NLI = ("entailment", "neutral", "contradiction")
"""The order in which a head of three classes has them here."""


def _read_theirs(
    folder: Path, path: str, revision: str | None
) -> tuple[SentenceEncoder, list[OutputLayer], nn.Linear, int]:
    """Encoder of another library, layers to its logits, the last one, and how many come before pooling."""
    config = BackboneConfig(path=path, revision=revision, initialize="pretrained")
    files = find_encoder(config)
    pooling, token_layers = _pooling_of(files, folder)
    encoder = SentenceEncoder.of(read_components(replace(config, pooling=pooling), seed=0))
    layers, last = _read_head(folder, files, encoder.backbone.config)
    return encoder, layers, last, token_layers


def _read_head(
    folder: Path, files: EncoderFiles, architecture: PretrainedConfig
) -> tuple[list[OutputLayer], nn.Linear]:
    """Layers between the pooled state of a pair and its logits, and the last layer.

    Raises UserError for an unsupported head and for unknown classes.
    """
    with naming(f"{folder}: the head does not load"):
        if files.layout.head:
            width, count = architecture.hidden_size, files.layout.token_layers
            layers = load_projections(files.layout.head, width=width, layer_norm=None, token_layers=count)
        else:
            layers = _of_classifier(files, architecture)
    *between, last = layers
    if not isinstance(last, Projection) or last.activation_name != IDENTITY or last.adds_input:
        raise UserError(
            f"{folder}: the layer of the scores has an activation or a residual, which is not supported"
        )
    if last.out_features > 1:
        order = _order_of_classes(folder, architecture.id2label or {}, last.out_features)
        for values in last.linear.parameters():
            values.data = values.data[order]
    return between, last.linear


def _of_classifier(files: EncoderFiles, architecture: PretrainedConfig) -> list[OutputLayer]:
    family, folder = architecture.model_type, files.layout.transformer
    if family not in HEADS or getattr(architecture, "pooler_hidden_act", "gelu") != "gelu":
        raise UserError(
            f"{folder}: the head of {family}{CLASSIFIER} is not supported. Use one of {', '.join(HEADS)}, or "
            "a folder of sentence-transformers with Transformer, Pooling and Dense"
        )
    stored = {}
    for path in weight_files(folder):
        with safe_open(path, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118
                # A base of an adapter that is no classifier has its pooler without what stands before it in one.
                known = name if _is_of_head(name, family) else f"{family}.{name}"
                if _is_of_head(known, family):
                    stored[known] = file.get_tensor(name)
    if files.adapter is not None:
        stored = offered("adapters", "layers")(stored, files.adapter, lambda name: _is_of_head(name, family))
    missing = [name for name, _ in HEADS[family] if f"{name}.weight" not in stored]
    if missing:
        raise UserError(
            f"{files.adapter or folder}: the weights of {', '.join(missing)}, which compute the score, are missing. "
            "Save them with the model. For an adapter, name them in modules_to_save"
        )
    require_finite_weights(stored.items(), files.adapter or folder)
    return [
        _layer(stored, name, _named(activation, architecture, folder)) for name, activation in HEADS[family]
    ]


def _named(activation: str | None, architecture: PretrainedConfig, folder: Path) -> str | None:
    """Activation of a layer. Raises UserError for an unsupported activation in config.json."""
    if activation != CHOSEN:
        return activation
    chosen = architecture.classifier_activation
    require_choice(f"{folder}: {CHOSEN}", chosen, CHOICES)
    if architecture.norm_eps != NORM_EPS:
        raise UserError(f"norm_eps={architecture.norm_eps}: only {NORM_EPS} is supported. Use another model")
    return CHOICES[chosen]


def _is_of_head(name: str, family: str) -> bool:
    return any(name.startswith(f"{layer}.") for layer, _ in HEADS[family])


def _layer(stored: Mapping[str, Tensor], name: str, activation: str | None) -> OutputLayer:
    parts = {key: stored[f"{name}.{key}"].float() for key in ("weight", "bias") if f"{name}.{key}" in stored}
    layer: OutputNorm | Projection
    if activation == NORM:
        layer = OutputNorm(len(parts["weight"]))
        inner: nn.Module = layer.norm
    else:
        rows, columns = parts["weight"].shape
        named = IDENTITY if activation is None else f"{_ACTIVATION}{activation}"
        layer = Projection(columns, rows, bias="bias" in parts, activation=named)
        inner = layer.linear
    inner.load_state_dict(parts, strict=False)  # without a bias that of a normalization is 0
    return layer


def _order_of_classes(folder: Path, labels: Mapping[Any, str], count: int) -> list[int]:
    """Order of the classes: entailment, neutral, contradiction, or 0, 1. Raises UserError for other classes."""
    names = [str(labels.get(number, "")).lower() for number in range(count)]
    if sorted(names) == sorted(NLI):
        return [names.index(name) for name in NLI]
    if count == 2 and names in (["label_0", "label_1"], ["0", "1"]):
        return [0, 1]
    raise UserError(
        f"{folder}: its head has {count} classes ({', '.join(names)}), which give no score. Expected one "
        f"number, 0 and 1, or {', '.join(NLI)} as id2label in config.json"
    )


def _pooling_of(files: EncoderFiles, folder: Path) -> tuple[str, int]:
    """Pooling before the head, and the number of layers before it. Raises UserError if it is not supported."""
    if files.layout.head:
        return files.layout.pooling_for(None), files.layout.token_layers
    architecture = read_architecture(files.layout.transformer, dropout=None)
    chosen = getattr(architecture, "classifier_pooling", "cls")
    require_choice(f"{folder}: classifier_pooling", chosen, POOLED)
    return POOLED[chosen], int(chosen == "late")


SEGMENTS_UNKNOWN = (
    "segments=true: this encoder, or its tokenizer, does not tell two sentences apart by segments, as that of "
    "builtin/mini_zh does not. Leave it at null"
)


class CrossEncoder(PairEncoder):
    """Logits of sentence pairs: one (a similarity), or one per class.

    Args:
        inner: Backbone, tokenizer and pooling ([CLS] or mean). Its `dim` dimensions are the input of the head. The
            encoder is not changed, and shares its weights.
        outputs: 1, or the number of classes.
        segments: Mark the tokens of the second sentence, if architecture and tokenizer have segments.
        symmetric: `score` is the mean of both orders.
        seed: Seed of the new head.
        layers: Layers between pooling and head, usually none.
        token_layers: Number of these layers that come before pooling.
        grades: Closeness of the sentences in each class, from 0 to 1. None takes GRADES.

    Raises:
        UserError: A `max_length` that leaves no room for two sentences.

    Example:
        >>> from juzhen.encoders import load_encoder
        >>> inner = load_encoder("builtin/mini_zh")
        >>> encoder = CrossEncoder(inner, outputs=1, segments=True, symmetric=False, seed=0).eval()  # not yet trained
        >>> encoder.score([("怎么退货", "如何退货"), ("怎么退货", "今天天气很好")]).shape
        (2,)
    """

    family: ClassVar[str] = "cross_encoder"
    poolings: ClassVar[tuple[str, ...]] = ("cls", "mean")
    settable: ClassVar[tuple[str, ...]] = ("segments", "symmetric")

    @takes_peer_options
    def __init__(
        self,
        inner: SentenceEncoder,
        *,
        outputs: int,
        segments: bool,
        symmetric: bool,
        seed: int,
        layers: Sequence[OutputLayer] = (),
        token_layers: int = 0,
        grades: Sequence[float] | None = None,
    ) -> None:
        super().__init__()
        refuse_prompt(JOINT, inner.prompt)
        self.inner = inner = around_same_weights(inner, inner.tokenizer)
        # An embedding's projections, length and score mean nothing to a head.
        inner.projections, inner.normalize, inner.score_head = nn.ModuleList(layers), False, None
        inner._serves_head, inner._token_layers = True, token_layers
        check_count("outputs", outputs)
        self.symmetric = symmetric
        self.template = PairTemplate.of(inner.tokenizer)
        self.segments = segments and self.marks_segments
        if inner.max_length < self.template.num_special + 2:
            raise UserError(
                f"max_length={inner.max_length}: two sentences and {self.template.num_special} special "
                f"tokens need at least {self.template.num_special + 2}. Type max_length=128"
            )
        self.dropout = nn.Dropout(_dropout_rate(inner.backbone.config))
        use_cheap_dropout(self.dropout)
        self.grades = checked_grades(outputs, grades)
        self.head = nn.Linear(inner.dim, outputs)
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            nn.init.normal_(self.head.weight, std=0.02)
        nn.init.zeros_(self.head.bias)
        self._is_finished = True

    def check_setting(self, name: str, value: Any) -> None:
        check_flag(name, value)
        if name == "segments" and value and not self.marks_segments:
            raise UserError(SEGMENTS_UNKNOWN)

    @classmethod
    @takes_peer_options
    def load(
        cls, source: str | Path, *, revision: str | None = None, device: str | torch.device = "cpu"
    ) -> Any:
        """Load a cross-encoder.

        A language model that scores pairs by its answer is a `GenerativeReranker`.

        Args:
            source: Folder, run or hub id.
            revision: As in `SentenceEncoder.load`.
            device: As in `SentenceEncoder.load`.

        Returns:
            The cross-encoder in float32, in evaluation mode.

        Raises:
            UserError: The source is not a cross-encoder, or a file is broken.

        Example:
            >>> CrossEncoder.load("runs/NAME").score("怎么退货", "如何退货")  # doctest: +SKIP
        """
        target = open_device(device)
        path = encoder_source(source, revision)
        folder = locate_folder(path) or download(path, revision)
        if not scores_pairs(folder):
            raise UserError(
                f"{source}: is not a cross-encoder, which reads two texts at once. Name a run of a cross-encoder or "
                "a cross-encoder of sentence-transformers, or load it with SentenceEncoder.load(…)"
            )
        if gives_answers(folder):
            return offered("families", "generative_reranker")().load(source, revision=revision, device=device)
        if not (folder / HEAD_FILE).is_file():
            inner, theirs, last, token_layers = _read_theirs(folder, path, revision)
            encoder = cls(
                inner,
                outputs=last.out_features,
                segments=inner.gives_segments,
                symmetric=False,
                seed=0,
                layers=theirs,
                token_layers=token_layers,
            )
            encoder.head.load_state_dict(last.state_dict(), strict=False)
            warn_of(source, [*encoder.load_warnings, *unlike_predict(folder, encoder.outputs)])
            return encoder.to(target).eval()
        with naming(f"{folder}: {PAIRS_FILE} and {HEAD_FILE} do not belong together"):
            settings = read_settings(folder / PAIRS_FILE)
            require_flags(settings, folder / PAIRS_FILE)
            config = BackboneConfig(
                path=path, revision=revision, initialize="pretrained", pooling=settings["pooling"]
            )
            inner = SentenceEncoder.of(read_components(config, seed=0))
            between = [inside(folder, name) for name in settings.get("layers", [])]
            count = settings.get("token_layers", 0)
            width = inner.backbone.config.hidden_size
            layers = load_projections(between, width=width, layer_norm=None, token_layers=count)
            options = {name: settings[name] for name in ("outputs", "segments", "symmetric")}
            options |= {"layers": layers, "token_layers": count, "grades": settings.get("grades")}
            encoder = cls(inner, **options, seed=0)
            encoder.head.load_state_dict(read_tensors(folder / HEAD_FILE))
        encoder._is_loaded_from(folder)
        warn_of(source, encoder.load_warnings)
        return encoder.to(target).eval()

    @staticmethod
    def saved_as_symmetric(source: str | Path) -> bool:
        """True if a saved cross-encoder scores the mean of both orders.

        Args:
            source: Folder of the encoder.

        Returns:
            True or False.
        """
        settings = encoder_folder(source) / PAIRS_FILE
        return settings.is_file() and bool(read_settings(settings)["symmetric"])

    def require_order(self, name: str, kind: Kind | None, symmetric: bool | None) -> None:
        if self.symmetric and (sides := text_roles(kind, symmetric)):
            raise UserError(
                f"{name}: {sides} cannot be swapped, but this cross-encoder scores the mean of both orders "
                "(symmetric: true in its crossencoder.json). Leave the set out, or train one with symmetric=false"
            )

    @takes_peer_options
    def set(
        self,
        *,
        pooling: str | None,
        segments: bool | None,
        symmetric: bool | None,
        head_dropout: float | None = None,
    ) -> None:
        """Change settings of a loaded cross-encoder. None keeps a setting.

        Args:
            pooling: cls or mean.
            segments: Mark the tokens of the second sentence.
            symmetric: Score the mean of both orders.
            head_dropout: Dropout before the head.

        Raises:
            UserError: The encoder has no segments.

        Example:
            >>> encoder.set(pooling="mean", segments=None, symmetric=True)  # doctest: +SKIP
        """
        if segments and not self.marks_segments:
            raise UserError(SEGMENTS_UNKNOWN)
        require_choice("pooling", pooling or self.inner.pooling, self.poolings)
        require_number("head_dropout", head_dropout, 0, 1, optional=True)
        self.inner.pooling = pooling or self.inner.pooling
        self.segments = self.segments if segments is None else segments
        self.symmetric = self.symmetric if symmetric is None else symmetric
        self.dropout.p = self.dropout.p if head_dropout is None else head_dropout

    def with_head(self, grades: Sequence[float], *, seed: int) -> "CrossEncoder":
        """The same transformer under a new head, with a node for each grade.

        Args:
            grades: Gold value of each node.
            seed: Seed of the new weights.

        Returns:
            The new cross-encoder.
        """
        return CrossEncoder(
            self.inner,
            outputs=len(grades),
            grades=grades,
            segments=self.segments,
            symmetric=self.symmetric,
            seed=seed,
            layers=self.inner.output_layers,
            token_layers=self.inner.token_layers,
        )

    @property
    def marks_segments(self) -> bool:
        """True if architecture and tokenizer mark two sentences by segments, as in BERT and not in RoBERTa."""
        has_types = self.inner.takes_segments and getattr(self.backbone.config, "type_vocab_size", 0) > 1
        return has_types and self.template.marks

    @property
    def outputs(self) -> int:
        return self.head.out_features

    @property
    def facts(self) -> list[str]:
        head = [value.detach().cpu().numpy().tobytes().hex() for value in self.head.state_dict().values()]
        return [*head, str(self.segments), str(self.symmetric)]

    def forward(self, tokens: Tokens) -> Float[Tensor, "pairs outputs"]:
        # In float32 also under autocast: rounded logits tie, and ties change ranks.
        pooled = self.dropout(self.inner(tokens))
        with torch.autocast(pooled.device.type, enabled=False):
            return functional.linear(pooled.float(), self.head.weight.float(), self.head.bias.float())


def _dropout_rate(architecture: PretrainedConfig) -> float:
    """Dropout of the layers of the transformer, the default of the head. 0 if the architecture has none."""
    rates = [getattr(architecture, name) for name in DROPOUTS if hasattr(architecture, name)]
    return float(rates[0]) if rates else 0.0
