"""Templates that a sentence is put in before it is encoded, and how the state at [MASK] is read. Needs no torch."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from juzhen.core.errors import UserError, require_choice

SENTENCE = "[X]"
MASK = "[MASK]"
INJECTED = "[IT_SPECIAL_TOKEN]"
"""Stands for the sentence, for a state that is read, and for the state of stage 1 in the template of stage 2."""

VIEWS = ("anchor", "positive", "negative")
"""Templates of stage 1, in the order in which a batch has them. Evaluation uses the anchor's."""


@dataclass(frozen=True)
class Templates:
    """What a prompt encoder does with a sentence.

    anchor, positive, negative  templates with one [X] and any number of [MASK]s; null: no such view
    stage_2     a template with one [IT_SPECIAL_TOKEN], whose word embedding the state of stage 1 replaces, and any
                number of [MASK]s; null: one stage
    read        last: the state at the last [MASK] · mean: the mean over all of them · pooling: no [MASK] is read, but
                what backbone.pooling says
    denoise     what the template gives without a sentence is taken off: none · positions: nothing stands in the
                sentence's place, the rest keeps its positions (Jiang et al. 2022) · pads: padding stands there
                (Zhang et al. 2024)
    end_to_end  gradients pass from stage 2 to stage 1
    match_norm  the state of stage 1 is brought to the mean length of a word embedding
    """

    anchor: str
    positive: str | None = None
    negative: str | None = None
    stage_2: str | None = None
    read: str = "last"
    denoise: str = "none"
    end_to_end: bool = True
    match_norm: bool = False

    def __post_init__(self) -> None:
        for view in VIEWS:
            self._check_template(view, SENTENCE, needed=view == "anchor")
        self._check_template("stage_2", INJECTED, needed=False)
        if self.read == "pooling" and (self.stage_2 or self.denoise != "none"):
            raise UserError(
                "read=pooling: needs templates with stage_2=null and denoise=none; or choose read=last"
            )

    def _check_template(self, key: str, placeholder: str, *, needed: bool) -> None:
        text = getattr(self, key)
        if text is None and not needed:
            return
        quoted = f"template {key}={text!r}"
        if not isinstance(text, str) or text.count(placeholder) != 1:
            raise UserError(f"{quoted}: expected one {placeholder} in it, as in '{EXAMPLES[placeholder]}'")
        if self.read != "pooling" and MASK not in text:
            raise UserError(
                f"{quoted}: expected at least one {MASK}, whose state is read; or choose read=pooling"
            )

    @classmethod
    def of(cls, model: Mapping[str, Any]) -> "Templates":
        """From the model's configuration: `templates` of several languages, and the `language` chosen among them."""
        templates, language = model["templates"], model["language"]
        if language not in templates:  # null where the sets of a job are in several languages
            choices = " or ".join(f"language={name}" for name in templates)
            raise UserError(f"language={language or 'null'}: there are no such templates; choose {choices}")
        for key in templates[language]:
            require_choice(f"templates.{language}", key, (*VIEWS, "stage_2"))
        names = ("read", "denoise", "end_to_end", "match_norm")
        left_out = {} if model["use_negative"] else {"negative": None}
        return cls(**{**templates[language], **left_out}, **{name: model[name] for name in names})

    @property
    def views(self) -> tuple[str, ...]:
        """The views that have a template, the anchor first."""
        return tuple(view for view in VIEWS if getattr(self, view) is not None)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


EXAMPLES = {
    SENTENCE: 'The sentence of "[X]" means [MASK].',
    INJECTED: f"so {INJECTED} can be summarized as [MASK].",
}
