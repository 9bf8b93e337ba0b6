"""Options and method names of sentence-transformers, accepted if they mean the same."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, ClassVar, ParamSpec, TypeVar

import numpy as np
import torch
from torch import nn
from transformers import PreTrainedTokenizerBase

from juzhen.core.errors import UserError, nearest
from juzhen.core.text import short

Given = ParamSpec("Given")
Result = TypeVar("Result")

RENAMED = {
    "show_progress_bar": "show_progress",
    "sentences": "texts",
    "inputs": "texts",
    "model_name_or_path": "source",
    "commit_message": "message",
}
"""Option of sentence-transformers → option here that means the same."""

WAYS_OUT = {
    "batch_size": "batches are counted in tokens, whatever the length of the texts. Type batch_tokens=16384, or leave "
    "it out",
    "output_value": "one result for each text is given. Load an encoder of token vectors: MultiVectorEncoder.load(…)",
    "precision": "vectors are computed in float32. Store them smaller with juzhen.quantize(vectors)",
    "device": "the encoder computes where its weights are. Move it first: encoder.to(device)",
    "pool": "processes are named here. Type workers=4, or workers=['cuda:0', 'cuda:1']",
    "chunk_size": "processes share the texts by themselves. Type workers=4",
    "num_workers": "no processes prepare the texts. Type workers=4, which share the work, or leave it out",
    "max_length": "the length belongs to the encoder. Set it first: encoder.max_length = 256",
    "max_seq_length": "the length belongs to the encoder. Set it first: encoder.max_length = 256",
    "convert_to_numpy": "a list of tensors is not given. Type convert_to_tensor=True for one tensor",
    "convert_to_tensor": "arrays are given. Leave it out, and type torch.from_numpy(…)",
    "normalize_embeddings": "scores and vectors are of the length that the encoder learnt. Leave it out",
    "convert_to_sparse_tensor": "a table of scipy is given. Leave it out",
    "save_to_cpu": "arrays are given, which are on the CPU. Leave it out",
    "prompt_name": "encoders of this family read queries and documents by two methods. Use encode_query and "
    "encode_document",
    "task": "a prompt is named. Type prompt_name=…",
    "activation_fn": "scores are given as the model computes them. Fit probabilities with juzhen calibrate RUN",
    "activation_fct": "scores are given as the model computes them. Fit probabilities with juzhen calibrate RUN",
    "apply_softmax": "one score is given for each pair. encoder.logits(firsts, seconds) gives all logits",
    "sentences": "pairs are given without a name. Type score(pairs)",
    "inputs": "pairs are given without a name. Type score(pairs)",
    "prompt": "a text of its own stands before queries, or before documents. Use encode_query and encode_document",
    "modules": "an encoder is made by load. Leave it out",
    "prompts": "prompts are those that were saved. Give one to a call: encode(texts, prompt=…)",
    "default_prompt_name": "the default is what was saved. Name one in a call: encode(texts, prompt_name=…)",
    "use_auth_token": "the token is that of `hf auth login`, or of HF_TOKEN in the environment. Leave it out",
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
    "token": "the token is that of `hf auth login`, or of HF_TOKEN in the environment. Leave it out",
    "model_kwargs": "weights are loaded in float32 as they were saved. Leave it out",
    "tokenizer_kwargs": "the tokenizer is loaded as it was saved. Set encoder.max_length afterwards, or leave it out",
    "processor_kwargs": "the tokenizer is loaded as it was saved. Set encoder.max_length afterwards, or leave it out",
    "config_kwargs": "the configuration is loaded as it was saved. Leave it out",
    "similarity_fn_name": "the score is the cosine, or the form that the encoder learnt. Leave it out",
    "return_documents": "the number of each document is given: documents[hit.corpus_id]. Leave it out",
}
"""Option of sentence-transformers → why it is not taken, and what to type."""

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
    ("similarity_fn_name", (None, "cosine")),
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
    "save_to_hub": "push_to_hub(name)",
    "fit": "juzhen.fit(encoder, rows)",
}
"""Method or attribute of sentence-transformers → ours."""


def takes_peer_options(method: Callable[Given, Result]) -> Callable[Given, Result]:
    """Lets a method of an encoder take options by the names of sentence-transformers.

    An option that means something else here raises UserError with what to type instead, and so does an option that is
    neither True nor False where one of them is expected.
    """
    known = inspect.signature(method).parameters
    flags = {name for name, one in known.items() if one.annotation in (bool, bool | None)}
    passes_on = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in known.values())

    def is_foreign(name: str) -> bool:
        return name not in known and name in _PEER and (not passes_on or RENAMED.get(name) in known)

    @wraps(method)
    def call(*args: Given.args, **options: Given.kwargs) -> Result:
        for name, value in options.items():
            if RENAMED.get(name, name) in flags and not isinstance(value, int | np.bool_ | None):
                check_flag(name, value)
        if foreign := [name for name in options if is_foreign(name)]:
            translated = {name: value for name, value in options.items() if name not in foreign}
            for name in foreign:
                translated |= _ours(args[0], name, options, known)
            options = translated  # type: ignore[assignment]
        return method(*args, **options)

    return call


_PEER = {*RENAMED, *WAYS_OUT}


class PeerNames(nn.Module):
    """Answers method names of sentence-transformers with our names."""

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name not in NAMES:
                raise
            raise AttributeError(f"{type(self).__name__}.{name}: it is called {NAMES[name]} here") from None


def _ours(
    encoder: Any, name: str, options: Mapping[str, Any], known: Mapping[str, inspect.Parameter]
) -> dict[str, Any]:
    """Translate an option, {} if it requests the default. Raises UserError for an unsupported value."""
    value = options[name]
    ours = RENAMED.get(name)
    if ours is not None and ours in known:
        if ours in options:
            raise UserError(f"{name}: {ours} means the same. Type one of the two.")
        return {ours: value}
    if name == "normalize_embeddings" and value is True and "normalize" in known:
        return {"normalize": True}
    is_tensor = name == "convert_to_numpy" and bool(options.get("convert_to_tensor"))
    is_here = name == "device" and (value is None or _same_device(value, encoder))
    if (
        is_tensor
        or is_here
        or any(type(value) is type(one) and value == one for one in HARMLESS.get(name, ()))
    ):
        return {}
    why = WAYS_OUT.get(name, "unknown option. Leave it out")
    raise UserError(f"{name}={short(repr(value), 40)}: {why}.")


def _same_device(value: Any, encoder: nn.Module) -> bool:
    asked, has = torch.device(value), next(encoder.parameters()).device
    return asked.type == has.type and asked.index in (None, has.index)


class GuardedAttributesMixin(nn.Module):
    """Restricts attributes to those in `settable` once `_is_finished` is set. `check_setting` validates them.

    A method may be replaced by a function, and a module by a module.
    """

    settable: ClassVar[tuple[str, ...]] = ()
    _is_finished: bool = False

    def __setattr__(self, name: str, value: Any) -> None:
        if self._is_finished and not name.startswith("_") and name != "training":
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
        """

    def _why_not(self, name: str) -> str:
        inner = getattr(self, "inner", None)
        if name in getattr(inner, "settable", ()):
            return f"it is encoder.inner.{name}"
        if hasattr(self, name):
            return f"it follows from the loaded weights. You can set: {', '.join(self.settable)}"
        return f"unknown attribute. {nearest(name, self.settable)}"


def check_flag(name: str, value: Any) -> None:
    """Raise UserError if the value is not True or False."""
    if not isinstance(value, bool):
        raise UserError(f"{name}={short(repr(value), 40)}: expected True or False")


def check_count(name: str, value: Any, *, least: int = 1, most: int | None = None) -> None:
    """Raise UserError if the value is not an integer within the bounds."""
    if type(value) is not int or value < least or (most is not None and value > most):
        bounds = f"at least {least}" if most is None else f"{least} to {most}"
        raise UserError(f"{name}={short(repr(value), 40)}: expected a whole number, {bounds}")


def check_tokenizer(value: Any, present: PreTrainedTokenizerBase) -> None:
    """Raise UserError if a tokenizer has another vocabulary."""
    if not isinstance(value, PreTrainedTokenizerBase) or value.get_vocab() != present.get_vocab():
        raise UserError(
            "tokenizer: the weights belong to the vocabulary that they were loaded with. Load another encoder"
        )
