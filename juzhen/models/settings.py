"""Settings of models: the keys of each model of the inner ring, and the keys of a job that it reads. Needs no torch.

Settings of an outer model are in a separate file. The first part reads any model or loss of a configuration:
`_target_`, name and parameters.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

from juzhen.core.kinds import UNSCORED, UNSCORED_BY_BM25, UNSCORED_BY_PAIRS, Kind

BY_KIND = "by_kind"

INNER = "of"
"""Key of the wrapped loss."""

WITHOUT_BATCH = {"info_nce": "info_nce_own"}
"""Loss → the same loss over a row's own negatives, for sets with `learning.in_batch: false`."""

LATER_NUMBERS: Mapping[str, Mapping[str, Any]] = {
    "lambda_loss": {"weighting_scheme": "ndcg_loss2pp", "k": None, "graded": False},
    "info_nce_guided": {"relative_margin": 0},
}
"""Loss → numbers that losses of earlier versions lacked, at which they compute what they did then.

They are in the digest of a stage, and not in the key of a run and its row.
"""

OFF: Mapping[str, Mapping[str, Any]] = {"softmax": {"label_smoothing": 0}}
"""Loss → such numbers that are in neither."""


def without_later_numbers(node: Mapping[str, Any]) -> dict[str, Any]:
    """Copy losses without their `LATER_NUMBERS`, so that runs of earlier versions keep their keys.

    Args:
        node: Settings at any depth. They are not changed.

    Returns:
        A copy.
    """
    later = LATER_NUMBERS.get(str(node.get("name")), {}) if "_target_" in node else {}
    kept = without(node, later).items()
    return {key: without_later_numbers(one) if isinstance(one, Mapping) else one for key, one in kept}


