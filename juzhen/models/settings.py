"""What every model says of itself. A model's own file adds its keys, and says what it does otherwise."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from juzhen.core.kinds import UNSCORED, Kind
from juzhen.core.nodes import name_of

GONE, AS_IT_IS = object(), object()
"""What stands for an unread key in the key of a run and in its row: nothing; its value, for what only speaks to
people, or could not be typed."""

Job = Mapping[str, Any]
"""A composed configuration in plain containers, of today or as a result has stored it."""


class Unread(NamedTuple):
    """A key, or a group of keys, that a job does not read.

    instead    what stands for it in the key of the run and in its row
    why        the reason, and what to type; `{key}` is the key
    but        keys below it that are read
    in_stages  the same keys of a stage or of a set are unread, too
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
"""What makes one vector of a text's tokens → its value where there is none."""

EMBEDDED: Mapping[str, Any] = {
    "evaluation.backend": "torch",
    "evaluation.cache_embeddings": False,
    "evaluation.transfer": GONE,
    "evaluation.clusterings": GONE,
}
"""What is done with the vector of a text → its value where there is none."""

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
"""Keys of a job that only some models read → what stands for them where the model does not."""

SIZED_VIEWS = {
    "delete": 0.1,
    "repeat": 0.2,
    "cutoff": 0.2,
    "shuffle": 4,
    "synonym": 0.3,
    "translations": None,
}
"""Key of a view's size → its value where the view is not among those that are chosen."""

VIEW_OF_KEY = {"translations": "translation"}


def idle_sizes(views: Sequence[str]) -> dict[str, Any]:
    """Keys of the sizes of views that are not chosen → what stands for them."""
    return {key: value for key, value in SIZED_VIEWS.items() if VIEW_OF_KEY.get(key, key) not in views}


GRADES = "grades are classes for model=crossencoder loss=ce alone; leave it out"


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """What conf/model may set of a model: name, type and, where the key may be left out, a default.

    name            the model's, where a configuration may lack its class
    title           how a table calls it; None: by its name
    trains          it learns
    provides        what a loss may consume of it
    input_kind      kind of examples that it learns from, whatever the loss takes; None: what the loss takes
    loss_kind       where `input_kind` is set: kind that the loss is handed; None: its objective needs no loss
    unscored        kinds of sets that it has no measure of, and why
    metric          the dev metric that chooses a checkpoint, higher = better
    reads_not       keys of the job that it does not read, of those in `CHOSEN` → why, and what to type; `{model}` is
                    its name
    for_learning    its own keys that mean nothing where nothing is learnt → what stands for them
    changes_nothing  its own keys that change no number → what stands for them
    no_common_start  why the backbone of its runs is not what they all started from; "": it is
    """

    name: ClassVar[str] = ""
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
        """Dotted keys, or groups of keys, that a job with this model does not read; of equal ones the first counts."""
        model = f"model={name_of(job['model'])}"
        for key, why in cls.reads_not.items():
            yield key, Unread(CHOSEN[key], why.replace("{model}", model))

    @classmethod
    def label(cls) -> str:
        """How a table calls it."""
        return cls.name if cls.title is None else cls.title

    @classmethod
    def class_name(cls) -> str:
        return cls.__name__.removesuffix("Settings")

    @classmethod
    def target(cls) -> str:
        return f"lightning_modules.{cls.__module__.rpartition('.')[2]}.{cls.class_name()}"

    @classmethod
    def uses_loss(cls) -> bool:
        """Its objective is a loss of the configuration."""
        return cls.trains and (cls.input_kind is None or cls.loss_kind is not None)


ATTRIBUTES = ("trains", "provides", "input_kind", "loss_kind", "unscored", "metric")
"""What a module has of its settings."""
