"""Options and method names of other toolkits, accepted if they mean the same."""

import inspect
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import wraps
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, ClassVar, ParamSpec, TypeVar, Union, get_args, get_origin

import numpy as np
from torch import nn
from transformers import PreTrainedTokenizerBase

from juzhen.core.aliases import setting_meant
from juzhen.core.columns import described
from juzhen.core.errors import CallError, UserError, nearest
from juzhen.core.text import short

Given = ParamSpec("Given")
Result = TypeVar("Result")

_RENAMED = {
    "show_progress": "show_progress_bar progress_bar",
    "progress": "show_progress_bar show_progress",
    "texts": "sentences inputs text",
    "pairs": "sentences inputs sentence_pairs",
    "source": "model_name_or_path pretrained_model_name_or_path model_name name_or_path",
    "message": "commit_message",
    "repo_id": "repo_name hub_model_id",
    "folder": "save_directory output_dir output_path output_folder path",
    "workers": "num_proc n_jobs",
    "top": "top_k k topk n",
    "truncate_dim": "dim dims dimensions",
    "query": "queries question",
    "queries": "query query_embeddings questions",
    "documents": "docs corpus passages",
    "corpus": "documents docs passages corpus_embeddings",
    "top_k": "k n limit topk num_results",
    "rerank": "reranker",
    "where": "filter filters",
    "vectors": "embeddings",
    "count": "k n_clusters num_clusters",
    "min_score": "threshold score_threshold",
    "min_size": "min_community_size",
    "encoder": "model",
    "rows": "train_dataset train_data train_examples train_objectives data dataset examples",
    "sets": "rows data dataset eval_dataset test_data tasks",
    "dev": "eval_dataset dev_dataset eval_data dev_data validation_data",
    "loss": "train_loss loss_fn criterion",
    "epochs": "num_train_epochs num_epochs n_epochs max_epochs epoch",
    "learning_rate": "lr",
    "batch_size": "per_device_train_batch_size train_batch_size",
    "warmup": "warmup_ratio",
    "decay": "lr_scheduler_type",
    "clip_norm": "max_grad_norm",
    "seed": "random_state random_seed data_seed",
    "sources": "encoders models",
    "cross_encoder": "reranker",
    "method": "merge_method",
    "base": "base_model",
}
RENAMED = {
    name: [ours for ours, theirs in _RENAMED.items() if name in theirs.split()]
    for name in " ".join(_RENAMED.values()).split()
}
"""Option of other toolkits → options here that mean the same. A callable takes the one that it has."""

