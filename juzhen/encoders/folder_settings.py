"""Keys of sentence-transformers files, and their treatment. Needs no torch.

Ignoring a key that changes numbers would be silently wrong. An unknown key, such as one of a later version, is refused
unless it is null, false or empty.
"""

import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from enum import StrEnum, auto
from pathlib import Path
from typing import TYPE_CHECKING, Any

from juzhen.core import safe_open
from juzhen.core.columns import require_finite_weights
from juzhen.core.errors import UserError, foreign_reason
from juzhen.core.text import short

if TYPE_CHECKING:
    from torch import Tensor


PANIC = "PanicException"
"""Name of a Rust panic of tokenizers and safetensors, which is not an Exception."""


def read_settings(path: Path) -> dict[str, Any]:
    """Read the object that a JSON file holds.

    Args:
        path: A JSON file.

    Returns:
        Content of the file.

    Raises:
        UserError: The file is missing, is no JSON or holds no object, or a number in it is NaN or infinite.
    """
    with naming(str(path)):
        settings = safe_open.read_json(path)
        if not isinstance(settings, dict):
            raise ValueError(f"its content is {short(repr(settings))}, expected an object {{…}}")
    for key, number in _numbers(settings):
        if not math.isfinite(number):
            raise UserError(
                f"{path}: {key}={number}: expected a finite number. Copy the file again, or mend it."
            )
    return settings


def _numbers(settings: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, float]]:
    """Keys that have a number. Bounds in lists are not among them: Mamba's time_step_limit ends at infinity."""
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from _numbers(value, f"{before}{key}.")
        elif isinstance(value, float):
            yield f"{before}{key}", value


def read_tensors(path: Path) -> "dict[str, Tensor]":
    """Read the tensors of a safetensors file.

    Args:
        path: A safetensors file.

    Returns:
        Tensors by name, on the CPU.

    Raises:
        UserError: A tensor holds NaN or infinity. safetensors raises its own error for a broken file.
    """
    from safetensors.torch import load_file

    tensors = load_file(path)
    require_finite_weights(tensors.items(), path)
    return tensors


COPY_AGAIN = ". Copy the files again, whole (git lfs pull where they are pointers)"

ANOTHER = ". Use another encoder"


@contextmanager
def naming(message: str, way_out: str | None = None) -> Iterator[None]:
    """Turn any error raised inside into a UserError: the message, the reason behind it, and the way out.

    transformers, tokenizers and safetensors raise a dozen unrelated types for files that are damaged or do not belong
    together: KeyError, ZeroDivisionError, and panics. A UserError passes unchanged.

    Args:
        message: First part of the message. It names the file or the setting.
        way_out: Comes after the reason. None shows the type of the error, and COPY_AGAIN.

    Raises:
        UserError: Any other error was raised inside.
    """
    try:
        yield
    except UserError:
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != PANIC:
            raise
        if sys.flags.optimize > 1:
            message += (
                ": PYTHONOPTIMIZE=2 takes away docstrings, which transformers reads. Unset it, or set it to 1"
            )
        reason = foreign_reason(error)
        said = f" ({reason}){way_out}"
        if way_out is None:
            ending = ". Use another model" if reason.startswith("it comes with code") else COPY_AGAIN
            said = f": {type(error).__name__}: {reason.rstrip('.')}{ending * (sys.flags.optimize < 2)}"
        raise UserError(f"{message}{said}") from error


LENGTH_FILE = "sentence_bert_config.json"
_NAMES = ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
"""Of the settings of a Transformer: sentence_bert_config.json and, from older versions, the others."""


class ModelType(StrEnum):
    """`model_type` in the files of sentence-transformers, and of PyLate for the last one. Values equal the names."""

    @staticmethod
    def _generate_next_value_(name: str, *_: Any) -> str:
        return name

    SentenceTransformer = auto()
    CrossEncoder = auto()
    SparseEncoder = auto()
    MultiVectorEncoder = auto()
    ColBERT = auto()


SENTENCES, PAIRS, SPARSE, TOKEN_VECTORS, PYLATE = ModelType
ROUTER = "Router"
"""Module with separate modules for queries and documents."""
ANSWERS = "LogitScore"
"""Module that scores pairs by the answer of a language model."""

CLASSIFIES = "sequence-classification"
"""The task of a cross-encoder that is one model of transformers with its own head."""