def without(settings: Mapping[str, Any], later: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out the keys that have the value which older runs had without them.

    Args:
        settings: Plain settings. They are not changed.
        later: Key → that value.

    Returns:
        A copy.
    """
    return {key: value for key, value in settings.items() if key not in later or value != later[key]}


def name_of(node: Mapping[str, Any]) -> str:
    """Return the name of a model or loss. For a table of losses by example kind it is `by_kind`.

    Settings without a name have that of their class's module: lightning_modules.cot.CotEncoder → cot.

    Args:
        node: Settings with `_target_`, or a table of losses.

    Returns:
        Such as "info_nce".
    """
    target = node.get("_target_")
    if not target:
        return BY_KIND
    return str(node.get("name") or ".".join(["", target]).split(".")[-2])


def numbers_of(node: Mapping[str, Any]) -> dict[str, Any]:
    """Return the constructor arguments of a model or loss.

    Args:
        node: Settings of the model or loss.

    Returns:
        A copy without `_target_` and `name`.
    """
    return {key: value for key, value in node.items() if key not in ("_target_", "name")}


def class_of(node: Mapping[str, Any]) -> str:
    """Return the class name without its module. "" without a class.

    Args:
        node: Settings of a model, with `_target_` or without.

    Returns:
        Such as "CotEncoder".
    """
    return str(node.get("_target_", "")).rpartition(".")[2]


def _loss_names(job: Mapping[str, Any]) -> set[str]:
    """Return the names of all losses of a composed job, its stages and its sets, with wrapped losses."""
    schedule = job.get("schedule")
    schedule = schedule if isinstance(schedule, Mapping) else {}
    owners = [job, *(schedule.get("stages") or {}).values(), *(schedule.get("sets") or {}).values()]
    losses = [owner["loss"] for owner in owners if isinstance(owner, Mapping) and owner.get("loss")]
    nodes = [node for loss in losses for node in ([loss] if "_target_" in loss else loss.values())]
    return {name for node in nodes if isinstance(node, Mapping) for name in _names_within(node)}


def _names_within(loss: Mapping[str, Any]) -> Iterator[str]:
    yield name_of(loss)
    if isinstance(loss.get(INNER), Mapping):
        yield from _names_within(loss[INNER])


GONE, AS_IT_IS = object(), object()
"""What stands for an unread key in the key of a run and in its row: nothing; its value, for what only speaks to
people, or could not be typed."""

Job = Mapping[str, Any]
"""A composed configuration in plain containers, new or stored in a result."""


class Unread(NamedTuple):
    """A key, or a group of keys, that a job does not read.

    Attributes:
        instead: Replaces the value in the key of the run and in its row.
        why: The reason, and the way out. `{key}` is the key.
        but: Keys below it that are read.
        in_stages: The same keys of a stage or of a set are unread, too.
    """

    instead: Any
    why: str
    but: tuple[str, ...] = ()
    in_stages: bool = True


POOLED: Mapping[str, Any] = {
    "backbone.pooling": "mean",
    "backbone.normalize": False,
    "backbone.layer_norm": None,
    "backbone.include_prompt": None,
}
"""Keys of pooling → their value without pooling."""

EMBEDDED: Mapping[str, Any] = {
    "evaluation.backend": "torch",
    "evaluation.cache_embeddings": False,
    "evaluation.transfer": GONE,
    "evaluation.clusterings": GONE,
}
"""Keys of text embeddings → their value without embeddings."""

CHOSEN: Mapping[str, Any] = {
    **POOLED,
    **EMBEDDED,
    "backbone.prompts": None,
    "backbone.default_prompt_name": None,
    "backbone.attention": None,
    "training.share_sentences": True,
    "loss": GONE,
    "schedule.sets.*.loss": GONE,
    "dataset.*.grades": GONE,
}
"""Keys of a job that only some models read → their value for other models."""

SIZED_VIEWS = {
    "delete": 0.1,
    "repeat": 0.2,
    "cutoff": 0.2,
    "shuffle": 4,
    "synonym": 0.3,
    "translations": None,
}
"""Key of a view's size → its value if the view is not used."""

VIEW_OF_KEY = {"translations": "translation"}


def idle_sizes(views: Sequence[str]) -> dict[str, Any]:
    """Return the keys of the sizes of unused views with their neutral values.

    Args:
        views: Names of the used views.

    Returns:
        Key in the settings of the model → value.
    """
    return {key: value for key, value in SIZED_VIEWS.items() if VIEW_OF_KEY.get(key, key) not in views}


GRADES = "grades are classes for model=crossencoder loss=ce alone. Leave it out"


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """Keys of a model in conf/model, with their types. Optional keys have a default.

    Attributes:
        name: The model's name, for configurations without a class.
        module: File of lightning_modules/ with the class.
        title: Name in tables. None: `name`.
        trains: False for models without training.
        provides: Outputs that a loss may use.
        input_kind: Kind of training examples for any loss. None: the kind of the loss.
        loss_kind: With `input_kind`: kind of examples that the loss receives. None: its objective needs no
            loss.
        unscored: Kinds of sets without a metric, and the reason.
        metric: The dev metric that chooses a checkpoint, higher = better.
        reads_not: Keys of `CHOSEN` that it does not read → the reason, and the way out. `{model}` is its
            name.
        for_learning: Keys of the model without meaning if nothing is trained → their replacement.
        changes_nothing: Keys of the model that change no number → their replacement.
        no_common_start: The reason why the backbone of its runs is not their common start. "": it is.
    """

    name: ClassVar[str] = ""
    module: ClassVar[str] = ""
    title: ClassVar[str | None] = None
    trains: ClassVar[bool] = True
    provides: ClassVar[tuple[str, ...]] = ("scores", "cosines", "embeddings", "layers", "lists")
    input_kind: ClassVar[Kind | None] = None
    loss_kind: ClassVar[Kind | None] = None
    unscored: ClassVar[Mapping[Kind, str]] = UNSCORED
    metric: ClassVar[str] = "spearman"
    reads_not: ClassVar[Mapping[str, str]] = {"dataset.*.grades": GRADES}
    for_learning: ClassVar[Mapping[str, Any]] = {}
    changes_nothing: ClassVar[Mapping[str, Any]] = {}
    no_common_start: ClassVar[str] = ""

    @classmethod
    def unread(cls, job: Job) -> Iterator[tuple[str, Unread]]:
        """Yield the keys, or groups of keys, that a job with this model does not read.

        Args:
            job: Composed configuration in plain containers.

        Yields:
            Dotted key, in which a part may be `*`, and its rule. The first of equal keys counts.
        """
        model = f"model={name_of(job['model'])}"
        for key, why in cls.reads_not.items():
            yield key, Unread(CHOSEN[key], why.replace("{model}", model))

    @classmethod
    def label(cls) -> str:
        """Name of the model in a table.

        Returns:
            `title`, or `name` without a title.
        """
        return cls.name if cls.title is None else cls.title

    @classmethod
    def class_name(cls) -> str:
        """Name of the Lightning module, as the matrix and `conf/model` have it.

        Returns:
            Name of the settings without `Settings`.
        """
        return cls.__name__.removesuffix("Settings")

    @classmethod
    def target(cls) -> str:
        """Dotted name of the Lightning module.

        Returns:
            Name such as `lightning_modules.biencoder.BiEncoder`.
        """
        return f"lightning_modules.{cls.module}.{cls.class_name()}"

    @classmethod
    def uses_loss(cls) -> bool:
        """True if its objective is a loss of the configuration.

        Returns:
            False for baselines, and for models whose objective is fixed.
        """
        return cls.trains and (cls.input_kind is None or cls.loss_kind is not None)


ATTRIBUTES = ("trains", "provides", "input_kind", "loss_kind", "unscored", "metric")
"""Attributes of a module from its settings."""


NOT_SHARED = "no sentence is encoded twice for a batch of {model}. Leave it out"
OF_SENTENCES: Mapping[str, str] = {"training.share_sentences": NOT_SHARED, **ModelSettings.reads_not}
"""Keys that a model does not read which makes its examples of sentences."""


@dataclass(frozen=True, kw_only=True)
class BiEncoderSettings(ModelSettings):
    name: ClassVar[str] = "biencoder"
    module: ClassVar[str] = "biencoder"
    title: ClassVar[str | None] = ""

    score: Literal["cosine", "bilinear"] | None = None  # text models have none


NOT_POOLED = (
    "a cross-encoder has no embeddings. Leave it out, or choose what its head sees: model.pooling=cls or mean"
)
NO_EMBEDDINGS = "a cross-encoder has no embeddings. Leave it out, or type model=biencoder"


@dataclass(frozen=True, kw_only=True)
class CrossEncoderModuleSettings(ModelSettings):
    name: ClassVar[str] = "crossencoder"
    module: ClassVar[str] = "crossencoder"
    title: ClassVar[str | None] = "cross-encoder"
    provides: ClassVar[tuple[str, ...]] = ("scores", "logits", "lists", "drawn_lists")
    unscored: ClassVar[Mapping[Kind, str]] = UNSCORED_BY_PAIRS
    reads_not: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys((*POOLED, "backbone.prompts"), NOT_POOLED),
        **dict.fromkeys(EMBEDDED, NO_EMBEDDINGS),
        "training.share_sentences": NOT_SHARED,
    }
    for_learning: ClassVar[Mapping[str, Any]] = {"symmetric_training": False}
    no_common_start: ClassVar[str] = "a cross-encoder starts with a new head"

    pooling: Literal["cls", "mean"] | None
    segments: bool | None
    symmetric: bool | None
    symmetric_training: bool
    head_dropout: float | None = None  # runs of before have none

    @classmethod
    def unread(cls, job: Job) -> Iterator[tuple[str, Unread]]:
        yield from super().unread(job)
        if "ce" not in _loss_names(job):
            yield "dataset.*.grades", Unread(CHOSEN["dataset.*.grades"], GRADES)