_WAYS_OUT = {
    "batch_size": "batches are counted in tokens, whatever the length of the texts. Type batch_tokens=16384, or leave "
    "it out",
    "output_value": "one result for each text is given. Load an encoder of token vectors: MultiVectorEncoder.load(…)",
    "precision": "vectors are computed in float32. Store them smaller with juzhen.quantize(vectors)",
    "device": "the encoder computes where its weights are. Move it first: encoder.to(device)",
    "pool": "processes are named here. Type workers=4, or workers=['cuda:0', 'cuda:1']",
    "chunk_size": "processes share the texts by themselves. Type workers=4",
    "num_workers": "no processes prepare the texts. Type workers=4, which share the work, or leave it out",
    "max_length max_seq_length": "the length belongs to the encoder. Set it first: encoder.max_length = 256",
    "convert_to_numpy": "a list of tensors is not given. Type convert_to_tensor=True for one tensor",
    "convert_to_tensor": "arrays are given. Leave it out, and type torch.from_numpy(…)",
    "normalize_embeddings": "scores and vectors are of the length that the encoder learnt. Leave it out",
    "convert_to_sparse_tensor": "a table of scipy is given. Leave it out",
    "save_to_cpu": "arrays are given, which are on the CPU. Leave it out",
    "prompt_name": "encoders of this family read queries and documents by two methods. Use encode_query and "
    "encode_document",
    "task": "a prompt is named. Type prompt_name=…",
    "activation_fn activation_fct": "scores are given as the model computes them. Fit probabilities with juzhen "
    "calibrate RUN",
    "apply_softmax": "one score is given for each pair. encoder.logits(firsts, seconds) gives all logits",
    "prompt": "a text of its own stands before queries, or before documents. Use encode_query and encode_document",
    "modules": "an encoder is made by load. Leave it out",
    "prompts": "prompts are those that were saved. Give one to a call: encode(texts, prompt=…)",
    "default_prompt_name": "the default is what was saved. Name one in a call: encode(texts, prompt_name=…)",
    "use_auth_token token": "the token is that of `hf auth login`, or of HF_TOKEN in the environment. Leave it out",
    "model_card_data": "facts of a card are given to save. Type save(folder, card={…})",
    "backend": "the encoder loads as torch. Give a back end to a call: encode(texts, backend=open_backend(encoder, …))",
    "num_labels": "the number of outputs is that of the saved head. Leave it out",
    "keep_in_fp32_modules": "weights are loaded in float32. Leave it out",
    "safe_serialization": "weights are written as safetensors. Leave it out",
    "local_model_path": "the encoder itself is uploaded. Load the folder first",
    "exist_ok": "a repository that exists gets a commit. Leave it out",
    "replace_model_card": "the card is written anew. Leave it out",
    "train_datasets": "facts of a card are given in one place. Type card={'trained_on': […]}",
    "create_pr": "a commit goes to a branch. Type revision=<existing branch>, or leave it out",
    "trust_remote_code": "code that comes with weights never runs. Leave it out; most encoders need none",
    "cache_folder": "downloads lie where the hub keeps them. Set HF_HOME in the environment",
    "local_files_only": "the network is left out for the whole program. Set HF_HUB_OFFLINE=1 in the environment",
    "model_kwargs": "weights are loaded in float32 as they were saved. Leave it out",
    "tokenizer_kwargs processor_kwargs": "the tokenizer is loaded as it was saved. Set encoder.max_length afterwards, "
    "or leave it out",
    "config_kwargs": "the configuration is loaded as it was saved. Leave it out",
    "similarity_fn_name": "the score is the cosine, or the form that the encoder learnt. Leave it out",
    "instruction": "a text is prepended to each text. Type prompt='…'",
    "query_instruction_for_retrieval": "a text is prepended to queries. Type encode_query(texts, prompt='…')",
    "return_dense": "an encoder gives one kind of vectors. Leave it out",
    "return_sparse": "an encoder gives one kind of vectors. Load such an encoder: SparseEncoder.load(…)",
    "return_colbert_vecs": "an encoder gives one kind of vectors. Load such an encoder: MultiVectorEncoder.load(…)",
    "pooling pooling_mode": "the pooling is that of the saved encoder. Set it afterwards: encoder.pooling = 'mean'",
    "dtype": "weights and vectors are in float32. Leave it out, and store vectors smaller by juzhen.quantize(vectors)",
    "torch_dtype use_fp16": "weights and vectors are in float32. Leave it out",
    "device_map": "an encoder is on one device. Type device='cuda'",
    "attn_implementation": "attention is chosen by the device. Leave it out",
    "return_documents": "the number of each document is given: documents[hit.corpus_id]. Leave it out",
}
WAYS_OUT = {name: why for names, why in _WAYS_OUT.items() for name in names.split()}
"""Option of other toolkits → why it is not taken, and what to type."""

