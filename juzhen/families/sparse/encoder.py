"""SPLADE encoders, their saved folder, and the start of a new vocabulary head."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy import sparse
from torch import Tensor, nn
from transformers import AutoModelForMaskedLM, PreTrainedModel, PreTrainedTokenizerBase

from juzhen.core.atomic_write import write_text
from juzhen.core.batch import Batch, Tokens
from juzhen.core.columns import as_text, as_texts, as_vectors, described, require_finite
from juzhen.core.errors import UserError, check_count, require_choice
from juzhen.core.examples import Side
from juzhen.core.kinds import UNSCORED_BY_WEIGHTS
from juzhen.core.machine import open_device, warn_forked
from juzhen.core.progress import progress_bar
from juzhen.core.text import short
from juzhen.core.text_warnings import STRICT, reported
from juzhen.encoders.asymmetric import AsymmetricEncoder
from juzhen.encoders.backbone import evaluating, quiet
from juzhen.encoders.base_weights import around_same_weights, merged
from juzhen.encoders.chunks import note_read
from juzhen.encoders.components import num_positions, read_transformer
from juzhen.encoders.folder_settings import (
    LENGTH_FILE,
    ROUTER,
    SPARSE,
    naming,
    read_module,
    read_transformer_settings,
)
from juzhen.encoders.layout import MODULES_FILE, gives_weights, inside, read_chains, read_model_settings
from juzhen.encoders.masking import MaskedTokenHead
from juzhen.encoders.peer_options import takes_peer_options
from juzhen.encoders.pooled_encoder import PooledEncoder
from juzhen.encoders.prompts import PROMPTS_FILE, Prompts, prompts_of
from juzhen.encoders.resolve_path import encoder_folder, encoder_source, locate_folder
from juzhen.encoders.save import (
    HubMixin,
    card_text,
    save_tokenizer,
    write_model_settings,
    write_module_list,
    write_settings,
)
from juzhen.encoders.thresholds import ThresholdMixin, write_thresholds
from juzhen.encoders.tokens import BATCH_TOKENS, batches_by_length
from juzhen.evaluation.encoding_plan import NOTHING
from juzhen.families.family import AskingEncoders
from juzhen.families.late.family import MaxSimEvaluator, MaxSimPlan
from juzhen.families.sparse.vectors import ACTIVATIONS, POOLINGS, SparseVectors, pooled_texts

PACKAGE = "sentence_transformers"
TASK = {
    "transformer_task": "fill-mask",
    "modality_config": {"text": {"method": "forward", "method_output_name": "logits"}},
    "module_output_name": "token_embeddings",
}
"""Settings of sentence-transformers for a transformer with logits over its vocabulary."""

FOLDER = "1_SpladePooling"

ALONE = (
    "Save the route of documents as a model of its own, SparseEncoder(modules=[*model[0].sub_modules['document']]) of "
    "sentence-transformers, and load that"
)
WAYS_OUT = {
    "SparseAutoEncoder": (
        "For the dense embeddings before the SparseAutoEncoder take it out of this file, put SentenceTransformer for "
        f"model_type in {PROMPTS_FILE}, and load a SentenceEncoder"
    )
}
"""Unsupported module → the way out."""

USE = """```python
from juzhen import SparseEncoder

encoder = SparseEncoder.load("{place}")
scores = encoder.similarity(["怎么退货"], ["如何申请退款", "今天天气很好"])
encoder.decode(encoder.encode_document("如何申请退款"), top=10)  # [(token, weight), …]
```