@dataclass(frozen=True, kw_only=True)
class CotEncoderSettings(BiEncoderSettings):
    name: ClassVar[str] = "cot"
    module: ClassVar[str] = "cot"
    title: ClassVar[str | None] = None
    input_kind: ClassVar[Kind | None] = Kind.SENTENCE
    loss_kind: ClassVar[Kind | None] = Kind.POSITIVE_PAIR
    reads_not: ClassVar[Mapping[str, str]] = OF_SENTENCES
    changes_nothing: ClassVar[Mapping[str, Any]] = {"untrained_mask": False}

    variant: str = ""
    language: str | None
    templates: dict[str, Any]
    use_negative: bool
    read: Literal["last", "mean", "pooling"]
    denoise: Literal["none", "positions", "pads"]
    untrained_mask: bool = False
    end_to_end: bool
    match_norm: bool

    @classmethod
    def unread(cls, job: Job) -> Iterator[tuple[str, Unread]]:
        yield from super().unread(job)
        model = job["model"]
        if model.get("read") != "pooling":
            why = (
                f"model={name_of(model)} reads a sentence at [MASK]. Leave it out, or type model.read=pooling"
            )
            yield "backbone.pooling", Unread("mean", why)
        templates = model.get("templates") or {}
        stage_2 = (templates.get(model.get("language")) or {}).get("stage_2")
        why = (
            f"the templates are those of model.language={model.get('language')}, with "
            f"stage_2={'null' if stage_2 is None else '…'} and use_negative={str(model.get('use_negative')).lower()}, "
            "which leave it unread"
        )
        for key, value in _idle_templates(job).items():
            yield key, Unread(value, why)