OF_CALLS = {
    "fit": {
        "output_dir": "the encoder is returned. Save it: encoder.save(folder)",
        "evaluator": "rows are scored after each epoch. Type dev=rows",
        "warmup_steps": "a share of all steps is given. Type warmup=0.1",
        "fp16": "bfloat16 is offered, with weights in float32. Type bf16=True",
        "args": "options are given one by one. Type fit(encoder, rows, epochs=1)",
        "optimizer": "AdamW is used. Type learning_rate=2e-5, weight_decay=0.01",
        "tokenizer": "the encoder has its tokenizer. Leave it out",
    },
    "evaluate": {
        "batch_size": "batches are counted in tokens, whatever the length of the texts. Leave it out",
        "split": "rows and files count as a dev split. Type settings=EvaluationSettings(…) for sets by name",
        "metrics": "each kind of rows has its metrics. Leave it out, and read them in scores",
        "output_dir": "the result is returned. Write json.dumps(…) of its scores to a file",
    },
    "merge": {
        "alpha": "each model has its share. Type weights=[0.5, 0.5]",
        "t": "each model has its share. Type weights=[0.5, 0.5]",
        "lambda_": "the task vector has a factor. Type scale=…",
        "output_dir": "the encoder is returned. Save it: merge(…).save(folder)",
    },
    "mine": dict.fromkeys(
        [
            "num_negatives",
            "range_max",
            "range_min",
            "relative_margin",
            "absolute_margin",
            "margin",
            "max_score",
            "min_score",
        ],
        "rules have one argument. Type options=MiningOptions(num_negatives=4)",
    ),
    "score": dict.fromkeys(("threshold", "score_threshold"), "scores are given. Compare them: scores >= 0.7"),
    "quantize": {"calibration_embeddings": "ranges are given. Type ranges=byte_ranges(vectors)"},
    "search": {
        "score_function": "the score is the cosine, or the form that the encoder learnt. Leave it out",
        **dict.fromkeys(
            ("min_score", "threshold", "score_threshold"),
            "hits carry their score. Type [hit for hit in hits if hit.score >= 0.7]",
        ),
    },
}
OF_CALLS["rank"] = OF_CALLS["search"]
"""Function or method → its own answers, which come before those of `WAYS_OUT`."""

MADE_BY = {
    "Backend": "open_backend(encoder, 'onnx')",
    "EmbeddingCache": "EmbeddingCache(folder)",
    "EvaluationSettings": "EvaluationSettings(…)",
    "MiningOptions": "MiningOptions(…)",
    "PairEncoder": "CrossEncoder.load(…)",
    "RankingSet": "load_ranking(name)",
    "SentenceEncoder": "SentenceEncoder.load(…)",
    "Examples": "as_examples(rows)",
    "Rows": "read_rows(path)",
    "Path": "a path",
    "dict": "a dict",
    "repo_id": "owner/name",
}
"""Class of an argument, or its name → what to give."""

PLAIN: Mapping[Any, tuple[Any, str]] = {
    optional: (kind, called)
    for own, kind, called in (
        (bool, bool | np.bool_, "True or False"),
        (int, Integral, "a whole number"),
        (float, Real, "a number"),
        (str, str | Path, "a text"),
    )
    for optional in (own, own | None)
}
"""Annotation → what its values are, and how that is called."""

_HARMLESS: Sequence[tuple[str, tuple[Any, ...]]] = (
    (
        "activation_fct activation_fn cache_folder chunk_size default_prompt_name keep_in_fp32_modules",
        (None,),
    ),
    ("local_model_path max_length max_seq_length model_card_data modules num_labels pool prompt", (None,)),
    ("prompt_name prompts task train_datasets", (None,)),
    ("apply_softmax convert_to_sparse_tensor convert_to_tensor local_files_only", (None, False)),
    ("normalize_embeddings return_documents token trust_remote_code use_auth_token", (None, False)),
    ("config_kwargs model_kwargs processor_kwargs tokenizer_kwargs", (None, {})),
    ("exist_ok replace_model_card safe_serialization", (True,)),
    ("backend", ("torch",)),
    ("convert_to_numpy", (None, True)),
    ("create_pr", (False,)),
    ("num_workers", (None, 0)),
    ("output_value", (None, "sentence_embedding")),
    ("precision", (None, "float32")),
    ("save_to_cpu", (None, False, True)),
    ("similarity_fn_name", (None,)),
)
HARMLESS = {name: values for names, values in _HARMLESS for name in names.split()}
"""Option → values that request the default behaviour."""