READ, NEUTRAL, UNREAD = "read", "neutral", "unread"
"""Its reader computes with it, or refuses it itself · it changes no number · refused unless null, false or empty."""

Rule = str | frozenset[str]
"""A set names the models that use or ignore the key. Other models refuse it."""

_EXPANDED = frozenset({TOKEN_VECTORS, PAIRS})
_OF_PYLATE = frozenset({PYLATE})
_ARGUMENTS = {
    "model_args": "model_kwargs",
    "config_args": "config_kwargs",
    "tokenizer_args": "processor_kwargs",
}
"""Older key of arguments → the key of today, which does not count beside it."""


def rules(keys: str, rule: Any) -> dict[str, Any]:
    """Key → rule, for keys that are separated by spaces.

    Args:
        keys: Names with spaces between them.
        rule: READ, NEUTRAL, UNREAD, a set of models, or a tuple of supported values.

    Returns:
        Each key with the same rule.
    """
    return dict.fromkeys(keys.split(), rule)


_NEUTRAL_SIZES = rules("embedding_dimension word_embedding_dimension", NEUTRAL)

KEYS: dict[str, dict[str, Rule]] = {
    "modules.json": rules("path type", READ) | rules("idx name kwargs", NEUTRAL),
    "config_sentence_transformers.json": rules(
        "default_prompt_name include_prompt max_active_dims model_type prompts similarity_fn_name truncate_dim",
        READ,
    )
    | rules("added_prompt_names", READ)
    # A score here is a logit, before their activation.
    | rules("__version__ activation_fn keep_in_fp32_modules requirements", NEUTRAL)
    | rules("attend_to_expansion_tokens attend_to_mask_tokens do_query_expansion document_length", _OF_PYLATE)
    | rules("document_prefix query_expansion query_length query_prefix skiplist_words", _OF_PYLATE),
    "Transformer": rules("do_lower_case max_seq_length modality_config module_output_name", READ)
    | rules("processing_kwargs transformer_task", READ)
    | dict.fromkeys((*_ARGUMENTS, *_ARGUMENTS.values()), READ)
    | rules("backend unpad_inputs", NEUTRAL)
    | rules("document_length query_expansion query_length", _EXPANDED)
    | rules("tokenizer_name_or_path", UNREAD),
    "Pooling": _NEUTRAL_SIZES
    | rules("include_prompt pooling_mode pooling_mode_cls_token pooling_mode_lasttoken", READ)
    | rules("pooling_mode_max_tokens pooling_mode_mean_sqrt_len_tokens pooling_mode_mean_tokens", READ)
    | rules("pooling_mode_weightedmean_tokens", READ),
    "WeightedLayerPooling": _NEUTRAL_SIZES | rules("layer_start num_hidden_layers", READ),
    "Dense": rules("activation_function bias in_features module_input_name module_output_name", READ)
    | rules("out_features use_residual", READ),
    "LayerNorm": rules("dimension", READ),
    "Normalize": rules("module_input_name module_output_name", READ),
    "Dropout": rules("dropout", NEUTRAL),
    "SpladePooling": _NEUTRAL_SIZES
    | rules("activation_function pooling_strategy", READ)
    | rules("chunk_size", NEUTRAL),
    "MultiVectorMask": rules("keep_only_token_ids skiplist_tasks skiplist_words", READ),
    ROUTER: rules("parameters structure types", READ),
    f"{ROUTER} parameters": rules("allow_empty_key default_route route_mappings", READ),
    "LogitScore": rules("false_token_id module_input_name true_token_id", READ),
}
"""File or module type → key → rule."""

WITH = (
    rules(
        "attn_implementation cache_dir clean_up_tokenization_spaces device_map dtype local_files_only",
        NEUTRAL,
    )
    | rules(
        "low_cpu_mem_usage output_hidden_states padding_side token torch_dtype trust_remote_code", NEUTRAL
    )
    | rules("use_cache use_fast use_safetensors", NEUTRAL)
)
"""Loading arguments of a Transformer, rules as in `KEYS`. `model_max_length` is read separately."""

CALLED = rules("pad_to_multiple_of padding return_tensors verbose", NEUTRAL) | {"truncation": READ}
"""Tokenizer arguments of a Transformer (`processing_kwargs`), rules as in `KEYS`. `max_length` is read separately."""

OUTPUTS = {
    "feature-extraction": ("last_hidden_state", "token_embeddings"),
    CLASSIFIES: ("logits", "scores"),
    "fill-mask": ("logits", "token_embeddings"),
    "text-generation": ("logits", "causal_logits"),
}
"""Task of a Transformer → output of its model, and the name of that output."""

