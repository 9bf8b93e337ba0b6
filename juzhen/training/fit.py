"""Fine-tuning in plain PyTorch: `fit`. Its steps equal those of `train.py`, for one set on one device."""

import inspect
import re
import sys
import warnings
from collections.abc import Mapping
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

import juzhen.losses
from juzhen.core.aliases import option_meant, plain
from juzhen.core.batch import Batch, Sharing, row_tensors
from juzhen.core.errors import UserError, nearest, require_choice, require_number
from juzhen.core.examples import NLI_CLASSES, Examples, Kind
from juzhen.core.kinds import UNSCORED, choose_conversion, chooses, metric_title
from juzhen.core.lazy_names import offered
from juzhen.core.machine import open_device
from juzhen.core.paths import is_table
from juzhen.core.progress import progress_bar
from juzhen.core.schema import validated
from juzhen.core.text import counted
from juzhen.core.text_warnings import caller_level, reported
from juzhen.data.convert import convert_rows
from juzhen.data.leaks.matching import SeenRows, letters_only, normalize, pair_columns, used_sentences
from juzhen.data.rows import Rows, as_examples
from juzhen.data.sampler import BatchStream
from juzhen.encoders.backbone_config import AdapterConfig
from juzhen.encoders.chunks import truncated_sentences
from juzhen.encoders.collate import SentenceCollator
from juzhen.encoders.peer_options import takes_peer_options
from juzhen.encoders.sentence_encoder import PromptEncoder, SentenceEncoder
from juzhen.encoders.tokens import CachedTokenizer, characters
from juzhen.evaluation.run import EvaluationRun, class_tasks, rows_to_score
from juzhen.evaluation.scoring import Evaluation
from juzhen.evaluation.settings import EvaluationSettings
from juzhen.losses.arguments import Count
from juzhen.losses.loss import Loss
from juzhen.losses.matryoshka import Nested
from juzhen.training.optimizer import DECAYS, adamw, learning_rates

PROVIDES = ("scores", "cosines", "embeddings", "layers", "lists")
"""What a bi-encoder gives to a loss; others want a teacher, a guide or logits."""

OPTIONS = {
    "bce": "BinaryCrossEntropy",
    "ce_mse": "CrossEntropyError",
    "cosent_bce": "CoSENTAndBCE",
    "cosent_softmax": "CoSENTAndSoftmax",
    "cosine": "CosineSimilarity",
    "mse": "SquaredError",
    "mse_signed": "SquaredErrorSigned",
    "p_list_mle": "PositionListMLE",
    "text_softmax": "TextClassifier",
    "triplet": "TripletMargin",
    "triplet_batch_all": "BatchAllTriplet",
    "triplet_soft_margin": "SoftMarginTriplet",
}
"""Option of the suite → class of another name."""

LOOKED_AT = 20_000
"""Rows in which truncated texts and unknown characters are counted before the first step."""