NAMES = {
    "get_sentence_embedding_dimension": "dim",
    "get_embedding_dimension": "dim",
    "get_max_seq_length": "max_length",
    "max_seq_length": "max_length",
    "encode_multi_process": "encode(texts, workers=4)",
    "start_multi_process_pool": "encode(texts, workers=4)",
    "stop_multi_process_pool": "encode(texts, workers=4)",
    "similarity_pairwise": "score(firsts, seconds)",
    "rank": "search(query, documents)",
    "encode_queries": "encode_query(texts)",
    "encode_corpus": "encode_document(texts)",
    "compute_score": "score(pairs)",
    "save_to_hub": "push_to_hub(name)",
    "fit": "juzhen.fit(encoder, rows)",
}
"""Method or attribute of sentence-transformers and FlagEmbedding → ours."""


def takes_peer_options(method: Callable[Given, Result]) -> Callable[Given, Result]:
    """Lets a function or a method take options by the names of other toolkits.

    An option that means something else here raises UserError with what to type instead. So does an option that is
    neither True nor False where one of them is expected, an argument of another class than the signature names, a
    number or a text that is none, and a missing or an unknown one.

    Args:
        method: A function, a method or `__init__`. Its signature names the known options.

    Returns:
        A function of the same signature.
    """
    known = inspect.signature(method).parameters
    kinds = {name: found for name, one in known.items() if (found := _classes(one.annotation))}
    plain = {name: one for name, one in known.items() if one.annotation in PLAIN}
    passes_on = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in known.values())
    places = [
        name for name, one in known.items() if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
    ]
    required = [
        name for name, one in known.items() if one.default is one.empty and one.kind is not one.VAR_KEYWORD
    ]
    unnamed = [name for name in places if known[name].kind is inspect.Parameter.POSITIONAL_ONLY]
    is_method = places[:1] in (["self"], ["cls"])
    own = OF_CALLS.get(method.__name__, {})

    def called(args: Sequence[Any]) -> str:
        return type(args[0]).__name__ if method.__name__ == "__init__" else method.__name__

    def is_foreign(name: str) -> bool:
        return name not in known and (not passes_on or name in own or _ours(name, known) is not None)

    @wraps(method)
    def call(*args: Given.args, **options: Given.kwargs) -> Result:
        typed = {_ours(name, known): name for name in options if name not in known}
        if foreign := [name for name in options if is_foreign(name)]:
            translated = {name: value for name, value in options.items() if name not in foreign}
            for name in foreign:
                new = _translated(called(args), args[:1], name, options, known)
                if new.keys() & translated.keys():
                    raise UserError(f"{name}: {next(iter(new))} is given twice. Type one of the two.")
                translated |= new
            options = translated  # type: ignore[assignment]
        if twice := [name for name in places[: len(args)] if name in options]:
            raise CallError(
                f"{called(args)}: {twice[0]} is given twice, by its place and by a name. Give one."
            )
        given = dict(zip(places, args, strict=False)) | options
        by_place = [name for name in unnamed if name in options and name in places[len(args) :]]
        args = (*args, *map(options.pop, by_place))  # type: ignore[assignment]
        for name, value in given.items():
            if name in kinds and not isinstance(value, kinds[name]):
                raise UserError(_of_another_class(name, value, kinds[name]))
            if name in plain:
                _require_plain(typed.get(name, name), plain[name], value)
        if len(args) > len(places):
            least, most = int(is_method), len(places)
            raise CallError(
                f"{method.__name__}: {len(args) - least} values without a name, where {most - least} are taken. Name "
                f"the others: {', '.join(f'{name}=…' for name in [*known][most:]) or 'there are none'}."
            )
        if missing := [name for name in required if name not in given]:
            way = (
                f"Add {missing[0]}=…"
                if called(args) == method.__name__
                else f"Type {called(args)}.load(path)"
            )
            raise CallError(f"{called(args)}: {missing[0]} is missing. {way}.")
        try:
            return method(*args, **options)
        except CallError as error:
            unknown = getattr(error, "option", None)
            if passes_on and unknown is not None and unknown in options:
                raise _unknown(called(args), unknown, {*known, *vars(error)["known"]}) from None
            raise

    return call


