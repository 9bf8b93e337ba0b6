"""The texts that an encoder wants before a sentence, which sentence-transformers calls its prompts. Needs no torch.

No templates: what a sentence is put into, so that a state at [MASK] can be read, is in `juzhen.encoders.prompts`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from juzhen.core.errors import UserError, nearest
from juzhen.core.texts import short
from juzhen.encoders.settings_file import Settings
from juzhen.encoders.spec import NO_PROMPT, BackboneConfig

if TYPE_CHECKING:  # it loads numpy, and --help should not wait for that
    from juzhen.core.examples import Side

QUERY, DOCUMENT = ("query",), ("document", "passage", "corpus")
"""Names by which encode_query and encode_document of sentence-transformers look for a prompt; the first one counts."""

PROMPTS_FILE = "config_sentence_transformers.json"

JOINT = "two sentences in one input"
TEMPLATES = "templates that sentences are put in"


@dataclass(frozen=True)
class Prefix:
    """The prompts that an encoder knows. Keys and meaning are those of sentence-transformers.

    prompts              name → text, such as {"query": "query: "}
    default_prompt_name  the one before every sentence where nothing else is said; None: none is
    include_prompt       its tokens count in pooling
    """

    prompts: Mapping[str, str] = field(default_factory=dict)
    default_prompt_name: str | None = None
    include_prompt: bool = True

    @property
    def text(self) -> str:
        """What stands before every sentence; "" where nothing does."""
        return "" if self.default_prompt_name is None else self.prompts.get(self.default_prompt_name, "")

    def of_side(self, side: "Side") -> str:
        """What stands before a query or a document: before every sentence, where no prompt is named for it.

        An instruction for queries that look for documents without one says nothing to queries among themselves.
        """
        from juzhen.core.examples import Side

        query, document = (
            next((self.prompts[one] for one in names if one in self.prompts), None)
            for names in (QUERY, DOCUMENT)
        )
        alike = query if document is not None else None
        found = {Side.EVERY: None, Side.QUERY: query, Side.DOCUMENT: document, Side.ALIKE: alike}[side]
        return self.text if found is None else found

    @property
    def sides(self) -> list[int]:
        """For each Side the first one that has the same prompt: all 0 where texts of all sides are read alike."""
        from juzhen.core.examples import Side

        prompts = [self.of_side(side) for side in Side]
        return [prompts.index(one) for one in prompts]

    def chosen(self, prompt_name: str | None, prompt: str | None) -> str:
        """The prompt of that name, or that text itself. Raises UserError for both, and for a name that is unknown."""
        if prompt_name is not None and prompt is not None:
            raise UserError(f"prompt_name={prompt_name!r}, prompt={prompt!r}: give one of the two")
        if prompt_name is None:
            return self.text if prompt is None else prompt
        if prompt_name not in self.prompts:
            known = nearest(prompt_name, self.prompts) if self.prompts else "this encoder knows none"
            raise UserError(
                f"prompt_name={prompt_name!r}: no such prompt; {known}, or give it as prompt=<text>"
            )
        return self.prompts[prompt_name]

    def configured(self, config: BackboneConfig) -> "Prefix":
        """The prompts of a folder under a configuration, where null leaves them as they are. Raises UserError."""
        prompts = self.prompts if config.prompts is None else config.prompts
        name = self.default_prompt_name if config.default_prompt_name is None else config.default_prompt_name
        if config.default_prompt_name == NO_PROMPT:
            name = None
        if name is not None and name not in prompts:
            known = nearest(name, [*prompts, NO_PROMPT])
            raise UserError(
                f"default_prompt_name={short(name)}: no such prompt; {known}. "
                f"One of your own: 'prompts={{{short(name)}: \"its text\"}}'"
            )
        include = self.include_prompt if config.include_prompt is None else config.include_prompt
        return Prefix(prompts, name, include)

    def as_dict(self) -> dict[str, Any]:
        """In the spelling of sentence-transformers."""
        return {"prompts": dict(self.prompts), "default_prompt_name": self.default_prompt_name}


def checked_prefix(value: Any, before: Prefix) -> Prefix:
    """A Prefix, or a mapping name → text with the default name of `before` where it is among them. Raises UserError."""
    if not isinstance(value, Prefix | Mapping):
        raise UserError(
            f'prefix={short(repr(value), 40)}: expected a mapping such as {{"query": "query: "}}, or a Prefix'
        )
    if not isinstance(value, Prefix):
        name = before.default_prompt_name if before.default_prompt_name in value else None
        value = Prefix(dict(value), name, before.include_prompt)
    for name, text in value.prompts.items():
        if not isinstance(name, str) or not isinstance(text, str):
            raise UserError(
                f"prefix: prompt {short(repr(name))} is {short(repr(text))}; expected a name and a text"
            )
    if (name := value.default_prompt_name) is not None and name not in value.prompts:
        raise UserError(
            f"prefix: default_prompt_name={short(repr(name))}: no such prompt; {nearest(str(name), value.prompts)}"
        )
    return value


def read_prefix(folder: Path) -> Prefix:
    """The prompts that a folder in the layout of sentence-transformers names. Raises UserError for broken files."""
    if not (folder / PROMPTS_FILE).is_file():
        return Prefix()
    return prefix_of(Settings.read(folder / PROMPTS_FILE))


def prefix_of(settings: Settings) -> Prefix:
    """The prompts in an object of settings. Raises UserError where they are no texts."""
    prompts = settings.get("prompts", dict, type(None), default=None) or {}
    prompts = {name: text for name, text in prompts.items() if text is not None}
    for name, text in prompts.items():
        if not isinstance(text, str):
            raise UserError(f"{settings.path}: prompt {name} is {short(repr(text))}, expected a text")
    name = settings.get("default_prompt_name", str, type(None), default=None)
    return Prefix(prompts, name, settings.get("include_prompt", bool, default=True))


def prompt_refused(reader: str, prompt: str) -> UserError:
    """For a model that reads sentences otherwise than one by one, as they are."""
    return UserError(
        f"before {reader}, no prompt stands, and this encoder puts {short(repr(prompt))} before every sentence; "
        "leave it out: default_prompt_name=none, with the path of its encoder folder"
    )