TASKS = {
    SENTENCES: ("feature-extraction",),
    TOKEN_VECTORS: ("feature-extraction",),
    PYLATE: ("feature-extraction",),
    SPARSE: ("fill-mask",),
    PAIRS: (CLASSIFIES, "feature-extraction"),
    ANSWERS: ("text-generation",),
}
"""Model → the tasks of its Transformer."""

WAY_OUT = "Put null in its place where it may be left out"


FLAGS = rules(
    "allow_empty_key attend_to_expansion_tokens attend_to_mask_tokens bias do_lower_case do_query_expansion",
    READ,
) | rules("include_prompt normalize segments symmetric use_residual", READ)
"""Keys whose values are true or false, as those of pooling_mode_. Any text would count as true."""


def require_flags(settings: Mapping[str, Any], path: Path) -> None:
    """Raise UserError for a value that is neither true nor false where one of them is read.

    Args:
        settings: Content of the file.
        path: The file, for messages.

    Raises:
        UserError: Another value than true, false or null.
    """
    for key, value in settings.items():
        if (key in FLAGS or key.startswith("pooling_mode_")) and value not in (None, True, False):
            raise UserError(f"{path}: {key}={short(repr(value))}: expected true or false. Mend the file")


def require_decided(settings: Mapping[str, Any], path: Path, kind: str, *, model: str | None = None) -> None:
    """Check that no key is ignored that could change a number.

    Args:
        settings: Content of the file.
        path: The file, for messages.
        kind: A key of `KEYS`.
        model: Model type of sentence-transformers.

    Raises:
        UserError: A key is not supported, and is not null, false or empty.
    """
    require_flags(settings, path)
    for key, value in settings.items():
        rule = KEYS[kind].get(key)
        if (
            rule not in (READ, NEUTRAL)
            and not is_empty(value)
            and not (isinstance(rule, frozenset) and model in rule)
        ):
            problem = "not known here, as of a later version" if rule is None else "not computed with here"
            raise UserError(f"{path}: {key}={short(repr(value))}: {problem}. {WAY_OUT}")


def read_module(folder: Path, kind: str) -> dict[str, Any]:
    """Read config.json of a module.

    Args:
        folder: Folder of the module.
        kind: Class of the module in sentence-transformers, without its package.

    Returns:
        The settings. {} for a missing file, and for a kind without settings of its own.

    Raises:
        UserError: An unsupported key, or a Pooling without settings.
    """
    path = folder / "config.json"
    settings = {} if kind not in KEYS or kind == "Transformer" or not path.is_file() else read_settings(path)
    if kind == "Pooling" and not settings:
        raise UserError(f"{path}: missing or empty, so no pooling is known. Copy it again")
    require_decided(settings, path, kind)
    return settings


def is_empty(value: Any) -> bool:
    """True for null, false, or an empty text, list or object.

    Args:
        value: A value of a JSON file.

    Returns:
        False for 0 and for other numbers.
    """
    return value is None or value is False or value in ("", [], {})


def read_transformer_settings(folder: Path, model: str) -> dict[str, Any]:
    """Read the Transformer settings of sentence-transformers, {} without a file.

    `max_length` is the number of tokens of a text, from the last of four possible settings, or None.

    Args:
        folder: Folder of the transformer.
        model: Model type of sentence-transformers.

    Returns:
        Settings of the file, and `max_length`.

    Raises:
        UserError: A setting would change how texts are read.
    """
    path, settings = _settings(folder)
    if not settings:
        return {}
    require_decided(settings, path, "Transformer", model=model)
    task = settings.get("transformer_task") or ("fill-mask" if model == SPARSE else "feature-extraction")
    if task not in TASKS[model]:
        raise UserError(f"{path}: transformer_task={short(repr(task))}: expected {' or '.join(TASKS[model])}")
    _require_output(settings, path, task, model)
    lengths = [settings.get("max_seq_length")]
    for old in _ARGUMENTS:
        name, arguments = _arguments(settings, old)
        is_of_tokenizer = old == "tokenizer_args"
        lengths.append(arguments.get("model_max_length") if is_of_tokenizer else None)
        others = (key for key in arguments if not (is_of_tokenizer and key == "model_max_length"))
        _require_known(path, name, arguments, others, WITH)
    lengths.append(_length_of_calls(settings.get("processing_kwargs") or {}, path, model))
    said = [length for length in lengths if length is not None]
    for length in said:
        if not isinstance(length, int) or isinstance(length, bool) or length < 1:
            raise UserError(
                f"{path}: a text of {short(repr(length))} tokens. Expected a whole number from 1 on"
            )
    return settings | {"max_length": said[-1] if said else None}