def _unknown(called: str, option: str, known: Collection[str]) -> CallError:
    """Return the error about an option that nobody takes. Who passes options on adds its own to the known ones."""
    known = {*known} - {"self", "cls", "options"}
    error = CallError(f"{called}: no option {option}. {nearest(option, known)}.")
    vars(error).update(option=option, known=known)
    return error


def _require_plain(name: str, known: inspect.Parameter, value: Any) -> None:
    """Raise UserError if a value is not that of its annotation. True and NaN are no numbers, and 1 is not True."""
    kind, called = PLAIN[known.annotation]
    is_number = kind in (Integral, Real)
    if isinstance(value, kind) and not (is_number and (isinstance(value, bool) or value != value)):
        return
    may_be_none = known.annotation is str and known.default is not known.empty
    if value is not None or not (may_be_none or isinstance(known.annotation, UnionType)):
        default = None if known.default is known.empty else known.default
        way = f"Give {MADE_BY.get(name, 'one')}" if default is None else f"Type {name}={default!r}"
        way += ", or leave it out" * (known.default is not known.empty)
        shown = str(value) if is_number else repr(value)
        raise UserError(f"{name}={short(shown, 40)}: expected {called}. {way}.")


def _classes(annotation: Any) -> tuple[type, ...]:
    """Classes of an argument, where its annotation is of paths, dicts and our classes alone. Else ()."""
    union = get_args(annotation) if get_origin(annotation) in (UnionType, Union) else (annotation,)
    found = [get_origin(one) or one for one in union]
    if not all(
        one in (NoneType, str, Path, dict) or str(getattr(one, "__module__", "")).startswith("juzhen.")
        for one in found
    ):
        return ()
    return tuple(found) if all(isinstance(one, type) for one in found) and {*found} - {str, NoneType} else ()


def _of_another_class(name: str, value: Any, kinds: Sequence[type]) -> str:
    names = [kind.__name__ for kind in kinds if kind not in (str, NoneType)]
    ways = [MADE_BY.get(each, f"an object of {each}") for each in names]
    ending = ", or leave it out" if NoneType in kinds else ""
    given = f"a {type(value).__name__}" if isinstance(value, nn.Module) else described(value)
    return f"{name}: got {given}. Give {' or '.join(ways)}{ending}."


class PeerNames(nn.Module):
    """Answers method names of sentence-transformers with our names."""

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name not in NAMES:
                raise
            raise AttributeError(f"{type(self).__name__}.{name}: it is called {NAMES[name]} here") from None


def _ours(name: str, known: Collection[str]) -> str | None:
    """Our option that means the same, if a callable has one."""
    return next((ours for ours in RENAMED.get(name, ()) if ours in known), None)


def _translated(
    called: str,
    owner: Sequence[Any],
    name: str,
    options: Mapping[str, Any],
    known: Mapping[str, inspect.Parameter],
) -> dict[str, Any]:
    """Translate an option, {} if it requests the default. Raises UserError for an unsupported value."""
    value = options[name]
    ours = _ours(name, known)
    if ours is not None:
        if ours in options:
            raise UserError(f"{name}: {ours} means the same. Type one of the two.")
        return {ours: value}
    if name == "normalize_embeddings" and value is True and "normalize" in known:
        return {"normalize": True}
    is_tensor = name == "convert_to_numpy" and bool(options.get("convert_to_tensor"))
    is_here = name == "device" and (value is None or _same_device(value, *owner))
    # Encoders whose embeddings cannot be cut do not score by the cosine.
    is_cosine = (name, value) == ("similarity_fn_name", "cosine") and "truncate_dim" in known
    if (
        is_tensor
        or is_here
        or is_cosine
        or any(type(value) is type(one) and value == one for one in HARMLESS.get(name, ()))
    ):
        return {}
    why = OF_CALLS.get(called, {}).get(name) or WAYS_OUT.get(name)
    if called == "fit" and (typed := setting_meant(name, str(value))) and name not in OF_CALLS[called]:
        why = f"fit has no such option. Type this in a job of train.py: {typed}"
    if why is None:
        raise _unknown(called, name, known)
    raise UserError(f"{name}={short(repr(value), 40)}: {_feasible(why, *owner, known=known)}.")


