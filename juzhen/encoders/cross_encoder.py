"""The cross-encoder itself: both sentences in one input → transformer → [CLS] or mean → head → logits."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional
from transformers import PretrainedConfig, PreTrainedModel

from juzhen.core.batch import Tokens
from juzhen.core.columns import as_column, as_pairs, as_text, as_text_list, side_by_side
from juzhen.core.contract import sorts_of_texts
from juzhen.core.devices import open_device
from juzhen.core.errors import UserError
from juzhen.core.examples import Kind
from juzhen.core.progress import progress_bar
from juzhen.core.threads import tell_of_fork
from juzhen.encoders.classifier import read_theirs
from juzhen.encoders.cross_encoder_input import PairTemplate, pack_joint
from juzhen.encoders.decision import Decides
from juzhen.encoders.grades import checked_grades, similarity
from juzhen.encoders.layout import PAIRS_FILE, inside
from juzhen.encoders.locate import (
    HEAD_FILE,
    download,
    encoder_folder,
    encoder_source,
    locate_folder,
    scores_pairs,
)
from juzhen.encoders.packing import use_cheap_dropout
from juzhen.encoders.parts import read_parts
from juzhen.encoders.projection import OutputLayer, load_projections
from juzhen.encoders.prompts import JOINT, prompt_refused
from juzhen.encoders.search import Hit, check_top_k
from juzhen.encoders.sentence_encoder import SentenceEncoder
from juzhen.encoders.settable import Settable, check_flag
from juzhen.encoders.settings_file import naming, read_settings
from juzhen.encoders.sharing import Shareable
from juzhen.encoders.spec import BackboneConfig
from juzhen.encoders.texts import BATCH_TOKENS, batches_by_length
from juzhen.encoders.token_table import TokenTable
from juzhen.encoders.transformer import DROPOUTS

SEGMENTS_UNKNOWN = (
    "segments=true: this encoder, or its tokenizer, does not tell two sentences apart by segments, as that of "
    "builtin/mini_zh does not; leave it at null"
)


class CrossEncoder(Decides, Shareable, Settable):
    """Logits of sentence pairs: one (a similarity), or one per class.

    inner     backbone, tokenizer and pooling ([CLS] or mean); its `dim` numbers go into the head
    outputs   1, or the number of classes
    segments  tokens of the second sentence are marked as such, where architecture and tokenizer have marks
    symmetric  `score` is the mean of both orders
    layers    what stands between the pooled state and the head; usually nothing
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
        grades: Sequence[float] | None = None,
    ) -> None:
        super().__init__()
        self.inner = inner
        if inner.prompt:
            raise prompt_refused(JOINT, inner.prompt)
        # An embedding's projections, length and score mean nothing to a head.
        inner.projections, inner.normalize, inner.score_head = nn.ModuleList(layers), False, None
        inner._serves_head = True
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
    def load(
        cls, source: str | Path, *, revision: str | None = None, device: str | torch.device = "cpu"
    ) -> "CrossEncoder":
        """The cross-encoder in a folder, of a run or of the hub, in float32, in evaluation mode.

        revision, device  as of `SentenceEncoder.load`

        Raises UserError when it is none, or files are broken.
        """
        place = open_device(device)
        path = encoder_source(source)
        folder = locate_folder(path) or download(path, revision)
        if not scores_pairs(folder):
            raise UserError(
                f"{source}: holds an encoder of single sentences and no {HEAD_FILE}: SentenceEncoder.load(…). Expected "
                "a run of a cross-encoder, or a cross-encoder of sentence-transformers"
            )
        if not (folder / HEAD_FILE).is_file():
            inner, layers, head = read_theirs(folder, path, revision)
            marks = inner.gives_segments
            encoder = cls(
                inner, outputs=head.out_features, segments=marks, symmetric=False, seed=0, layers=layers
            )
            encoder.head.load_state_dict(head.state_dict(), strict=False)
            return encoder.to(place).eval()
        with naming(f"{folder}: {PAIRS_FILE} and {HEAD_FILE} do not belong together"):
            settings = read_settings(folder / PAIRS_FILE)
            config = BackboneConfig(
                path=path, revision=revision, initialize="pretrained", pooling=settings["pooling"]
            )
            inner = SentenceEncoder.of(read_parts(config, seed=0))
            between = [inside(folder, name) for name in settings.get("layers", [])]
            layers = load_projections(between, width=inner.backbone.config.hidden_size, layer_norm=None)
            options = {name: settings[name] for name in ("outputs", "segments", "symmetric")}
            encoder = cls(inner, **options, seed=0, layers=layers, grades=settings.get("grades"))
            encoder.head.load_state_dict(load_file(folder / HEAD_FILE))
        encoder._is_loaded_from(folder)
        return encoder.to(place).eval()

    @staticmethod
    def saved_as_symmetric(source: str | Path) -> bool:
        """Whether a run or a folder, which holds a cross-encoder, says that scores are the mean of both orders."""
        settings = encoder_folder(source) / PAIRS_FILE
        return settings.is_file() and bool(read_settings(settings)["symmetric"])

    def require_order(self, name: str, kind: Kind | None, symmetric: bool | None) -> None:
        """Raises UserError for a set whose two sides may not be exchanged, where scores are the mean of both orders."""
        if self.symmetric and (sides := sorts_of_texts(kind, symmetric)):
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
        )

    @property
    def marks_segments(self) -> bool:
        """Whether the architecture and its tokenizer tell two sentences apart: of BERT they do, of RoBERTa neither."""
        has_types = self.inner.takes_segments and getattr(self.backbone.config, "type_vocab_size", 0) > 1
        return has_types and self.template.marks

    @property
    def backbone(self) -> PreTrainedModel:
        return self.inner.backbone

    @property
    def remarks(self) -> tuple[str, ...]:
        return self.inner.remarks

    @property
    def dim(self) -> int:
        return self.inner.dim

    @property
    def outputs(self) -> int:
        return self.head.out_features

    def forward(self, tokens: Tokens) -> Float[Tensor, "pairs outputs"]:
        """Logits in float32, also under autocast: rounded ones tie, and ties change ranks."""
        pooled = self.dropout(self.inner(tokens))
        with torch.autocast(pooled.device.type, enabled=False):
            return functional.linear(pooled.float(), self.head.weight.float(), self.head.bias.float())

    def join(self, first: TokenTable, second: TokenTable) -> Tokens:
        """Packed joint inputs of sentences that were tokenised alone."""
        ids, segments = self.template.join(first, second, max_length=self.inner.max_length)
        budget = self.inner.micro_batch_tokens
        return pack_joint(ids, segments if self.segments else None, max_group_tokens=budget)

    def room(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Tokens of the joint inputs of sentences of these lengths."""
        counts = self.template.lengths(first, second, max_length=self.inner.max_length)
        return counts[0] + counts[1] + self.template.num_special

    def score(
        self,
        pairs: Iterable[tuple[str, str]] | tuple[str, str] | str | Iterable[str],
        second: str | Iterable[str] | None = None,
        /,
        *,
        batch_tokens: int = BATCH_TOKENS,
        show_progress: bool | None = None,
    ) -> Float[np.ndarray, "*pairs"]:
        """`similarity` of the pairs in their order, float32; of one pair a number.

        `score("a", "b")`, `score(firsts, seconds)`: the two sides apart.

        show_progress  a bar; None: on a terminal, once the work has taken some seconds

        Raises UserError for what is no pair of texts, and for a text that is empty.
        """
        first, second, is_one = as_pairs(side_by_side(pairs, second))
        logits = self.logits(first, second, batch_tokens=batch_tokens, show_progress=show_progress)
        scores = similarity(torch.from_numpy(logits), self.grades).numpy()
        return scores[0] if is_one else scores

    def rank(
        self,
        query: str,
        documents: Iterable[str],
        top_k: int | None = None,
        *,
        among: Iterable[int] | None = None,
        **options: Any,
    ) -> list[Hit]:
        """The documents by their `score` with the query, best first; of equal scores the lower number comes first.

        top_k  how many are given; None: all
        among  numbers of the documents that are read, such as those that `SentenceEncoder.search` has found; None: all

        Options and errors: as `score`. Raises UserError for a number that is no document, and for more than there are.
        """
        question, texts = as_text(query, "query"), as_text_list(documents, "documents")
        chosen = range(len(texts)) if among is None else as_column(among, "among")
        for number in chosen:
            is_whole = isinstance(number, int | np.integer) and not isinstance(number, bool)
            if not is_whole or not 0 <= number < len(texts):
                raise UserError(f"among: {number} is no number of a document; expected 0 to {len(texts) - 1}")
        numbers = sorted({int(number) for number in chosen})
        check_top_k(len(numbers) if top_k is None else top_k, len(numbers))
        scores = self.score([(question, texts[number]) for number in numbers], **options)
        order = np.argsort(-scores, kind="stable")[:top_k]
        return [Hit(numbers[rank], float(scores[rank])) for rank in order.tolist()]

    @torch.no_grad()
    def logits(
        self,
        first: Sequence[str],
        second: Sequence[str],
        *,
        batch_tokens: int = BATCH_TOKENS,
        show_progress: bool | None = None,
    ) -> Float[np.ndarray, "pairs outputs"]:
        """Logits of the pairs in their order, float32, without dropout; the mean of both orders if `symmetric`.

        Raises UserError for a text that is empty or no string.
        """
        first, second = as_text_list(first, "first"), as_text_list(second, "second")
        if len(first) != len(second):
            raise UserError(
                f"{len(first)} first texts and {len(second)} second ones: expected as many of each"
            )
        tell_of_fork()
        table = self.inner.tokenize([*first, *second], progress=show_progress)
        sides = np.arange(len(first)), np.arange(len(first), 2 * len(first))
        orders = [sides, sides[::-1]] if self.symmetric else [sides]
        lengths = self.room(table.lengths[sides[0]], table.lengths[sides[1]])
        logits = np.empty((len(first), self.outputs), dtype=np.float32)
        was_training, device = self.training, self.head.weight.device
        self.eval()
        try:
            with progress_bar("scoring pairs", len(first), shown=show_progress) as advance:
                for rows in batches_by_length(lengths, batch_tokens=batch_tokens):
                    parts = [self(self.join(table[a[rows]], table[b[rows]]).to(device)) for a, b in orders]
                    logits[rows] = torch.stack(parts).mean(dim=0).cpu().numpy()
                    advance(len(rows))
        finally:
            self.train(was_training)
        return logits


def dropout_rate(architecture: PretrainedConfig) -> float:
    """The dropout of the transformer's layers, which the head shares unless told; 0 where the architecture has none."""
    rates = [getattr(architecture, name) for name in DROPOUTS if hasattr(architecture, name)]
    return float(rates[0]) if rates else 0.0