def _arguments(settings: Mapping[str, Any], old: str) -> tuple[str, Mapping[str, Any]]:
    """Key and content of loading arguments in the settings of a Transformer. `old` is a key of `_ARGUMENTS`."""
    name = old if old in settings else _ARGUMENTS[old]
    return name, settings.get(name) or {}


def stated(folder: Path, *keys: str) -> list[Any]:
    """Values of keys by which sentence-transformers loads a transformer: of the arguments, then of config.json.

    Args:
        folder: Folder of the transformer.
        *keys: Names of keys.

    Returns:
        Values that are not null. Those of the arguments come first.

    Raises:
        UserError: A file that is no JSON object.
    """
    settings, path = _settings(folder)[1], folder / "config.json"
    found = [_arguments(settings, old)[1] for old in ("model_args", "config_args")]
    found += [read_settings(path)] if path.is_file() else []
    return [value for one in found for key in keys if (value := one.get(key)) is not None]


def lower_cases(folder: Path) -> bool:
    """True if sentence-transformers lowercases texts. False if the file is missing or broken.

    Args:
        folder: Folder of the transformer.

    Returns:
        Value of `do_lower_case`.
    """
    with suppress(UserError):
        return bool(_settings(folder)[1].get("do_lower_case"))
    return False


def _settings(folder: Path) -> tuple[Path, dict[str, Any]]:
    """The first file that holds settings, as sentence-transformers looks for one, and its content. {} without one."""
    paths = [folder / f"sentence_{name}_config.json" for name in _NAMES]
    read = ((path, read_settings(path)) for path in paths if path.is_file())
    return next(((path, settings) for path, settings in read if settings), (paths[0], {}))


def _require_output(settings: Mapping[str, Any], path: Path, task: str, model: str) -> None:
    """Raise UserError if the model output is not that of the task, or if texts need a chat template."""
    output, name = OUTPUTS[task]
    kinds = settings.get("modality_config") or {"text": {}}
    if "message" in kinds and model != ANSWERS:
        raise UserError(
            f"{path}: modality_config: message: texts are put into a chat template first, which is not done here. Take "
            "message out where the encoder was trained without"
        )
    for kind in [name for name in ("text", "message") if name in kinds] or ["text"]:
        way = kinds.get(kind)
        found = None if way is None else (way.get("method_output_name", output), way.get("method", "forward"))
        if found not in ((output, "forward"), ([output], "forward")):
            raise UserError(
                f"{path}: modality_config: {kind}={short(repr(way))}: expected {output} of forward"
            )
    if settings.get("module_output_name", name) != name:
        raise UserError(
            f"{path}: module_output_name={short(repr(settings['module_output_name']))}: expected {name}"
        )


def _length_of_calls(calls: Mapping[str, Any], path: Path, model: str) -> Any:
    """Tokens of a text in `processing_kwargs`. Raises UserError for any other change."""
    length = None
    for kind, arguments in calls.items():
        if kind in ("audio", "image", "video") or is_empty(arguments):
            continue
        place = f"processing_kwargs: {kind}"
        if kind not in ("text", "common"):
            if kind == "chat_template" and model != ANSWERS:
                continue
            raise UserError(f"{path}: {place}={short(repr(arguments))}: not computed with here. {WAY_OUT}")
        is_length = kind == "text" and model not in (TOKEN_VECTORS, PYLATE, ANSWERS)
        others = [key for key in arguments if not (is_length and key == "max_length")]
        if arguments.get("truncation", True) not in (True, "longest_first"):
            raise UserError(
                f"{path}: {place}: truncation={arguments['truncation']!r}: long texts are cut here"
            )
        _require_known(path, place, arguments, others, CALLED)
        length = arguments.get("max_length") if is_length else length
    return length


def _require_known(
    path: Path, place: str, arguments: Mapping[str, Any], keys: Iterable[str], known: Mapping[str, Rule]
) -> None:
    for key in keys:
        if key not in known:
            raise UserError(
                f"{path}: {place}: {key}={short(repr(arguments[key]))}: not computed with here. {WAY_OUT}"
            )