def _feasible(why: str, owner: Any = None, *, known: Collection[str]) -> str:
    """The advice, without a way out that this callable, or its encoder, does not have."""
    settable, encode = (getattr(owner, name, None) for name in ("settable", "encode"))
    is_lacking = any(option not in known for option in re.findall(r"Type (\w+)=", why))
    if settable is not None:
        takes = {*inspect.signature(encode).parameters} if encode else set()
        is_lacking |= any(name not in settable for name in re.findall(r"encoder\.(\w+) = ", why))
        is_lacking |= any(
            takes.isdisjoint((name, "options")) for name in re.findall(r"encode\(texts, (\w+)=", why)
        )
        is_lacking |= "encoder.logits(" in why and not hasattr(owner, "logits")
        if encode is None and "encoder.max_length" in why:
            return why.replace("encoder.", "encoder.inner.")
    return f"{why.partition('. ')[0]}. Leave it out" if is_lacking else why


def _same_device(value: Any, encoder: Any = None) -> bool:
    if not isinstance(encoder, nn.Module):
        return False
    has = next(encoder.parameters()).device
    return str(value) in (has.type, str(has), f"{has.type}:{has.index or 0}")


class GuardedAttributesMixin(nn.Module):
    """Restricts attributes to those in `settable` once `_is_finished` is set. `check_setting` validates them.

    A method may be replaced by a function, and a module by a module.
    """

    settable: ClassVar[tuple[str, ...]] = ()
    _is_finished: bool = False

    def __setattr__(self, name: str, value: Any) -> None:
        if self._is_finished and not name.startswith("_") and name != "training":
            value = value.item() if isinstance(value, np.generic) else value
            replaces = (callable(getattr(type(self), name, None)) and callable(value)) or (
                name in self._modules and isinstance(value, nn.Module)
            )
            if name in self.settable:
                self.check_setting(name, value)
            elif not replaces:
                raise UserError(
                    f"{type(self).__name__}.{name} = {short(repr(value), 40)}: {self._why_not(name)}"
                )
        super().__setattr__(name, value)

    def check_setting(self, name: str, value: Any) -> None:
        """Raise UserError for an invalid value.

        Args:
            name: Name of the attribute.
            value: Its new value.

        Raises:
            UserError: The value is not valid. A class without such values accepts all.
        """

    def _why_not(self, name: str) -> str:
        inner = getattr(self, "inner", None)
        if name in getattr(inner, "settable", ()):
            return f"it belongs to the encoder inside. Type encoder.inner.{name} = …"
        if hasattr(self, name):
            return f"it follows from the loaded weights. You can set: {', '.join(self.settable)}"
        return f"unknown attribute. {nearest(name, self.settable)}"


def check_flag(name: str, value: Any) -> None:
    """Raise UserError if the value is not True or False.

    Args:
        name: Name of the option, for the message.
        value: Value of the caller.

    Raises:
        UserError: Another value, 0 and 1 included.
    """
    if not isinstance(value, bool):
        raise UserError(f"{name}={short(repr(value), 40)}: expected True or False. Set one of the two")


def check_tokenizer(value: Any, present: PreTrainedTokenizerBase) -> None:
    """Raise UserError if a tokenizer has another vocabulary.

    Args:
        value: Tokenizer of the caller.
        present: Tokenizer of the encoder.

    Raises:
        UserError: Another vocabulary, or not a tokenizer of transformers.
    """
    if not isinstance(value, PreTrainedTokenizerBase) or value.get_vocab() != present.get_vocab():
        raise UserError(
            "tokenizer: the weights belong to the vocabulary that they were loaded with. Load another encoder"
        )
