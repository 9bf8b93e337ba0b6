"""Prompts before a sentence, and the templates that a sentence is put into. Needs no torch.

A prompt is what sentence-transformers calls one. A template surrounds the sentence and is read at [MASK].
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from juzhen.core.errors import UserError, nearest, require_choice
from juzhen.core.text import short
from juzhen.encoders.backbone_config import NO_PROMPT, BackboneConfig

if TYPE_CHECKING:
    from juzhen.core.examples import Side


QUERY, DOCUMENT = ("query",), ("document", "passage", "corpus")
"""Prompt names that encode_query and encode_document of sentence-transformers look up, in this order."""

PROMPTS_FILE = "config_sentence_transformers.json"
ADDED = "added_prompt_names"
"""In that file: prompts that only repeat another one. Reading leaves them out."""

JOINT = "two sentences in one input"
TEMPLATES = "templates that sentences are put in"


@dataclass(frozen=True)
class Prompts:
    """Prompts of an encoder, as in sentence-transformers.

    Attributes:
        texts: Name → text, such as {"query": "query: "}.
        default_prompt_name: Prompt of every sentence by default. None for no prompt.
        include_prompt: The tokens of the prompt count in pooling.
        added: Names that the folder has for sentence-transformers alone. Their texts repeat others.

    Raises:
        UserError: Values of a wrong type, or an unknown default.
    """

    texts: Mapping[str, str] = field(default_factory=dict)
    default_prompt_name: str | None = None
    include_prompt: bool = True
    added: tuple[str, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        """Raise UserError for values of a wrong type, which occur in files and calls."""
        texts, name, include = self.texts, self.default_prompt_name, self.include_prompt
        if not isinstance(texts, Mapping):
            raise UserError(
                f'prompts={short(repr(texts))}: expected texts by name. Write {{"query": "query: "}}'
            )
        for key, text in texts.items():
            if not isinstance(key, str) or not isinstance(text, str):
                raise UserError(
                    f"prompts: {key}={short(repr(text))}: no text. Write a text, or leave the name out"
                )
        if name is not None and not isinstance(name, str):
            raise UserError(
                f"default_prompt_name={short(repr(name))}: not the name of a prompt. Write a name, or null"
            )
        if not isinstance(include, bool):
            raise UserError(
                f"include_prompt={short(repr(include))}: expected true or false. Write one of them"
            )

    @property
    def text(self) -> str:
        """Prompt of every sentence, "" for none."""
        return "" if self.default_prompt_name is None else self.texts.get(self.default_prompt_name, "")

    def of_side(self, side: "Side") -> str:
        """Prompt of queries or of documents. The default prompt if the side has none.

        An instruction for queries that search documents without a prompt does not apply to queries among themselves.

        Args:
            side: Side of the texts.

        Returns:
            Text of the prompt. "" for none.
        """
        from juzhen.core.examples import Side

        query, document = (
            next((self.texts[name] for name in names if name in self.texts), None)
            for names in (QUERY, DOCUMENT)
        )
        alike = query if document is not None else None
        own_prompt = {Side.EVERY: None, Side.QUERY: query, Side.DOCUMENT: document, Side.ALIKE: alike}[side]
        return self.text if own_prompt is None else own_prompt

    @property
    def sides(self) -> list[int]:
        """For each Side the first side with the same prompt. All 0 if the sides share one."""
        from juzhen.core.examples import Side

        prompts = [self.of_side(side) for side in Side]
        return [prompts.index(prompt) for prompt in prompts]

    def chosen(self, prompt_name: str | None, prompt: str | None) -> str:
        """Prompt of that name, or the given text.

        Args:
            prompt_name: Name of a prompt. None: by the text.
            prompt: The text itself. None: the default prompt.

        Returns:
            Text of the prompt. "" for none.

        Raises:
            UserError: Both are given, or the name is unknown.
        """
        if prompt_name is not None and prompt is not None:
            raise UserError(f"prompt_name={prompt_name!r}, prompt={prompt!r}: give one of the two")
        if prompt_name is None:
            return self.text if prompt is None else prompt
        if prompt_name not in self.texts:
            choices = nearest(prompt_name, self.texts) if self.texts else "This encoder has none"
            raise UserError(
                f"prompt_name={prompt_name!r}: no such prompt. {choices}. Give the text itself as prompt=<text>"
            )
        return self.texts[prompt_name]

    def configured(self, config: BackboneConfig) -> "Prompts":
        """Prompts of a folder under a configuration.

        Args:
            config: Its prompts, default name and `include_prompt` replace those of the folder. null keeps them.

        Returns:
            New prompts.

        Raises:
            UserError: The default name is unknown.
        """
        prompts = self.texts if config.prompts is None else config.prompts
        name = self.default_prompt_name if config.default_prompt_name is None else config.default_prompt_name
        if config.default_prompt_name == NO_PROMPT:
            name = None
        if name is not None and name not in prompts:
            choices = nearest(name, [*prompts, NO_PROMPT])
            raise UserError(
                f"default_prompt_name={short(name)}: no such prompt. {choices}. "
                f"Define it: 'prompts={{{short(name)}: \"its text\"}}'"
            )
        include = self.include_prompt if config.include_prompt is None else config.include_prompt
        return Prompts(prompts, name, include)

    def as_dict(self) -> dict[str, Any]:
        """In the spelling of sentence-transformers.

        Returns:
            `prompts` (name → text) and `default_prompt_name`.
        """
        return {"prompts": dict(self.texts), "default_prompt_name": self.default_prompt_name}

    def as_dict_of_sides(self) -> dict[str, Any]:
        """The same, with `query` and `document` where encode_query or encode_document would else take no prompt.

        sentence-transformers 6 adds both names with an empty text, so that it finds `document` before `passage`.

        Returns:
            As in `as_dict`, with the list of added names if there are any.
        """
        from juzhen.core.examples import Side

        of_side = {"query": self.of_side(Side.QUERY), "document": self.of_side(Side.DOCUMENT)}
        added = {name: text for name, text in of_side.items() if text != self.texts.get(name, "")}
        settings = self.as_dict() | {"prompts": {**self.texts, **added}}
        return settings | ({ADDED: [*added]} if added else {})


def as_prompts(value: "Prompts | Mapping[str, str]", before: Prompts) -> Prompts:
    """Convert a mapping name → text to Prompts.

    Args:
        value: Prompts are kept.
        before: A mapping keeps the default name of these, if it has that name, and their `include_prompt`.

    Returns:
        `value` itself, or new prompts.

    Raises:
        UserError: The default name is unknown, or the mapping holds no texts.
    """
    if not isinstance(value, Prompts):
        is_known = isinstance(value, Mapping) and before.default_prompt_name in value
        name = before.default_prompt_name if is_known else None
        value = Prompts(dict(value) if isinstance(value, Mapping) else value, name, before.include_prompt)
    if value.default_prompt_name is not None:
        require_choice("default_prompt_name", value.default_prompt_name, value.texts)
    return value


def prompts_of(settings: Mapping[str, Any], path: Path) -> Prompts:
    """Read the prompts in the settings of a folder, in the spelling of sentence-transformers.

    Args:
        settings: Content of the file.
        path: The file, for messages.

    Returns:
        The prompts. A folder without settings has none.

    Raises:
        UserError: The prompts are not names with texts, or another setting has a wrong type.
    """
    texts = settings.get("prompts") or {}
    added: tuple[str, ...] = ()
    if isinstance(texts, Mapping):
        named, every = settings.get(ADDED), [*texts.values()]
        if isinstance(named, list):
            added = tuple(name for name, text in texts.items() if name in named and every.count(text) > 1)
        texts = {name: text for name, text in texts.items() if text is not None and name not in added}
    try:
        name, include = settings.get("default_prompt_name"), settings.get("include_prompt", True)
        return Prompts(texts, name, include, added)
    except UserError as error:
        raise UserError(f"{path}: {error}") from error


def refuse_prompt(reader: str, prompt: str) -> None:
    """Raise UserError if an encoder with a prompt is used for something else than single sentences.

    Args:
        reader: Input that the prompt cannot precede, for the message.
        prompt: Default prompt of the encoder. "" is accepted.

    Raises:
        UserError: The prompt is not empty.
    """
    if prompt:
        raise UserError(
            f"the encoder has the default prompt {short(repr(prompt))}, which cannot precede {reader}. "
            "In a job, set default_prompt_name=none. For a folder that you load, delete default_prompt_name in its "
            f"{PROMPTS_FILE}."
        )


SENTENCE = "[X]"
MASK = "[MASK]"
INJECTED = "[IT_SPECIAL_TOKEN]"
"""Stands for the sentence, for a state that is read, and for the state of stage 1 in the template of stage 2."""

VIEWS = ("anchor", "positive", "negative")
"""Templates of stage 1, in the order in which a batch has them. Evaluation uses the anchor's."""