A score is the dot product, any number from 0 on. sentence-transformers gives the same: `SparseEncoder("{place}")`.
"""


@dataclass(frozen=True)
class SparseLayout:
    """Path and settings of a sparse encoder.

    Args:
        transformer: Folder of the masked language model.
        pooling: max or sum over the tokens of a text.
        activation: Function of the logits before pooling.
        max_length: Tokens of a text. None if not set.
        prompts: Prompts by name.
    """

    transformer: Path
    pooling: str
    activation: str
    max_length: int | None
    prompts: Prompts = field(default_factory=Prompts)


def _read_sparse(folder: Path) -> SparseLayout:
    """Read the settings of `folder`. Raises UserError for settings that would give other vectors here."""
    with naming(f"{folder}: {MODULES_FILE} or {PROMPTS_FILE} cannot be understood"):
        settings, chains = read_model_settings(folder), read_chains(folder)
        if chains["query"] != chains["document"]:
            raise UserError(
                f"{folder / MODULES_FILE}: {ROUTER}: queries and documents are read alike here. {ALONE}"
            )
        modules = chains["document"]
        kinds = [module["type"].rpartition(".")[2] for module in modules]
        if kinds not in (["Transformer", "SpladePooling"], ["MLMTransformer", "SpladePooling"]):
            way_out = next((WAYS_OUT[kind] for kind in kinds if kind in WAYS_OUT), "Use another model")
            raise UserError(
                f"{folder / MODULES_FILE}: {', '.join(kinds)}: expected Transformer, SpladePooling of a sparse "
                f"encoder. {way_out}"
            )
        transformer, place = (inside(folder, module["path"]) for module in modules)
        pooling, text = read_module(place, kinds[1]), read_transformer_settings(transformer, SPARSE)
        if kinds[0] == "Transformer" and text.get("transformer_task") != TASK["transformer_task"]:
            raise UserError(
                f"{transformer}: a sparse encoder reads logits, transformer_task {TASK['transformer_task']}"
            )
    similarity = settings.get("similarity_fn_name") or "dot"
    if similarity != "dot" or settings.get("max_active_dims") is not None:
        name = "max_active_dims" if similarity == "dot" else "similarity_fn_name"
        raise UserError(
            f"{folder / PROMPTS_FILE}: {name} is {short(repr(settings[name]))}, but here all dimensions count, "
            "and texts are "
            "scored by their dot product. Write null to use the encoder so"
        )
    chosen = pooling.get("pooling_strategy", "max"), pooling.get("activation_function", "relu")
    if chosen[0] not in POOLINGS or chosen[1] not in ACTIVATIONS:
        raise UserError(
            f"{place}: {' and '.join(map(str, chosen))}. Expected one of {', '.join(POOLINGS)}, and of "
            f"{', '.join(ACTIVATIONS)}"
        )
    return SparseLayout(
        transformer, *chosen, text.get("max_length"), prompts_of(settings, folder / PROMPTS_FILE)
    )


def _write_sparse(encoder: Any, folder: Path, card: dict[str, Any], *, place: str) -> None:
    """Fill an empty folder with a `SparseEncoder`. The other arguments are those of `save_encoder`."""
    encoder.head.save(encoder.backbone, folder)
    save_tokenizer(encoder, folder)
    modules = (
        ("", f"{PACKAGE}.base.modules.transformer.Transformer"),
        (FOLDER, f"{PACKAGE}.sparse_encoder.modules.splade_pooling.SpladePooling"),
    )
    (folder / FOLDER).mkdir()
    rules = {"pooling_strategy": encoder.strategy, "activation_function": encoder.activation}
    settings = {"model_type": SPARSE, "similarity_fn_name": "dot"} | encoder.prompts.as_dict_of_sides()
    write_settings(folder / FOLDER / "config.json", rules | {"embedding_dimension": encoder.dim})
    write_module_list(folder, modules)
    write_model_settings(folder, settings)
    write_settings(folder / LENGTH_FILE, TASK)
    write_text(folder / "README.md", _card(encoder, card, place=place), in_own_folder=True)
    write_thresholds(folder, card)


def _card(encoder: Any, facts: dict[str, Any], *, place: str) -> str:
    features: dict[str, Any] = {
        "architecture": encoder.backbone.config.model_type,
        "tokens of the vocabulary": encoder.dim,
        "tokens of a text": encoder.max_length,
        "pooling": f"{encoder.strategy}, {encoder.activation}",
    }
    head = "library_name: sentence-transformers\ntags: [sparse-encoder, splade, juzhen]\n"
    summary = (
        "A sparse encoder (SPLADE) trained with juzhen: a weight for each token of the vocabulary, mostly 0."
    )
    use = USE.replace("{place}", place)
    return card_text(encoder.licence, "Sparse encoder", summary, features, facts, use, header=head)


LENGTH, MOST = 16, 2**15
"""Tokens of a random text, and of all random texts."""
RIDGE = 1e-3
INPUT, NAMED, SPREADS = 0.1, 4.0, 3.0


@torch.no_grad()
def _name_what_is_there(encoder: Any, *, seed: int) -> bool:
    """Set a new head of a `SparseEncoder` so that each token activates itself. Returns False if it cannot.

    A random head activates half of the vocabulary for any token, with meaningless weights. Heads like BERT's
    are a layer, a normalization and the token embeddings. The layer becomes a ridge regression. It maps the
    states of random tokens to the embeddings of these tokens, scaled to small numbers, where GELU is nearly
    linear. Scale and bias are set so that the token itself has the logit NAMED. 0 is SPREADS standard
    deviations above the others.
    """
    model = encoder.head.model
    table = model.get_output_embeddings()
    inner = [module for module in model.modules() if isinstance(module, nn.Linear) and module is not table]
    norms = [module for module in model.modules() if isinstance(module, nn.LayerNorm)]
    if len(inner) != 1 or len(norms) != 1 or table.bias is None or norms[0].weight is None:
        return False
    layer, norm = inner[0], norms[0]
    states, numbers, is_said = _states(encoder, seed=seed)
    rows = table.weight - table.weight.mean(dim=0)
    targets = INPUT * rows.shape[1] ** 0.5 * nn.functional.normalize(rows, dim=1)[numbers]
    targets[~is_said] = 0
    mean = states.mean(dim=0)
    centred = (states - mean).double()
    square = centred.T @ centred
    square.diagonal().add_(RIDGE * square.diagonal().mean())
    weight = torch.linalg.solve(square, centred.T @ targets.double()).float().T
    layer.weight.copy_(weight)
    if layer.bias is not None:
        layer.bias.copy_(targets.mean(dim=0) - weight @ mean)
    norm.weight.fill_(1)
    table.bias.fill_(0)
    some = is_said.nonzero().squeeze(1)[:512]
    logits = encoder.head(states[some])
    zero = logits.mean() + SPREADS * logits.std()
    scale = NAMED / (logits.gather(1, numbers[some, None]).median() - zero).clamp(min=1e-3)
    norm.weight.fill_(scale)
    table.bias.fill_(-scale * zero)
    return True


def _states(encoder: Any, *, seed: int) -> tuple[Float[Tensor, "tokens dim"], Int[Tensor, "tokens"], Tensor]:
    """States of texts of random tokens, their token numbers, and a mask without special tokens."""
    tokenizer, rng = encoder.tokenizer, np.random.default_rng(seed)
    ordinary = np.array(sorted({*tokenizer.get_vocab().values()} - {*tokenizer.all_special_ids}))
    drawn = np.resize(rng.permutation(ordinary), max(min(len(ordinary), MOST), LENGTH)).tolist()
    begin, end = (
        [number] if number is not None else []
        for number in (
            tokenizer.cls_token_id if tokenizer.cls_token_id is not None else tokenizer.bos_token_id,
            tokenizer.sep_token_id if tokenizer.sep_token_id is not None else tokenizer.eos_token_id,
        )
    )
    texts = [begin + drawn[start : start + LENGTH] + end for start in range(0, len(drawn), LENGTH)]
    states, numbers = [], []
    with evaluating(encoder):
        for start in range(0, len(texts), 64):
            tokens = encoder.collate(texts[start : start + 64])
            states.append(encoder.token_states(tokens).float())
            numbers.append(tokens.input_ids)
    found = torch.cat(numbers)
    return torch.cat(states), found, ~torch.isin(found, torch.tensor(tokenizer.all_special_ids))


NEW_HEAD = (
    "the encoder holds no head for masked tokens; a new one is trained, whose matrix is the table of tokens where the "
    "architecture ties the two"
)


class SparseEncoder(AsymmetricEncoder, ThresholdMixin, HubMixin, PooledEncoder):
    """backbone → head over the vocabulary → largest logit of each token → log(1 + relu), scored by dot product.

    (Formal et al. 2021, https://arxiv.org/abs/2109.10086)

    Training uses dense vectors (texts, vocabulary) of one step. Stored vectors are sparse.

    Args:
        backbone: The transformer, without its head.
        tokenizer: Its tokenizer.
        head: Of the masked language model.
        strategy: Pooling of the logits of a text's tokens, special tokens included: their maximum, or the sum
            of weights.
        activation: "relu": a logit x counts log(1 + relu(x)). "log1p_relu": the logarithm is taken twice.
        max_length: Most tokens of a text.
        prompts: Prompts by name.

    Example:
        >>> from juzhen.encoders import load_encoder
        >>> encoder = SparseEncoder.around(load_encoder("builtin/mini_zh"))  # not yet trained
        >>> encoder = SparseEncoder.load(encoder.save("saved"))
        >>> vectors = encoder.encode(["今天天气很好", "A dog."])
        >>> vectors.shape[0], sorted(token for token, weight in encoder.decode(vectors[:1], top=3))
        (2, ['▁今天', '今天', '天气'])
    """

    family: ClassVar[str] = "sparse"
    settable: ClassVar[tuple[str, ...]] = (
        "default_prompt_name",
        "max_length",
        "micro_batch_tokens",
        "prompt",
        "prompts",
        "tokenizer",
    )

    @takes_peer_options
    def __init__(
        self,
        backbone: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        head: MaskedTokenHead,
        *,
        strategy: str = "max",
        activation: str = "relu",
        max_length: int,
        prompts: Prompts = Prompts(),  # noqa: B008  # frozen
    ) -> None:
        require_choice("strategy", strategy, POOLINGS)
        require_choice("activation", activation, ACTIVATIONS)
        super().__init__(
            backbone,
            tokenizer,
            pooling="mean",
            normalize=False,
            max_length=max_length,
            projections=(),
            prompts=prompts,
        )
        self.head = head
        self.strategy, self.activation = strategy, activation

    @classmethod
    @takes_peer_options
    def around(
        cls, encoder: PooledEncoder, *, strategy: str = "max", activation: str = "relu", seed: int = 0
    ) -> Self:
        """Build a new encoder over the transformer of a sentence encoder, without pooling and projections.

        The weights of an adapter are merged. The head comes from the transformer's folder. Without one,
        a head is drawn with `seed` and set so that each token activates itself.

        Args:
            encoder: The sentence encoder. It is not changed, and shares its weights.
            strategy: "max" or "sum" over the tokens of a text.
            activation: "relu" or "log1p_relu".
            seed: Seed of a new head.

        Returns:
            The encoder.

        Raises:
            UserError: An architecture without such a head.
        """
        encoder = around_same_weights(merged(encoder))
        backbone = encoder.backbone
        if encoder.templates is not None:
            raise UserError(
                "this encoder reads sentences through templates, which a sparse encoder has none of"
            )
        if type(backbone.config) not in AutoModelForMaskedLM._model_mapping:
            raise UserError(
                f"{backbone.config.model_type}: transformers has no masked language model of this type. "
                "Choose another encoder, such as a BERT"
            )
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            head = MaskedTokenHead(backbone)
        made = cls(
            backbone,
            encoder.tokenizer,
            head,
            strategy=strategy,
            activation=activation,
            max_length=encoder.max_length,
            prompts=encoder.prompts,
        )
        if head.is_new:
            _name_what_is_there(made, seed=seed)
        made.licence = encoder.licence
        made.load_warnings = (*encoder.load_warnings, *((NEW_HEAD,) if head.is_new else ()))
        made._is_finished = True
        return made

    @classmethod
    @takes_peer_options
    def load(cls, source: str | Path, *, device: str | torch.device = "cpu") -> Self:
        """Load from a folder or a run, in float32 and in evaluation mode.

        Reads our format and that of a SparseEncoder of sentence-transformers.

        Args:
            source: A folder or a run.
            device: Device of the weights.

        Returns:
            The encoder.

        Raises:
            UserError: The source does not hold such an encoder.
        """
        place, folder = open_device(device), encoder_folder(encoder_source(source))
        if not gives_weights(folder):
            raise UserError(f"{source}: holds no sparse encoder. Load it with SentenceEncoder.load(…)")
        layout = _read_sparse(folder)
        backbone, tokenizer = read_transformer(layout.transformer, shown=str(source))
        with quiet():
            head = MaskedTokenHead(backbone)
        if head.is_new:
            raise UserError(f"{source}: its weights hold no head for masked tokens. Copy them again")
        limits = (num_positions(backbone), tokenizer.model_max_length, layout.max_length)
        encoder = cls(
            backbone,
            tokenizer,
            head,
            strategy=layout.pooling,
            activation=layout.activation,
            max_length=min(size for size in limits if size),
            prompts=layout.prompts,
        )
        return encoder._opened(source, folder, place)

    def write_files(self, folder: Path, card: dict[str, Any], place: str) -> None:
        """Fill an empty folder as `save` does. An adapter is merged into the weights.

        Args:
            folder: The empty folder.
            card: Facts for the README.
            place: Name of the encoder in the README.
        """
        _write_sparse(merged(self), folder, card, place=place)

    @property
    def dim(self) -> int:
        """Tokens of the vocabulary."""
        return int(self.head.model.config.get_text_config().vocab_size)

    @property
    def unpooled(self) -> int:
        """Tokens of a prompt count, as in sentence-transformers."""
        return 0

    @property
    def facts(self) -> str:
        prompts = [self.reading(side).prompt for side in (Side.QUERY, Side.DOCUMENT)]
        return f"{self.strategy} {self.activation} {prompts}"

    def pair_scores(
        self, first: Float[Tensor, "batch dim"], second: Float[Tensor, "batch dim"]
    ) -> Float[Tensor, "batch"]:
        """The dot product of each pair of vectors.

        Args:
            first: Vectors of the first texts, (batch, vocabulary).
            second: Vectors of the second texts.

        Returns:
            One score for each pair.
        """
        return (first.float() * second.float()).sum(dim=-1)

    def _pooled(self, layers: tuple[Tensor, ...], tokens: Tokens) -> Float[Tensor, "sentences vocabulary"]:
        return torch.cat(list(self._parts(layers[-1], tokens)))

    def _parts(self, states: Float[Tensor, "tokens dim"], tokens: Tokens) -> Iterable[Tensor]:
        return pooled_texts(
            self.head,
            states,
            tokens,
            vocabulary=self.dim,
            pooling=self.strategy,
            activation=self.activation,
        )

    def sparse_rows(self, tokens: Tokens) -> sparse.csr_array:
        """Vectors of the texts as collated, as the encoder is: on its device, with or without dropout.

        Args:
            tokens: Packed tokens, as from `collate`.

        Returns:
            Sparse array (texts, vocabulary).
        """
        rows = []
        for part in self._parts(self._layers(tokens)[-1], tokens):
            places = part.nonzero()
            values, (texts, numbers) = part[places[:, 0], places[:, 1]].cpu().numpy(), places.cpu().numpy().T
            ends = np.bincount(texts, minlength=len(part)).cumsum()
            starts = np.concatenate([[0], ends])
            rows.append(sparse.csr_array((values, numbers.astype(np.int32), starts), shape=tuple(part.shape)))
        return sparse.vstack(rows, format="csr")[tokens.inverse_permutation.cpu().numpy()]

    @takes_peer_options
    def encode(
        self,
        texts: str | Iterable[str],
        *,
        is_query: bool = False,
        batch_tokens: int = BATCH_TOKENS,
        show_progress: bool | None = None,
        strict: bool = False,
    ) -> sparse.csr_array:
        """Encode texts into sparse vectors, in the order of the texts.

        Args:
            texts: One text or several.
            is_query: The texts are queries. Only read if the encoder has a prompt for queries.
            batch_tokens: Tokens in a batch.
            show_progress: Show a progress bar. None: on a terminal.
            strict: Raise UserError for a text that would be truncated. False: one warning with the number of
                such texts.

        Returns:
            float32 (texts, vocabulary). For a single text an array with one row.

        Raises:
            UserError: A text that is empty or not a string.
        """
        sentences, _ = as_texts(texts)
        side = Side.QUERY if is_query else Side.DOCUMENT
        with reported(strict=strict, advice=STRICT):
            return self.vectors(list(sentences), side, batch_tokens, show_progress).table

    def vectors(
        self, texts: Sequence[str], side: Side, batch_tokens: int = BATCH_TOKENS, progress: bool | None = None
    ) -> SparseVectors:
        """Vectors of texts, read as queries or as documents.

        Args:
            texts: The texts.
            side: Read the texts as queries or as documents.
            batch_tokens: Tokens of a batch, padding included.
            progress: Progress bar. None shows it on a terminal once the work has taken some seconds.

        Returns:
            The vectors of all texts.
        """
        warn_forked()
        reader = self.reading(side)
        vectors, table = SparseVectors(len(texts), self.dim), reader.tokenize(texts)
        note_read(reader, texts, table)
        with progress_bar("encoding texts", len(texts), shown=progress) as advance:
            for rows in batches_by_length(table.lengths, batch_tokens=batch_tokens):
                found = reader.infer_sparse(reader.collate(table[rows]))
                require_finite(found.data, texts, owners=rows.repeat(np.diff(found.indptr)))
                vectors.take(rows, found)
                advance(len(rows))
        return vectors

    @torch.inference_mode()
    def infer_sparse(self, tokens: Tokens) -> sparse.csr_array:
        """Compute `sparse_rows` without dropout, on the device of the weights.

        Args:
            tokens: Packed tokens, as from `collate`.

        Returns:
            Sparse array (texts, vocabulary).
        """
        with evaluating(self):
            return self.sparse_rows(tokens.to(self.device))

    @takes_peer_options
    def decode(self, vectors: Any, top: int | None = 10) -> Any:
        """List the tokens of a vector with their weights, heaviest first.

        Args:
            vectors: (vocabulary,) or (texts, vocabulary), sparse or dense.
            top: At most this many tokens. None: all.

        Returns:
            A list of (token, weight). For several rows one such list for each row.

        Raises:
            UserError: `top` is below 1, or the vectors are not arrays with one number for each token.
        """
        if top is not None:
            check_count("top", top)
        given = vectors if sparse.issparse(vectors) else as_vectors(vectors)
        if given is None or given.ndim not in (1, 2):
            raise UserError(f"decode: got {described(vectors)}. Give what encode returns")
        if given.shape[-1] != self.dim:
            raise UserError(
                f"decode: {given.shape[-1]} numbers, and this encoder has {self.dim} tokens. Give what encode returns"
            )
        table = sparse.csr_array(given.reshape(-1, self.dim))
        if not np.isfinite(table.data).all():
            raise UserError("decode: the vectors hold NaN or infinity. Give what encode returns")
        words = []
        for row in range(table.shape[0]):
            numbers, weights = (
                values[table.indptr[row] : table.indptr[row + 1]] for values in (table.indices, table.data)
            )
            order = np.argsort(-weights, kind="stable")[:top]
            tokens = self.tokenizer.convert_ids_to_tokens(numbers[order].tolist())
            words.append(list(zip(tokens, weights[order].tolist(), strict=True)))
        return words[0] if len(words) == 1 else words

    @takes_peer_options
    def words(self, query: str, document: str, top: int | None = 10) -> list[tuple[str, float]]:
        """Shared tokens of a query and a document with their parts of the score, largest first.

        Args:
            query: The query.
            document: The document.
            top: Number of tokens. None: all.

        Returns:
            Pairs of token and part of the score.

        Raises:
            UserError: Texts that cannot be encoded.
        """
        with reported():
            asked, answer = as_text(query, "query"), as_text(document, "document")
            shared = self.encode_query(asked).multiply(self.encode_document(answer))
        return self.decode(shared, top)


def is_sparse(folder_or_run: str | Path) -> bool:
    """True if a run or a folder holds a sparse encoder.

    Args:
        folder_or_run: A missing folder is no error.

    Returns:
        False for a missing folder.
    """
    folder = locate_folder(str(folder_or_run))
    return folder is not None and any(gives_weights(path) for path in (folder, folder / "encoder"))


class SparsePlan(MaxSimPlan):
    """The plan of token vectors with sparse vectors, 8 bytes for each number above 0."""

    temperature = 1.0


class SparseEvaluator(MaxSimEvaluator):
    """A sparse encoder. Its outputs are the vectors. The plan keeps them."""

    unscored = UNSCORED_BY_WEIGHTS
    plan_type = SparsePlan
    encoder: SparseEncoder

    def _vectors(self, count: int) -> SparseVectors:
        return SparseVectors(count, self.encoder.dim)

    def output(self, batch: Batch) -> Float[Tensor, "batch one"]:
        if batch.task != NOTHING.name:
            vectors = self.encoder.sparse_rows(batch.tokens)
            columns = batch.columns["text"].cpu().numpy()
            self._plans[batch.task].take(batch.rows.cpu().numpy(), vectors[columns])
        return torch.zeros(len(batch), 1)


class SparseEncoders(AskingEncoders):
    """Encoders to a weight per token of the vocabulary. The first text of a row is the query."""

    unscored = SparseEvaluator.unscored
    described = "a sparse encoder"
    instead_of_export = "Copy its folder, which the SparseEncoder of sentence-transformers 6 opens"

    encoder_type = SparseEncoder
    evaluator_type = SparseEvaluator

    def holds(self, folder: Path) -> bool:
        return gives_weights(folder)