@takes_peer_options
def fit(
    encoder: SentenceEncoder | str | Path,
    rows: Rows,
    *,
    loss: Loss | type[Loss] | str = "cosent",
    epochs: float = 3.0,
    batch_size: int = 64,
    learning_rate: float = 2e-5,
    warmup: float = 0.1,
    decay: str = "linear",
    weight_decay: float = 0.01,
    clip_norm: float | None = 1.0,
    layer_decay: float | None = None,
    adapter: AdapterConfig | Literal["lora", "dora"] | None = None,
    seed: int = 42,
    device: str | torch.device = "cpu",
    bf16: bool = False,
    dev: Rows | None = None,
    columns: Mapping[str, str | int] | None = None,
    sheet: str | int | None = None,
    on_bad_row: str = "error",
    score_range: tuple[float, float] = (0.0, 1.0),
    progress: bool | None = None,
) -> SentenceEncoder:
    """Fine-tune a bi-encoder in place.

    Args:
        encoder: A loaded encoder, or anything `SentenceEncoder.load` takes.
        rows: Rows for `juzhen.data.rows.as_examples`: tuples or dicts, a DataFrame or another table, a file, the
            name of a set, or Examples. Truncated texts and unknown characters are counted in at most 20,000 of them.
        loss: A loss of `juzhen.losses`: an object, a class or a name. Name a loss with a head, so that it gets its
            size.
        epochs: Passes over the rows.
        batch_size: Rows of a step.
        learning_rate: Highest learning rate, of AdamW.
        warmup: Share of steps in which the learning rate rises from 0.
        decay: Learning rate after warm-up: linear (to 0), constant or inverse_sqrt.
        weight_decay: Weight decay of AdamW.
        clip_norm: Largest norm of a step's gradient. None does not clip.
        layer_decay: Learning rate of a layer relative to the layer above, as in `adamw`. Default: equal rates.
        adapter: Train a low-rank adapter only (peft). Default: all weights, or the encoder's own adapter.
        seed: Seed of row order, dropout and new weights.
        device: Where to train.
        bf16: Compute in bfloat16, with weights in float32.
        dev: Score these rows before training and after each epoch, and keep the best weights. Default: keep the last.
            `encoder.fit_scores` has the scores, `encoder.threshold()` and `is_same` use the fitted threshold.
        columns: Column name of each role, of `rows` and `dev`, as in `as_examples`.
        sheet: Sheet of an Excel file. None: the first one.
        on_bad_row: error, or drop to leave faulty rows out.
        score_range: Lowest and highest gold score. They are mapped to 0 and 1.
        progress: Show a progress bar. Default: on a terminal only.

    Returns:
        The encoder in evaluation mode.

    Raises:
        UserError: An unknown loss, a loss that cannot learn from such rows, or a number outside its range.

    Example:
        >>> from juzhen import SentenceEncoder, fit
        >>> encoder = fit("builtin/mini_zh", [("怎么退货", "东西想退掉", 1), ("怎么退货", "何时发货", 0)], epochs=1)
    """
    require_number("epochs", epochs, 0, 1e6, open_low=True)
    batch_size = validated(Count, batch_size, "batch_size")
    seed = validated(Annotated[int, Field(ge=0, lt=2**63)], seed, "seed")
    require_number("learning_rate", learning_rate, 0, 1)
    require_number("warmup", warmup, 0, 1)
    require_number("weight_decay", weight_decay, 0, 1e3)
    require_number("clip_norm", clip_norm, 1e-6, optional=True)
    require_number("layer_decay", layer_decay, 0, 1, open_low=True, optional=True)
    require_choice("decay", decay, DECAYS)
    if loss is None:
        raise UserError("loss=None: expected a loss. Leave it out for cosent, or type loss='info_nce'.")
    if not isinstance(loss, str | Loss) and not (isinstance(loss, type) and issubclass(loss, Loss)):
        got = loss.__name__ if isinstance(loss, type) else type(loss).__name__
        ours = named_loss(got).__name__  # refuses unknown names, with ours for names of other libraries
        raise UserError(f"loss={got}: a class of another library. Type loss={ours!r}.")
    kind = named_loss(loss) if isinstance(loss, str) else loss
    device = open_device(device)
    if adapter is not None and not isinstance(adapter, AdapterConfig):
        require_choice("adapter", adapter, ("lora", "dora"))
    if not isinstance(encoder, SentenceEncoder):
        encoder = SentenceEncoder.load(encoder)
    if isinstance(encoder, PromptEncoder):
        raise UserError(
            "an encoder that reads sentences through templates is trained by the suite, not by fit"
        )
    reading: dict[str, Any] = {"columns": columns, "sheet": sheet, "on_bad_row": on_bad_row}
    reading["score_range"] = score_range
    for_file = [isinstance(each, str | Path) and is_table(each) for each in (rows, dev)]
    read_rows = as_examples(rows, **reading | {"sheet": sheet if for_file[0] or not for_file[1] else None})
    name = kind.__name__ if isinstance(kind, type) else type(kind).__name__
    if kind.input_type not in PROVIDES:
        raise UserError(
            f"{name} reads {kind.input_type}. A bi-encoder with its rows gives {', '.join(PROVIDES)}"
        )
    view = choose_conversion(
        read_rows.name, read_rows.kind, name, kind.input_kinds, alternatives=_kinds_of_losses
    )
    if kind.needs_teacher_scores and read_rows.teacher_scores is None:
        raise UserError(
            f"loss={name}: {read_rows.name} has no scores of a teacher. Give a set that `juzhen distill` wrote, or "
            "choose loss=info_nce."
        )
    examples = convert_rows(read_rows, view)
    best = None
    if dev is not None:
        is_read = not isinstance(dev, Examples) and (not isinstance(dev, str | Path) or for_file[1])
        try:
            unread = {} if is_read else {"columns": None, "score_range": (0.0, 1.0)}
            of_dev = reading | unread | ({} if for_file[1] else {"sheet": None})
            best = _Best(encoder, rows_to_score(dev, **of_dev))
        except UserError as error:
            raise UserError(re.sub(r"^rows\b", "dev", str(error))) from error
    torch.manual_seed(seed)
    classes = len(NLI_CLASSES) if examples.kind is Kind.NLI_PAIR else examples.num_classes
    sizes: dict[str, Any] = {"dim": encoder.dim, "num_classes": classes} if kind.has_parameters else {}
    for size in sizes:
        if isinstance(kind, Loss) and getattr(kind, size, sizes[size]) != sizes[size]:
            raise UserError(
                f"loss={name}: its {size} is {getattr(kind, size)}, and {sizes[size]} are needed here. Give the class, "
                f"loss={name}, so that it gets its size"
            )
    criterion = kind if isinstance(kind, Loss) else kind(**sizes)
    criterion.require_equal_lists(examples, f"loss={name}")
    nested = [part.dims_of(encoder.dim) for part in criterion.modules() if isinstance(part, Nested)]
    # From here on the encoder changes. A call that is refused before leaves it as it was.
    if adapter is not None:
        config = AdapterConfig(kind=adapter) if isinstance(adapter, str) else adapter
        offered("adapters", "add")(encoder.backbone, config, seed=seed)
    learner = nn.ModuleList([criterion, encoder]).to(device).train()
    encoder.nested_dims = nested[0] if nested else ()

    tokenize = CachedTokenizer(encoder, None, progress=False)
    sharing = {examples.name: Sharing.COLUMN if criterion.needs_two_views else Sharing.BATCH}
    collate = SentenceCollator(tokenize, encoder.collate, sharing=sharing, sides=tokenize, on_demand=True)
    stream = BatchStream({examples.name: len(examples)}, batch_size=batch_size, num_batches=0, seed=seed)
    stream.num_batches = max(round(epochs * stream.batches_per_epoch), 1)
    optimizer = adamw(learner, lr=learning_rate, weight_decay=weight_decay, layer_decay=layer_decay)
    warmup_steps = max(round(warmup * stream.num_batches), 1) if warmup else 0
    rates = learning_rates(optimizer, decay, total_steps=stream.num_batches, warmup_steps=warmup_steps)
    rounded = torch.autocast(device.type, torch.bfloat16) if bf16 else nullcontext()
    if best is not None:
        best.before = best.after = best.scored()
    if best is not None and (shared := _num_seen(best.dev, read_rows)):
        warnings.warn(
            f"dev: {counted(shared, 'rows')} also in the training rows, or nearly equal to one, which flatters. "
            "Give others.",
            stacklevel=caller_level(),
        )
    with reported() as seen:
        for each in (examples, *(() if best is None else (best.dev,))):
            looked_at = each.select(np.arange(0, len(each), -(-len(each) // LOOKED_AT)))
            cut = truncated_sentences(encoder, looked_at, collate.token_counts(looked_at))
            seen.add(cut.unit, cut.max_length, cut.cut, cut.looked_at)
            numbers = np.unique(np.stack(list(looked_at.columns.values())))
            texts = [each.sentences[number] for number in numbers.tolist()]
            read = collate.read_sentences(looked_at)
            characters_of = partial(characters, encoder.tokenizer)
            seen.read(encoder.tokenizer, texts, read.is_unknown[numbers], read.codes[numbers], characters_of)
    encoder.keep_fit(None, {})  # what was fitted to other weights no longer holds
    learner.to(device)  # an evaluation puts the encoder where it computes
    idle = 0
    before = _sample(learner)
    with progress_bar("training", stream.num_batches, shown=progress) as advance:
        for step in stream:
            batch = collate.training_batch(examples, step.rows, index=step.number).to(device)
            with rounded:
                reads = read_by(criterion, encoder, batch)
                again = {"again": read_by(criterion, encoder, batch)} if criterion.needs_two_passes else {}
                value, _ = criterion.with_logs(**reads, **again)
            optimizer.zero_grad()
            value.backward()
            # Of rows that do not differ gradients are 0, and momentum and decay alone would move the weights.
            if criterion.has_contrast(examples, step.rows):
                if clip_norm is not None:
                    nn.utils.clip_grad_norm_(learner.parameters(), clip_norm)
                optimizer.step()
            else:
                idle += 1
            with warnings.catch_warnings():  # rates follow the batches, also those without an optimizer step
                warnings.filterwarnings("ignore", message="Detected call of `lr_scheduler")
                rates.step()
            advance(1)
            is_last = step.number + 1 == stream.num_batches
            if best is not None and (is_last or (step.number + 1) % stream.batches_per_epoch == 0):
                best.look()
                learner.to(device)  # an evaluation puts the encoder where it computes
    optimizer.zero_grad()  # gradients would take as much memory as the weights
    encoder.eval()
    if best is not None:
        best.take()
    if not all(bool(values.isfinite().all()) for values in encoder.parameters()):
        raise UserError(
            f"learning_rate={learning_rate:g}: weights became NaN or infinite. Choose a lower one, and load the "
            "encoder again."
        )
    is_same = torch.equal(before, _sample(learner))
    if note := _idle_note(stream.num_batches, idle, is_same, f"loss={name}", learning_rate):
        warnings.warn(note, stacklevel=caller_level())
    if best is not None and progress is not False:
        print(encoder.fit_scores, file=sys.stderr)
    return encoder


def _num_seen(dev: Examples, train: Examples) -> int:
    """Number of dev rows with a pair or a text of the training rows, as the leak filter compares them."""
    if pair_columns(dev) and pair_columns(train):
        account = SeenRows([dev])
        account.learn({train.name: train})
        return sum(len(seen.rows) for seen in account.seen().values())
    texts, learnt = (
        [letters_only(normalize(text)) for text in used_sentences(rows)] for rows in (dev, train)
    )
    return 0 if pair_columns(dev) or pair_columns(train) else len({*texts} & {*learnt})


def _sample(learner: nn.Module) -> Tensor:
    """A few numbers of each trained tensor, to notice a training that changes none."""
    learnt = (values.detach().flatten()[:64] for values in learner.parameters() if values.requires_grad)
    return torch.cat([values.float().cpu() for values in learnt])


def _idle_note(batches: int, idle: int, is_same: bool, said: str, learning_rate: float) -> str:
    """Describe batches that changed no weight. "" if all did, but for the first one of a warm-up."""
    if idle:
        return (
            f"{said}: {idle:,} of {batches:,} batches changed no weight, because their rows do not differ in what the "
            "loss compares. Give rows of other labels or texts, or a larger batch_size."
        )
    if not is_same or not learning_rate:
        return ""
    if batches == 1:
        return "epochs: one batch, in the warm-up from 0, changed no weight. Give more epochs, or warmup=0."
    return f"learning_rate={learning_rate:g}: training changed no weight. Choose a higher one."


@dataclass(frozen=True)
class FitScores:
    """Dev scores of a `fit`, before and after. Printed by their main metric.

    Args:
        before, after: Scores with the initial weights and the kept weights.
        metric: Key of the score that selected them, such as dev/faq/recall_at_1.
    """

    before: Evaluation
    after: Evaluation
    metric: str

    def __str__(self) -> str:
        column, _, metric = self.metric.rpartition("/")
        before, after = (found.scores[self.metric] for found in (self.before, self.after))
        texts = ["undefined" if score.value is None else f"{score.value:.4f}" for score in (before, after)]
        ends = "" if after.low is None or after.high is None else f" [{after.low:.4f}, {after.high:.4f}]"
        line = f"{column}: {metric_title(metric)} {' → '.join(texts)}{ends}, n = {after.count:,}"
        found = [
            threshold.value for threshold in self.after.thresholds.values() if threshold.value is not None
        ]
        return line + "".join(f"; same from {value:.4f} on" for value in found)


class _Best:
    """The weights with the highest dev score, by the default metric for the kind of its rows.

    Raises UserError for rows without such a metric.
    """

    def __init__(self, encoder: SentenceEncoder, dev: Examples) -> None:
        metric = chooses(dev.kind)
        if metric is None:
            raise UserError(
                f"dev={dev.name}: {UNSCORED[dev.kind]}. Give pairs, triplets, or texts with a class."
            )
        self.encoder, self.dev, self.metric = encoder, replace(dev, split="dev"), f"dev/{dev.name}/{metric}"
        self.tasks = class_tasks([self.dev], by_means=True)
        self.before: Evaluation
        self.after: Evaluation
        self.score = -np.inf
        self.weights: dict[str, Tensor] | None = None

    def scored(self) -> Evaluation:
        found, _ = EvaluationRun(self.encoder, EvaluationSettings())([self.dev], self.tasks, seen={})
        return found

    def look(self) -> None:
        found = self.scored()
        value = found.scores[self.metric].value
        if value is not None and value > self.score:
            self.score, self.weights, self.after = value, deepcopy(self.encoder.state_dict()), found
        elif self.weights is None:
            self.after = found

    def take(self) -> None:
        """Load the best weights, scores and thresholds into the encoder."""
        if self.weights is not None:
            self.encoder.load_state_dict(self.weights)
        self.encoder.keep_fit(
            FitScores(self.before, self.after, self.metric),
            {name: threshold.value for name, threshold in self.after.thresholds.items()},
        )


def read_by(loss: Loss, encoder: SentenceEncoder, batch: Batch) -> dict[str, Tensor]:
    """Return the batch values that a loss reads, by the names in `juzhen.core.batch`.

    Args:
        loss: Names the tensors that it reads in `inputs`, and the layers in `depths`.
        encoder: Computes embeddings, states of layers and pair scores, with gradients.
        batch: Token numbers and gold values of some rows, on the encoder's device.

    Returns:
        Name → tensor. The first axis is the rows of the batch. Names that this batch lacks are absent, such as
        negatives without mined ones.
    """
    layers: list[Tensor] = []
    if loss.depths:
        embeddings, layers = encoder.at_depths(
            batch.tokens, loss.depths, finished="layer_embeddings" in loss.inputs
        )
    else:
        embeddings = encoder(batch.tokens)
    tensors = row_tensors(batch, embeddings, encoder.pair_scores, reads=loss.inputs, layers=layers)
    return {name: tensors[name] for name in loss.inputs if name in tensors}


def named_loss(name: str) -> type[Loss]:
    """Return the class in `juzhen.losses` with this name in any spelling: cosent, CoSENT, info_nce, or an option of
    `loss=`.

    Args:
        name: Upper and lower case, `_` and `-` make no difference.

    Returns:
        The class, not an instance. Its options have their defaults.

    Raises:
        UserError: An unknown name. The message has the nearest one.
    """
    kinds = _losses()
    names = {plain(each).removesuffix("classifier"): kind for each, kind in kinds.items()}
    names |= {plain(option): kinds[each] for option, each in OPTIONS.items()}
    if plain(name) in names:
        return names[plain(name)]
    words, note, difference = (option_meant("loss", name) or "").partition(" (")
    meant = words.removeprefix("loss=")
    known = [*OPTIONS, *(each.lower() for each in kinds if each not in OPTIONS.values())]
    hint = f"Type this in a job of train.py: {words}" if words else nearest(name.lower(), known)
    hint = (f"Type loss={meant!r}" if plain(meant) in names else hint) + note + difference
    raise UserError(f"loss={name}: unknown loss. {hint}")


def _kinds_of_losses() -> dict[str, tuple[Kind, ...]]:
    return {name: kind.input_kinds for name, kind in _losses().items()}


def _losses() -> dict[str, type[Loss]]:
    """Return name → class of every loss for a bi-encoder."""
    members = {name: getattr(juzhen.losses, name) for name in dir(juzhen.losses)}
    return {
        name: kind
        for name, kind in members.items()
        if isinstance(kind, type) and issubclass(kind, Loss) and not inspect.isabstract(kind)
        if getattr(kind, "input_type", None) in PROVIDES and kind.input_kinds
    }
