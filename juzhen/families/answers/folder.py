"""The folder of a language model that scores pairs by its answer, as sentence-transformers has it (LogitScore).

It is a whole causal model of transformers with a chat template, so that every program that runs such a model reads it.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import safe_open
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, PretrainedConfig, PreTrainedModel

from juzhen.core.atomic_write import write_json, write_text
from juzhen.core.columns import require_finite_weights
from juzhen.core.errors import UserError
from juzhen.core.text import short
from juzhen.encoders.backbone import ARCHITECTURES, looks_ahead, quiet
from juzhen.encoders.base_weights import has_adapter, is_ours_alone
from juzhen.encoders.folder_settings import (
    ANSWERS,
    LENGTH_FILE,
    naming,
    read_module,
    read_transformer_settings,
)
from juzhen.encoders.layout import MODULES_FILE, inside, read_model_settings, read_modules
from juzhen.encoders.projection import IDENTITY
from juzhen.encoders.prompts import PROMPTS_FILE, Prompts, prompts_of
from juzhen.encoders.resolve_path import weight_files
from juzhen.encoders.save import pair_card, save_tokenizer, save_transformer
from juzhen.encoders.thresholds import write_thresholds
from juzhen.families.answers.prompt import Format

TASK, LOGITS = "text-generation", "causal_logits"
FOLDER = "1_LogitScore"
HEAD = "lm_head.weight"
TYPES = ("sentence_transformers.base.modules.transformer.Transformer",)
SCORE = f"sentence_transformers.cross_encoder.modules.logit_score.{ANSWERS}"
CHANGES = ("final_logit_softcapping", "logit_scale", "logits_scaling", "logits_scale", "lm_head_multiplier")
"""Entries of config.json by which architectures change the logits that their head gives."""


@dataclass(frozen=True)
class AnswerLayout:
    """What a folder says beside the model and its chat template.

    answers  number of the token for yes, and of that for no; of yes alone where its logit is the score
    prompts  the default one is the instruction, a message of the system
    format   as of `GenerativeReranker`; None: as the template takes it
    """

    answers: tuple[int, ...]
    prompts: Prompts
    format: Format | None


def read_answers(folder: Path) -> AnswerLayout:
    """What such a folder says. Raises UserError for what sentence-transformers would compute otherwise."""
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
    """How pairs are put together: by the chat template, as it takes contents, or without one."""
    kinds = about.get("modality_config") or {}
    if "message" not in kinds:
        return "plain"
    format = (kinds["message"] or {}).get("format")
    return format if format in ("flat", "structured") else None


def require_answering(architecture: PretrainedConfig, *, shown: str) -> None:
    """Raises UserError for what is no language model that reads to the left, or changes its logits."""
    known = ARCHITECTURES.get(architecture.model_type)
    built = AutoModelForCausalLM._model_mapping.get(type(architecture), None)
    if known is None or not known.is_decoder or built is None or looks_ahead(architecture):
        decoders = ", ".join(name for name, entry in ARCHITECTURES.items() if entry.is_decoder)
        raise UserError(
            f"{shown}: {architecture.model_type} is no language model that looks to the left, whose answer could be a "
            f"score; known: {decoders}. For encoders such as BERT choose a cross-encoder"
        )
    for name in CHANGES:
        if getattr(architecture, name, None) not in (None, 1, 1.0):
            raise UserError(
                f"{shown}: its logits are changed by {name}={getattr(architecture, name)}, which is not computed here"
            )


def stored_head(architecture: PretrainedConfig, folder: Path | None) -> Tensor | None:
    """The head in the files of a model, (vocabulary, dim); None: it is the table of tokens, or there is none."""
    if architecture.tie_word_embeddings or folder is None:
        return None
    for path in weight_files(folder):
        with safe_open(path, framework="pt") as file:
            if HEAD in file.keys():  # noqa: SIM118
                head = file.get_tensor(HEAD)
                require_finite_weights([(HEAD, head)], path)
                return head
    return None


def causal_model(backbone: PreTrainedModel, head: Tensor | None) -> PreTrainedModel:
    """The whole model around a backbone, whose weights it shares. head: None: the table of tokens."""
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


def write_answers(encoder: Any, folder: Path, card: dict[str, Any], *, place: str) -> None:
    """Fills an empty folder. encoder: a `GenerativeReranker`; the others as of `save_encoder`.

    An adapter is written alone; as ours where sentence-transformers finds no head in its base, or not the adapter.
    """
    inner, is_whole = encoder.inner, not has_adapter(encoder.backbone)
    finds_head = encoder.rows is not None or encoder.backbone.config.tie_word_embeddings
    is_theirs = is_whole or (finds_head and not is_ours_alone(encoder.backbone))
    if is_whole:
        with quiet():
            causal_model(encoder.backbone, encoder.whole_head()).save_pretrained(folder)
        save_tokenizer(inner, folder)
    else:
        save_transformer(inner, folder)
    package = TYPES[0] if is_theirs else "juzhen.Transformer"
    listed = [
        {"idx": number, "name": str(number), "path": path, "type": kind}
        for number, (path, kind) in enumerate((("", package), (FOLDER, SCORE)))
    ]
    names = dict(zip(("true_token_id", "false_token_id"), [*encoder.answers, None], strict=False))
    (folder / FOLDER).mkdir()
    _json(folder / FOLDER / "config.json", names | {"module_input_name": LOGITS})
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
    _json(folder / LENGTH_FILE, about)
    versions = {"pytorch": torch.__version__, "transformers": transformers.__version__}
    settings = {"model_type": "CrossEncoder", "activation_fn": IDENTITY} | encoder.prompts.as_dict()
    _json(folder / PROMPTS_FILE, {"__version__": versions} | settings)
    _json(folder / MODULES_FILE, listed)
    facts = {"score": " − ".join(f"logit({token})" for token in _tokens(encoder))}
    facts |= {"instruction": encoder.instruction} if encoder.instruction else {}
    text = pair_card(encoder, facts, {"name": "Reranker"} | card, loads_elsewhere=is_theirs, place=place)
    write_text(folder / "README.md", text, in_own_folder=True)
    write_thresholds(folder, card)


def _tokens(encoder: Any) -> Sequence[str]:
    tokens: Sequence[str] = encoder.inner.tokenizer.convert_ids_to_tokens(list(encoder.answers))
    return tokens


def _json(path: Path, content: Any) -> None:
    write_json(path, content, indent=2, in_own_folder=True)
