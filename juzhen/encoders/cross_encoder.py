"""The cross-encoder itself: both sentences in one input → transformer → [CLS] or mean → head → logits."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional
from transformers import PretrainedConfig

from juzhen.core.batch import Tokens
from juzhen.core.errors import UserError
from juzhen.core.examples import Kind
from juzhen.core.kinds import text_roles
from juzhen.core.lazy_names import offered
from juzhen.core.machine import open_device
from juzhen.encoders.classifier import read_theirs
from juzhen.encoders.cross_encoder_input import PairTemplate
from juzhen.encoders.grades import checked_grades
from juzhen.encoders.layout import PAIRS_FILE, gives_answers, inside
from juzhen.encoders.locate import (
    HEAD_FILE,
    download,
    encoder_folder,
    encoder_source,
    locate_folder,
    scores_pairs,
)
from juzhen.encoders.packing import use_cheap_dropout
from juzhen.encoders.pair_encoder import PairEncoder
from juzhen.encoders.parts import read_parts
from juzhen.encoders.peer_options import takes_peer_options
from juzhen.encoders.projection import OutputLayer, load_projections
from juzhen.encoders.prompts import JOINT, refuse_prompt
from juzhen.encoders.sentence_encoder import SentenceEncoder
from juzhen.encoders.settable import check_flag
from juzhen.encoders.settings_file import naming, read_settings, read_tensors
from juzhen.encoders.spec import BackboneConfig
from juzhen.encoders.transformer import DROPOUTS

SEGMENTS_UNKNOWN = (
    "segments=true: this encoder, or its tokenizer, does not tell two sentences apart by segments, as that of "
    "builtin/mini_zh does not; leave it at null"
)


class CrossEncoder(PairEncoder):
    """Logits of sentence pairs: one (a similarity), or one per class.

    inner     backbone, tokenizer and pooling ([CLS] or mean); its `dim` numbers go into the head
    outputs   1, or the number of classes
    segments  tokens of the second sentence are marked as such, where architecture and tokenizer have marks
    symmetric  `score` is the mean of both orders
    layers    what stands between the pooled state and the head; usually nothing
    token_layers  so many of them, the first ones, stand over the states of tokens, before pooling
    grades    how close two sentences are in each class, from 0 to 1; None: as GRADES has it. Empty without classes
    """

    family: ClassVar[str] = "cross_encoder"
    poolings: ClassVar[tuple[str, ...]] = ("cls", "mean")
    settable: ClassVar[tuple[str, ...]] = ("segments", "symmetric")

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
        self.inner = inner
        refuse_prompt(JOINT, inner.prompt)
        # An embedding's projections, length and score mean nothing to a head.
        inner.projections, inner.normalize, inner.score_head = nn.ModuleList(layers), False, None
        inner._serves_head, inner._token_layers = True, token_layers
        self.symmetric = symmetric
        self.template = PairTemplate.of(inner.tokenizer)
        self.segments = segments and self.marks_segments
        if inner.max_length < self.template.num_special + 2:
            raise UserError(
                f"max_length={inner.max_length}: two sentences and {self.template.num_special} special "
                f"tokens need {self.template.num_special + 2} at least; 128 is customary"
            )
        self.dropout = nn.Dropout(dropout_rate(inner.backbone.config))
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
        """The cross-encoder in a folder, of a run or of the hub, in float32, in evaluation mode.

        A language model that scores pairs by its answer is a `GenerativeReranker`.

        revision, device  as of `SentenceEncoder.load`

        Raises UserError when it is none, or files are broken.
        """
        target = open_device(device)
        path = encoder_source(source)
        folder = locate_folder(path) or download(path, revision)
        if not scores_pairs(folder):
            raise UserError(
                f"{source}: holds an encoder of single sentences and no {HEAD_FILE}: SentenceEncoder.load(…). Expected "
                "a run of a cross-encoder, or a cross-encoder of sentence-transformers"
            )
        if gives_answers(folder):
            return offered("families", "generative_reranker")().load(source, revision=revision, device=device)
        if not (folder / HEAD_FILE).is_file():
            inner, head = read_theirs(folder, path, revision)
            encoder = cls(
                inner,
                outputs=head.last.out_features,
                segments=inner.gives_segments,
                symmetric=False,
                seed=0,
                layers=head.layers,
                token_layers=head.token_layers,
            )
            encoder.head.load_state_dict(head.last.state_dict(), strict=False)
            return encoder.to(target).eval()
        with naming(f"{folder}: {PAIRS_FILE} and {HEAD_FILE} do not belong together"):
            settings = read_settings(folder / PAIRS_FILE)
            config = BackboneConfig(
                path=path, revision=revision, initialize="pretrained", pooling=settings["pooling"]
            )
            inner = SentenceEncoder.of(read_parts(config, seed=0))
            between = [inside(folder, name) for name in settings.get("layers", [])]
            count = settings.get("token_layers", 0)
            width = inner.backbone.config.hidden_size
            layers = load_projections(between, width=width, layer_norm=None, token_layers=count)
            options = {name: settings[name] for name in ("outputs", "segments", "symmetric")}
            options |= {"layers": layers, "token_layers": count, "grades": settings.get("grades")}
            encoder = cls(inner, **options, seed=0)
            encoder.head.load_state_dict(read_tensors(folder / HEAD_FILE))
        encoder._is_loaded_from(folder)
        return encoder.to(target).eval()

    @staticmethod
    def saved_as_symmetric(source: str | Path) -> bool:
        """Whether a run or a folder, which holds a cross-encoder, says that scores are the mean of both orders."""
        settings = encoder_folder(source) / PAIRS_FILE
        return settings.is_file() and bool(read_settings(settings)["symmetric"])

    def require_order(self, name: str, kind: Kind | None, symmetric: bool | None) -> None:
        """Raises UserError for a set whose two sides may not be exchanged, where scores are the mean of both orders."""
        if self.symmetric and (sides := text_roles(kind, symmetric)):
            raise UserError(
                f"{name}: {sides} cannot be exchanged, and this cross-encoder scores the mean of both orders "
                "(symmetric: true in its crossencoder.json); leave the set out, or train one with symmetric=false"
            )

    def set(
        self,
        *,
        pooling: str | None,
        segments: bool | None,
        symmetric: bool | None,
        head_dropout: float | None = None,
    ) -> None:
        """Takes over what is not None. Raises UserError for segments that the encoder does not have."""
        if segments and not self.marks_segments:
            raise UserError(SEGMENTS_UNKNOWN)
        self.inner.pooling = pooling or self.inner.pooling
        self.segments = self.segments if segments is None else segments
        self.symmetric = self.symmetric if symmetric is None else symmetric
        self.dropout.p = self.dropout.p if head_dropout is None else head_dropout

    def with_head(self, grades: Sequence[float], *, seed: int) -> "CrossEncoder":
        """The same transformer under a new head, with a node for each grade."""
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
        """Whether the architecture and its tokenizer tell two sentences apart: of BERT they do, of RoBERTa neither."""
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
        """Logits in float32, also under autocast: rounded ones tie, and ties change ranks."""
        pooled = self.dropout(self.inner(tokens))
        with torch.autocast(pooled.device.type, enabled=False):
            return functional.linear(pooled.float(), self.head.weight.float(), self.head.bias.float())


def dropout_rate(architecture: PretrainedConfig) -> float:
    """The dropout of the transformer's layers, which the head shares unless told; 0 where the architecture has none."""
    rates = [getattr(architecture, name) for name in DROPOUTS if hasattr(architecture, name)]
    return float(rates[0]) if rates else 0.0