@dataclass(frozen=True)
class Templates:
    """Templates of a prompt encoder.

    Attributes:
        anchor: Template with one [X] and any number of [MASK]s.
        positive: Template of the positive view, or null.
        negative: Template of the negative view, or null.
        stage_2: Template with one [IT_SPECIAL_TOKEN], whose word embedding is replaced by the state of stage 1, and any
            number of [MASK]s. null for one stage.
        read: last: state at the last [MASK] · mean: mean over all of them · pooling: backbone.pooling without [MASK].
        denoise: Bias to subtract, from the template without a sentence: none · positions: the sentence is left out and
            the rest keeps its positions (Jiang et al. 2022) · pads: padding replaces the sentence (Zhang et al. 2024).
        end_to_end: Gradients pass from stage 2 to stage 1.
        match_norm: Scale the state of stage 1 to the mean norm of a word embedding.

    Raises:
        UserError: Settings that exclude each other.
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
                "read=pooling: needs stage_2=null and denoise=none. Set both, or choose read=last"
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
                f"{quoted}: {MASK}, whose state is read, is missing. Add one, or choose read=pooling"
            )

    @classmethod
    def of(cls, model: Mapping[str, Any]) -> "Templates":
        """Read the templates from the configuration of a model.

        Args:
            model: `templates` of several languages, the `language` chosen among them, `use_negative`, and the reading.

        Returns:
            The templates of that language.

        Raises:
            UserError: The language has no templates, or a key is unknown.
        """
        templates, language = model["templates"], model["language"]
        if language not in templates:  # null where the sets of a job are in several languages
            choices = " or ".join(f"language={name}" for name in templates)
            raise UserError(f"language={language or 'null'}: has no templates. Choose {choices}")
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
        """Convert the templates to plain data.

        Returns:
            Field → value.
        """
        return asdict(self)


EXAMPLES = {
    SENTENCE: 'The sentence of "[X]" means [MASK].',
    INJECTED: f"so {INJECTED} can be summarized as [MASK].",
}