def _idle_templates(job: Job) -> dict[str, Any]:
    """Keys of templates that other keys make meaningless → their neutral values."""
    model = job["model"]
    language, templates = model.get("language"), model.get("templates") or {}
    if language is None:
        sets = (job.get("dataset") or {}).values()
        languages = {described.get("language") for described in sets if isinstance(described, Mapping)}
        language = languages.pop() if len(languages) == 1 else None
    if language not in templates:  # sets do not agree, which matters to a job that learns alone
        return {}
    keys: dict[str, Any] = {f"model.templates.{other}": GONE for other in templates if other != language}
    if templates[language].get("stage_2") is None:
        keys |= {"model.end_to_end": True, "model.match_norm": False}
    if not model.get("use_negative"):
        keys[f"model.templates.{language}.negative"] = GONE
    return keys


@dataclass(frozen=True, kw_only=True)
class ViewEncoderSettings(BiEncoderSettings):
    name: ClassVar[str] = "views"
    title: ClassVar[str | None] = None
    input_kind: ClassVar[Kind | None] = Kind.SENTENCE
    loss_kind: ClassVar[Kind | None] = Kind.POSITIVE_PAIR
    reads_not: ClassVar[Mapping[str, str]] = OF_SENTENCES
    for_learning: ClassVar[Mapping[str, Any]] = dict.fromkeys(("views", "changes_anchor", *SIZED_VIEWS), GONE)

    views: Sequence[str]
    changes_anchor: bool
    delete: float
    repeat: float
    cutoff: float
    shuffle: int
    synonym: float
    translations: str | None

    @classmethod
    def unread(cls, job: Job) -> Iterator[tuple[str, Unread]]:
        yield from super().unread(job)
        views = list(job["model"].get("views") or ())
        idle = idle_sizes(views) | ({} if views else {"changes_anchor": False})
        for key, value in idle.items():
            yield f"model.{key}", Unread(value, f"model.views={views} does without. Leave it out")


OF_LEARNING = (
    *("backbone", "init_from", "dataset", "loss", "training", "optimizer", "augmentation", "schedule"),
    *("filter_leaks", "hardware.precision", "hardware.compile"),
    *(
        "evaluation.untrained",
        "evaluation.verdict",
        "evaluation.without_leaks",
        "evaluation.backend",
        "evaluation.cache_embeddings",
    ),
)
"""Keys of weights and of training only."""

TF_IDF = "lexical"
LEXICAL = (TF_IDF, "bm25")
"""Names of the models of this file."""


@dataclass(frozen=True, kw_only=True)
class BaselineSettings(ModelSettings):
    """Common settings of the lexical models."""

    trains: ClassVar[bool] = False

    @classmethod
    def unread(cls, job: Job) -> Iterator[tuple[str, Unread]]:
        why = (
            f"model={name_of(job['model'])} learns nothing and has no encoder. Leave it out (sets to score: "
            "'dataset=[]' +dataset@evaluate.<name>=<name>, or benchmark=<name>)"
        )
        yield from ((key, Unread(GONE, why)) for key in OF_LEARNING)
        yield from super().unread(job)


@dataclass(frozen=True, kw_only=True)
class LexicalSettings(BaselineSettings):
    name: ClassVar[str] = "lexical"
    module: ClassVar[str] = "lexical"

    method: Literal["tf_idf", "jaccard", "dice"] = "tf_idf"
    tokens: Literal["characters", "jieba"] = "characters"

    @classmethod
    def unread(cls, job: Job) -> Iterator[tuple[str, Unread]]:
        yield from super().unread(job)
        if job["model"].get("method", "tf_idf") == "tf_idf":
            why = "TF-IDF goes by characters and their pairs. Leave it out, or type model.method=jaccard or dice"
            yield "model.tokens", Unread(GONE, why)


@dataclass(frozen=True, kw_only=True)
class BM25ModuleSettings(BaselineSettings):
    name: ClassVar[str] = "bm25"
    module: ClassVar[str] = "lexical"
    unscored: ClassVar[Mapping[Kind, str]] = UNSCORED_BY_BM25
    reads_not: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(
            ("evaluation.transfer", "evaluation.clusterings"), "BM25 gives no features. Leave it out"
        ),
        **ModelSettings.reads_not,
    }

    tokens: Literal["characters", "jieba"]
    k1: float
    b: float
