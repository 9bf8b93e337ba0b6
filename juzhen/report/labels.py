"""What the rows of a table are called: what they were trained on, and in words what tells namesakes apart."""

from collections.abc import Iterator, Mapping, Sequence

from juzhen.core.texts import short_where_apart
from juzhen.report.identity import Identity

BACKBONE = "backbone.path"
LONGEST = 24
"""Signs of a value that is told; of a longer one, those from where it is another."""

ABSENT = "None"

WORDS = {
    "backbone.layers": "{} layers",
    "backbone.initialize": "{} weights",
    "backbone.pooling": "{} pooling",
    "backbone.max_length": "{} tokens",
    "backbone.dropout": "dropout {}",
    "backbone.default_prompt_name": "prompt {}",
    "optimizer.lr": "lr {}",
    "training.batch_size": "batches of {}",
    "training.duration": "{}",
    "training.validate_every": "validated every {}",
    "evaluation.backend": "{}",
    "filter_leaks": "without the rows of {}",
    "init_from": "from {}",
    "debug_rows": "{} rows",
}
"""Setting → how it is told."""

PRECISIONS = {"32-true": "float32", "bf16-mixed": "bf16", "16-mixed": "fp16"}

GO_WITH = {"optimizer": ("model.name", BACKBONE), "training": ("model.name",)}
"""Group of settings → others that it follows: that it differs between rows that differ in these goes without saying."""


def label_rows(identities: Sequence[Identity], given: Sequence[str] = ()) -> list[str]:
    """One label per row: its name, and the settings in which it differs from its namesakes. No two are equal.

    given  names that sweeps gave to rows, "" for a row without one; it is then called by what it was trained on
    """
    given = given or [""] * len(identities)
    names = [name or _name(identity) for name, identity in zip(given, identities, strict=True)]
    settings = [_spoken_of(one) for one in identities]
    backbones = _backbones(identities)
    keys = {key for one in settings for key in one}
    read = [{key for key in keys if identity.reads(key)} for identity in identities]
    labels = []
    for place, (name, own) in enumerate(zip(names, settings, strict=True)):
        namesakes = [other for other, its in enumerate(names) if its == name]
        peers = {key: [settings[other] for other in namesakes if key in read[other]] for key in read[place]}
        phrases = list(dict.fromkeys(_differences(own, peers, backbones)))
        backbone = backbones.get(own.get(BACKBONE, ""))
        if name == UNTRAINED and backbone in phrases:
            phrases.remove(backbone)
            name = f"{backbone}, {name}"
        labels.append(", ".join([name, *phrases]))
    return _numbered(labels)


UNTRAINED = "untrained"
DEFAULT_METHOD = "tf_idf"
"""Of a lexical baseline, which then goes by its name alone."""


def _name(identity: Identity) -> str:
    if identity.trained_on == "lexical":
        settings = dict(identity.settings)
        method = settings.get("model.method", DEFAULT_METHOD)
        return settings["model.name"] if method == DEFAULT_METHOD else method
    start = dict(identity.settings).get("init_from", ABSENT)
    steps = identity.trained_on.replace("+", " + ").split(">") if identity.trained_on else []
    if start != ABSENT:
        steps.insert(0, start)
    return " → ".join(steps) or UNTRAINED


def _spoken_of(identity: Identity) -> dict[str, str]:
    """The settings of a row; a model goes by the name of its variant where it has one."""
    settings = dict(identity.settings)
    variant = settings.pop("model.variant", "")
    return settings | ({"model.name": variant} if variant not in ("", ABSENT) else {})


def _backbones(identities: Sequence[Identity]) -> dict[str, str]:
    """Path of a backbone → what it is called: its name, or as much of its path as tells it from the others."""
    names = {dict(one.settings).get(BACKBONE, ""): one.backbone for one in identities}
    for parts in (1, 2, 0):  # 0: all of it
        names = {
            path: "/".join(path.split("/")[-parts:])
            if [*names.values()].count(name) > 1 or not name
            else name
            for path, name in names.items()
        }
    return names


def _differences(
    own: Mapping[str, str], namesakes: Mapping[str, Sequence[Mapping[str, str]]], backbones: Mapping[str, str]
) -> Iterator[str]:
    """In words the settings in which `own` differs from any of its namesakes.

    namesakes  key that the row reads → the settings of the namesakes that read it too

    Another loss or model is told by its name alone, and so is another backbone: that their numbers differ too goes
    without saying.
    """
    for key in sorted(namesakes, key=_names_first):
        node, _, rest = key.partition(".")
        told_before = {f"{node}.name", f"{key.rpartition('.')[0]}.name", *GO_WITH.get(node, ())}
        told_before |= {BACKBONE} if node == "backbone" else set()
        peers = [
            one
            for one in namesakes[key]
            if all(one.get(other) == own.get(other) for other in told_before - {key})
        ]
        if len({settings.get(key) for settings in peers}) == 1:
            continue
        if key == BACKBONE:
            yield backbones.get(own.get(key, ""), "no backbone")
        else:
            yield _in_words(
                key,
                own.get(key),
                is_loss=node == "loss" and rest == "name",
                others=[one.get(key) or "" for one in peers],
            )


def _in_words(key: str, value: str | None, *, is_loss: bool, others: Sequence[str] = ()) -> str:
    """A setting and its value; a switch is told by its name alone."""
    word = key.rpartition(".")[2].replace("_", " ")
    if key.startswith("model.templates."):
        return "other templates"
    if key.endswith(".name"):
        return value or ("by_kind" if is_loss else "by its kind")
    if key == "hardware.compile":
        return "compiled" if value == "True" else "not compiled"
    if value in ("True", "False"):
        return word if value == "True" else f"no {word}"
    if value is None or value == ABSENT:
        return f"no {word} given"
    if key == "hardware.precision":
        return PRECISIONS.get(value, value)
    if len(value) > LONGEST:
        return f"{word} {short_where_apart(value, others, LONGEST)}"
    return WORDS.get(key, f"{word} {{}}").format(value)


def _numbered(labels: Sequence[str]) -> list[str]:
    """Equal labels, of rows whose difference is too long to tell, are numbered."""
    seen: dict[str, int] = {}
    numbered = []
    for label in labels:
        seen[label] = seen.get(label, 0) + 1
        numbered.append(f"{label} ({seen[label]})" if labels.count(label) > 1 else label)
    return numbered


def _names_first(key: str) -> tuple[str, bool, str]:
    """Sorts the names that a node goes by before its numbers."""
    node, _, rest = key.partition(".")
    return node, rest not in ("name", "path"), rest
