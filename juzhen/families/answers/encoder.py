"""Generative reranker: a language model whose answer scores a query and a document, and its saved folder.

The folder has the LogitScore layout of sentence-transformers: a causal model of transformers with a chat template.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from jaxtyping import Float
from safetensors import safe_open
from torch import Tensor, nn
from torch.nn import functional
from transformers import AutoModelForCausalLM, PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from juzhen.core.atomic_write import write_text
from juzhen.core.batch import Tokens
from juzhen.core.columns import require_finite_weights
from juzhen.core.errors import UserError
from juzhen.core.examples import Examples
from juzhen.core.machine import open_device
from juzhen.core.text import short
from juzhen.encoders.backbone import ARCHITECTURES, looks_ahead, quiet, token_embeddings
from juzhen.encoders.backbone_config import BackboneConfig
from juzhen.encoders.base_weights import around_same_weights, has_adapter, is_ours_alone, source_folder
from juzhen.encoders.chunks import TruncationStats, truncated_sentences
from juzhen.encoders.collate import SentenceCollator
from juzhen.encoders.components import read_components, unlike_predict, warn_of
from juzhen.encoders.folder_settings import (
    ANSWERS,
    LENGTH_FILE,
    naming,
    read_module,
    read_transformer_settings,
)
from juzhen.encoders.layout import MODULES_FILE, gives_answers, inside, read_model_settings, read_modules
from juzhen.encoders.pair_encoder import AskedPairCollator, PairEncoder, truncated_query_pairs
from juzhen.encoders.peer_options import takes_peer_options
from juzhen.encoders.projection import IDENTITY
from juzhen.encoders.prompts import JOINT, PROMPTS_FILE, Prompts, prompts_of, refuse_prompt
from juzhen.encoders.resolve_path import BASE_FILE, download, encoder_source, locate_folder, weight_files
from juzhen.encoders.save import (
    pair_card,
    save_tokenizer,
    save_transformer,
    write_model_settings,
    write_module_list,
    write_settings,
)
from juzhen.encoders.sentence_encoder import SentenceEncoder
from juzhen.encoders.thresholds import write_thresholds
from juzhen.encoders.tokens import CachedTokenizer, TokenTable
from juzhen.families.answers.prompt import (
    CHAT,
    INSTRUCTION,
    LINES,
    AnswerPrompt,
    Format,
    PlainPair,
    SideReader,
    chat_template,
)
from juzhen.families.family import CrossEncoders

TASK, LOGITS = "text-generation", "causal_logits"
FOLDER = "1_LogitScore"
HEAD = "lm_head.weight"
TYPES = ("sentence_transformers.base.modules.transformer.Transformer",)
SCORE = f"sentence_transformers.cross_encoder.modules.logit_score.{ANSWERS}"
CHANGES = ("final_logit_softcapping", "logit_scale", "logits_scaling", "logits_scale", "lm_head_multiplier")
"""Entries of config.json by which architectures change the logits of their head."""


@dataclass(frozen=True)
class AnswerLayout:
    """Settings of a folder besides the model and its chat template.

    Attributes:
        answers: Token numbers of yes and no. Yes alone if its logit is the score.
        prompts: The default prompt is the instruction, sent as the system message.
        format: As in `GenerativeReranker`. None: as the template takes it.
    """

    answers: tuple[int, ...]
    prompts: Prompts
    format: Format | None


def _read_answers(folder: Path) -> AnswerLayout:
    """Read the settings of such a folder. Raises UserError for settings that change the scores elsewhere."""
    with naming(f"{folder}: {MODULES_FILE} cannot be understood"):
        overall, modules = read_model_settings(folder), read_modules(folder)
        if [module["type"].rpartition(".")[2] for module in modules] != ["Transformer", ANSWERS]:
            raise UserError(f"{folder / MODULES_FILE}: expected a Transformer and a LogitScore, and no more")
        first, second = (inside(folder, module["path"]) for module in modules)
        settings = read_module(second, ANSWERS)
        numbers = settings["true_token_id"], settings.get("false_token_id")
        if settings.get("module_input_name", LOGITS) != LOGITS:
            raise UserError(
                f"{second}: scores {short(repr(settings['module_input_name']))}, expected {LOGITS}"
            )
        format = _format(read_transformer_settings(first, ANSWERS))
        prompts = prompts_of(overall, folder / PROMPTS_FILE)
    return AnswerLayout(tuple(int(number) for number in numbers if number is not None), prompts, format)


def _format(about: dict[str, Any]) -> Format | None:
    """Format of pairs: that of the chat template, or plain without one."""
    kinds = about.get("modality_config") or {}
    if "message" not in kinds:
        return "plain"
    format = (kinds["message"] or {}).get("format")
    return format if format in ("flat", "structured") else None


def _require_answering(architecture: PretrainedConfig, *, shown: str) -> None:
    """Raise UserError unless the model is a causal language model with unchanged logits."""
    known = ARCHITECTURES.get(architecture.model_type)
    built = AutoModelForCausalLM._model_mapping.get(type(architecture), None)
    if known is None or not known.is_decoder or built is None or looks_ahead(architecture):
        decoders = ", ".join(name for name, entry in ARCHITECTURES.items() if entry.is_decoder)
        raise UserError(
            f"{shown}: a reranker needs a causal language model, and this is {architecture.model_type}, without causal "
            f"attention or unknown. Known: {decoders}. For encoders such as BERT choose a cross-encoder"
        )
    for name in CHANGES:
        if getattr(architecture, name, None) not in (None, 1, 1.0):
            raise UserError(
                f"{shown}: {name}={getattr(architecture, name)} in config.json is not supported. Choose another model"
            )


def _stored_head(architecture: PretrainedConfig, folder: Path | None) -> Tensor | None:
    """Read the head from the files of a model, (vocabulary, dim). None: it is tied or missing."""
    if architecture.tie_word_embeddings or folder is None:
        return None
    for path in weight_files(folder):
        with safe_open(path, framework="pt") as file:
            if HEAD in file.keys():  # noqa: SIM118
                head = file.get_tensor(HEAD)
                require_finite_weights([(HEAD, head)], path)
                return head
    return None


def _causal_model(backbone: PreTrainedModel, head: Tensor | None) -> PreTrainedModel:
    """Build the whole model around a backbone with shared weights. head: None: the token embeddings."""
    config = copy.deepcopy(backbone.config)
    config.tie_word_embeddings = head is None
    with torch.device("meta"):
        built: Any = AutoModelForCausalLM._model_mapping[type(config)]
        model = built(config)
    setattr(model, model.base_model_prefix, backbone)
    weight = (
        backbone.get_input_embeddings().weight if head is None else nn.Parameter(head, requires_grad=False)
    )
    output: Any = model.get_output_embeddings()
    output.weight = weight
    return model


def _write_answers(encoder: Any, folder: Path, card: dict[str, Any], *, place: str) -> None:
    """Fill an empty folder with a `GenerativeReranker`. The other arguments are those of `save_encoder`.

    An adapter is written without its base. It is written in our format if sentence-transformers finds no head
    in its base or cannot load the adapter.
    """
    inner, is_whole = encoder.inner, not has_adapter(encoder.backbone)
    finds_head = encoder.rows is not None or encoder.backbone.config.tie_word_embeddings
    is_theirs = is_whole or (finds_head and not is_ours_alone(encoder.backbone))
    if is_whole:
        with quiet():
            _causal_model(encoder.backbone, encoder.whole_head()).save_pretrained(folder)
        save_tokenizer(inner, folder)
    else:
        save_transformer(inner, folder)
    package = TYPES[0] if is_theirs else "juzhen.Transformer"
    names = dict(zip(("true_token_id", "false_token_id"), [*encoder.answers, None], strict=False))
    (folder / FOLDER).mkdir()
    write_settings(folder / FOLDER / "config.json", names | {"module_input_name": LOGITS})
    way = {"method": "forward", "method_output_name": "logits"}
    form = encoder.template.format
    message = {} if form == "plain" else {"message": way | {"format": form}}
    about: dict[str, Any] = {
        "transformer_task": TASK,
        "modality_config": {"text": way} | message,
        "module_output_name": LOGITS,
    }
    if encoder.backbone.dtype != torch.float32:  # they would compute in the precision of the file
        about["model_kwargs"] = {"dtype": "float32"}
    write_settings(folder / LENGTH_FILE, about)
    settings = {"model_type": "CrossEncoder", "activation_fn": IDENTITY} | encoder.prompts.as_dict()
    write_model_settings(folder, settings)
    write_module_list(folder, (("", package), (FOLDER, SCORE)))
    tokens: Sequence[str] = encoder.inner.tokenizer.convert_ids_to_tokens(list(encoder.answers))
    facts = {"score": " − ".join(f"logit({token})" for token in tokens)}
    facts |= {"instruction": encoder.instruction} if encoder.instruction else {}
    text = pair_card(encoder, facts, {"name": "Reranker"} | card, loads_elsewhere=is_theirs, place=place)
    write_text(folder / "README.md", text, in_own_folder=True)
    write_thresholds(folder, card)


READER = "CrossEncoder"
"""Class that loads its folders, also in sentence-transformers."""
YES, NO = "yes", "no"
NAME = "instruction"
"""Prompt name of an instruction in folders without prompts."""


class GenerativeReranker(PairEncoder):
    """logit(yes) − logit(no) at the last token of a text that asks if the document answers the query.

    (Nogueira et al. 2020, https://arxiv.org/abs/2003.06713, and Qwen3-Reranker, Zhang et al. 2025)

    The tokenizer's chat template holds the text. Only the head's rows of the answers are used. They are rows
    of the token embeddings or of a separate head. They are trained with the rest of the model, except with an
    adapter.

    Args:
        inner: The language model without its head, with pooling `last`.
        answers: Token numbers of yes and no. Yes alone if its logit is the score.
        prompts: The default prompt is the instruction.
        format: As in `AnswerPrompt`. "plain": no chat template is read.

    Raises:
        UserError: Answers that are no tokens of the model, or no room for the template.

    Example:
        >>> reranker = GenerativeReranker.load("runs/NAME")  # doctest: +SKIP
        >>> reranker.rank("怎么退货", ["今天天气很好", "如何退货"], top_k=1)  # doctest: +SKIP
    """

    family: ClassVar[str] = "generative_reranker"
    poolings: ClassVar[tuple[str, ...]] = ("last",)
    settable: ClassVar[tuple[str, ...]] = ("instruction",)
    symmetric, segments, grades = False, False, ()

    @takes_peer_options
    def __init__(
        self,
        inner: SentenceEncoder,
        *,
        answers: Sequence[int],
        prompts: Prompts,
        format: Format | None = None,
    ) -> None:
        super().__init__()
        label = inner.tokenizer.name_or_path or "this encoder"
        config = inner.backbone.config
        _require_answering(config, shown=label)
        refuse_prompt(JOINT, inner.prompt)
        if inner.tokenizer.truncation_side != "right":
            raise UserError(
                f"{label}: texts are cut at their start (truncation_side), and a question at its end alone"
            )
        rows = len(token_embeddings(inner.backbone).weight)
        if len(set(answers)) != len(answers) or not all(0 <= number < rows for number in answers):
            raise UserError(
                f"{label}: the answers {list(answers)} are not among the {rows} tokens of the model. Choose others"
            )
        inner = around_same_weights(inner, inner.tokenizer)
        inner.pooling = "last"
        inner.projections, inner.normalize, inner.score_head = nn.ModuleList(), False, None
        inner._serves_head = True
        self.inner = inner
        self.answers = tuple(answers)
        self.prompts = prompts
        self._format = format
        self.template = self._template_of(self.instruction)
        least = self.template.fixed + 2
        if inner.max_length < least:
            raise UserError(
                f"max_length={inner.max_length}: the template around query and document has {least - 2} tokens. "
                f"Give at least {least}, better {least + 256} or more"
            )
        head = _stored_head(config, source_folder(inner.backbone))
        self._stored = _Stored(head)
        self.rows: nn.Parameter | None = None
        if head is not None:
            learns = not has_adapter(inner.backbone)
            self.rows = nn.Parameter(head[list(self.answers)].float().clone(), requires_grad=learns)
        self._is_finished = True

    @classmethod
    def of_folder(cls, inner: SentenceEncoder, folder: Path, *, has_weights: bool = True) -> Self:
        """Build the encoder of a folder around its model.

        Args:
            inner: The model of the folder.
            folder: The folder with the settings.
            has_weights: True if the weights were read from the folder, False if they were drawn.

        Returns:
            The reranker.

        Raises:
            UserError: The weights were read, but no file holds the head. The token embeddings would give
                other scores.
        """
        layout = _read_answers(folder)
        encoder = cls(inner, answers=layout.answers, prompts=layout.prompts, format=layout.format)
        # Beside an adapter of ours the table of tokens is the head where the base has none; others draw one anew.
        is_ours = has_adapter(inner.backbone) and (folder / BASE_FILE).is_file()
        is_tied = inner.backbone.config.tie_word_embeddings or is_ours
        if has_weights and encoder.rows is None and not is_tied:
            raise UserError(
                f"{folder}: by config.json the model has a separate head (tie_word_embeddings: false), but "
                "lm_head.weight is missing in model.safetensors. Fetch the whole model"
            )
        return encoder

    @classmethod
    @takes_peer_options
    def around(
        cls,
        inner: SentenceEncoder,
        *,
        true_answer: str | None = None,
        false_answer: str | None = None,
        template: str | None = None,
        instruction: str | None = None,
    ) -> Self:
        """Build a new encoder from any language model. Without a head, it uses the token embeddings as one.

        Args:
            inner: The language model. It is not changed, and shares its weights.
            true_answer: The answer for a match, one token. None: yes.
            false_answer: The other answer, one token. None: no.
            template: Text with {query}, {document} and optionally {instruction}. None: that of
                Qwen3-Reranker, without turn markers if the tokenizer has none.
            instruction: None: that of Qwen3-Reranker.

        Returns:
            The reranker.

        Raises:
            UserError: An answer that is not a token.
        """
        inner = around_same_weights(inner)
        tokenizer = inner.tokenizer
        _require_answering(inner.backbone.config, shown=tokenizer.name_or_path or "this encoder")
        has_turns = "<|im_start|>" in tokenizer.get_vocab()
        text = template or (CHAT if has_turns else f"{LINES}\n<Answer>:")
        answers = [
            _answer_number(tokenizer, value or usual, key)
            for key, value, usual in (("true_answer", true_answer, YES), ("false_answer", false_answer, NO))
        ]
        tokenizer.chat_template = chat_template(text)
        prompts = Prompts({NAME: instruction or INSTRUCTION}, NAME) if "{instruction}" in text else Prompts()
        if instruction and not prompts.texts:
            raise UserError("instruction: the template has no place {instruction} for it")
        return cls(inner, answers=answers, prompts=prompts, format="flat")

    @classmethod
    @takes_peer_options
    def load(
        cls, source: str | Path, *, revision: str | None = None, device: str | torch.device = "cpu"
    ) -> Self:
        """Load from a folder, a run or the hub, in float32 and in evaluation mode.

        Reads our format and that of sentence-transformers with a LogitScore.

        Args:
            source: A folder, a run or a hub id.
            revision: Branch, tag or commit of a hub id. None: the newest.
            device: Device of the weights.

        Returns:
            The encoder.

        Raises:
            UserError: The source does not hold such an encoder.
        """
        target, path = open_device(device), encoder_source(source, revision)
        folder = locate_folder(path) or download(path, revision)
        if not gives_answers(folder):
            raise UserError(
                f"{source}: holds no language model that scores pairs by its answer. Load "
                "it with CrossEncoder.load(…), or with SentenceEncoder.load(…) if it gives embeddings"
            )
        config = BackboneConfig(path=path, revision=revision, initialize="pretrained", pooling="last")
        encoder = cls.of_folder(SentenceEncoder.of(read_components(config, seed=0, reader=READER)), folder)
        encoder._is_loaded_from(folder)
        warn_of(source, [*encoder.load_warnings, *unlike_predict(folder)])
        return encoder.to(target).eval()

    @property
    def outputs(self) -> int:
        return 1

    @property
    def facts(self) -> list[str]:
        rows = [] if self.rows is None else [self.rows.detach().cpu().numpy().tobytes().hex()]
        sides = [self.template.around(chr(0), is_query=is_query) for is_query in (True, False)]
        return [*rows, str(self.answers), *sides]

    @property
    def load_warnings(self) -> tuple[str, ...]:
        return tuple(line for line in self.inner.load_warnings if not line.startswith("pooling="))

    @property
    def instruction(self) -> str | None:
        """The instruction by which the model judges. None: that of the template."""
        return self.prompts.text or None

    @instruction.setter
    def instruction(self, text: str | None) -> None:
        self.set_instruction(text)

    def set_instruction(self, text: str | None) -> None:
        """Set the instruction.

        Args:
            text: The instruction. None: that of the template.

        Raises:
            UserError: The template has no place for one.
        """
        texts = {name: value for name, value in self.prompts.texts.items() if name != NAME}
        prompts = Prompts(texts | {NAME: text}, NAME) if text else Prompts(texts)
        template = self._template_of(text or None)
        if isinstance(template, AnswerPrompt):
            parts = (template.before, template.between, template.after)
            if text and all(text not in part for part in parts):
                raise UserError(
                    f"instruction={short(repr(text))}: the chat template of this encoder has no place for one. Leave "
                    "it out"
                )
        vars(self).update(prompts=prompts, template=template)

    def _template_of(self, instruction: str | None) -> AnswerPrompt | PlainPair:
        if self._format == "plain":
            return PlainPair.around_pairs(self.inner.tokenizer, instruction)
        return AnswerPrompt.of(self.inner.tokenizer, instruction, format=self._format)

    @property
    def reader(self) -> SideReader:
        """Tokeniser of documents, and by `reading` of queries."""
        return SideReader(self)

    def tables(
        self, first: Sequence[str], second: Sequence[str], *, progress: bool | None = False
    ) -> tuple[TokenTable, TokenTable]:
        asking, answering = self.readers
        return asking.tokenize(first, progress=progress), answering.tokenize(second, progress=progress)

    @property
    def readers(self) -> tuple[SideReader, SideReader]:
        return SideReader(self, is_query=True), self.reader

    def forward(self, tokens: Tokens) -> Float[Tensor, "pairs 1"]:
        # In float32 also under autocast: rounded scores tie, and ties change ranks.
        pooled = self.inner(tokens)
        with torch.autocast(pooled.device.type, enabled=False):
            return functional.linear(pooled.float(), self.direction().float())

    def direction(self) -> Float[Tensor, "1 dim"]:
        """The vector multiplied with the last state: the row of yes minus the row of no.

        Returns:
            Tensor (1, dim).
        """
        if self.rows is not None:
            first, *other = self.rows
        else:
            table = token_embeddings(self.backbone).weight
            first, *other = (table[number] for number in self.answers)
        return (first - other[0] if other else first).unsqueeze(0)

    def whole_head(self) -> Float[Tensor, "vocabulary dim"] | None:
        """The head with its current rows. None: it is tied to the token embeddings.

        Returns:
            Tensor (vocabulary, dim), or None.
        """
        if self.rows is None or self._stored.head is None:
            return None
        head = self._stored.head.to(self.backbone.dtype).clone()
        head[list(self.answers)] = self.rows.detach().cpu().to(head.dtype)
        return head

    def write_files(self, folder: Path, card: dict[str, Any], place: str) -> None:
        """Fill an empty folder as `save` does.

        Args:
            folder: The empty folder.
            card: Facts for the README.
            place: Name of the encoder in the README.
        """
        _write_answers(self, folder, card, place=place)


class _Stored:
    """The whole stored head. Copies of an encoder share it."""

    def __init__(self, head: Tensor | None) -> None:
        self.head = head

    def __deepcopy__(self, memo: dict[int, Any]) -> "_Stored":
        return self


def _answer_number(tokenizer: PreTrainedTokenizerBase, token: str, key: str) -> int:
    """Return the token number of an answer. Raises UserError if the tokenizer lacks it as one token."""
    with naming(f"{key}={short(repr(token))}: the tokenizer cannot look it up", ". Type a token"):
        numbers = tokenizer(token, add_special_tokens=False)["input_ids"]
    number = tokenizer.get_vocab().get(token, numbers[0] if len(numbers) == 1 else None)
    if number is None or number == tokenizer.unk_token_id:
        raise UserError(
            f"{key}={short(token)}: the tokenizer of {tokenizer.name_or_path or 'this encoder'} has no such token. "
            "Choose two that it has, such as true_answer='\"是\"' false_answer='\"否\"'"
        )
    return int(number)


class GenerativeRerankers(CrossEncoders):
    """A query and a document as one question to a language model. The first text of a row is the query."""

    described = "a reranker"
    encoder_type = GenerativeReranker

    def holds(self, folder: Path) -> bool:
        return gives_answers(folder)

    def _collator(self, encoder: Any, tokenize: CachedTokenizer, options: dict[str, Any]) -> SentenceCollator:
        reading = copy.copy(tokenize)
        reading.encoder = encoder.reader
        orders = {"both_in_training": False, "both_in_evaluation": False} | options
        return AskedPairCollator(reading, join=encoder.join, room=encoder.room, **orders)

    def cut(self, encoder: Any, examples: Examples, lengths: np.ndarray | None = None) -> TruncationStats:
        if len(examples.columns) == 1:
            return truncated_sentences(encoder.inner, examples, None)
        return truncated_query_pairs(encoder, examples)

    def export(self, encoder: Any, path: Path, *, quantised: bool) -> Path:
        raise UserError(
            "a language model that scores pairs by its answer is not exported as a graph. Use --format "
            "sentence-transformers, whose folder servers of language models read"
        )
