"""Resolves an encoder name to a folder with checked files.

Nothing is downloaded until the name has been ruled out as a path. Pickled weights are never read.
"""

import hashlib
import os
import re
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Literal

from juzhen.core.errors import UserError, foreign_reason, nearest
from juzhen.core.machine import hub_problem
from juzhen.core.paths import CONFIGURATION, PACKAGE, ROOT, newest
from juzhen.core.safe_open import open_regular_file, read_yaml, require_file
from juzhen.core.text import short
from juzhen.encoders.folder_settings import naming, read_settings
from juzhen.encoders.layout import MODULES_FILE, OWN_FILE, is_static
from juzhen.encoders.prompts import PROMPTS_FILE

BUILTIN = "builtin"

ENCODER_FOLDER = "encoder"
"""Subfolder of a run that holds its encoder."""

SCORE_FILE = "score.safetensors"
"""Beside the transformer of an encoder whose pairs are not scored by the cosine."""

HEAD_FILE = "head.safetensors"
"""Beside the transformer of a cross-encoder."""

WEIGHTS = ("model.safetensors", "model.safetensors.index.json")
ADAPTER, ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_PICKLED = ("pytorch_model.bin", "pytorch_model.bin.index.json")
_TOKENIZERS = (
    "tokenizer.json",
    "vocab.txt",
    "vocab.json",
    "spiece.model",
    "spm.model",
    "sentencepiece.bpe.model",
    "tokenizer.model",
)
_WANTED = ["*.json", "*.safetensors", "*.txt", "*.model"]
_UNWANTED = ["onnx/*", "openvino/*", "coreml/*", "*.onnx", "*.h5"]


def locate_folder(path: str) -> Path | None:
    """Local folder of a path, or None if it can only be a hub id.

    A relative path is looked up in the working directory, then in the package (builtin/encoder), then in the clone. A
    built-in name without a revision is the newest one (builtin/mini_zh).

    Args:
        path: A folder, a built-in name, or a hub id.

    Returns:
        Absolute path with symbolic links resolved, or None.

    Raises:
        UserError: The text is empty, names a file, or can only be a path and the folder is missing.
    """
    if not path.strip():
        raise UserError("an empty text names no encoder. Name a run, or the folder of an encoder")
    source = Path(path).expanduser()
    try:
        for candidate in (source, PACKAGE / newest(path), ROOT / source):
            if candidate.is_dir():
                return candidate.resolve()
    except OSError as error:  # a name that is too long, or a folder that may not be entered
        raise UserError(
            f"{short(path)}: no such folder ({foreign_reason(error)}). Name a run, or a folder with an encoder"
        ) from error
    if source.is_file():
        place = source.parent if has_encoder(source.parent) else "a run, or a folder with an encoder"
        raise UserError(f"{path}: a file. Give {place}")
    is_path = path.count("/") > 1 or path.startswith((".", "/", "~", f"{BUILTIN}/")) or "\\" in path
    # A name below a folder that is there is a slip of the pen, and no model of the hub.
    is_path = is_path or ("/" in path and source.parent.is_dir())
    if is_path or source.exists():
        raise UserError(
            f"{path}: no such folder{_hint(source) or '. Name an existing run, or a folder with an encoder'}"
        )
    return None


def has_encoder(folder: Path) -> bool:
    """True if a folder has the files of an encoder, or of an adapter.

    Args:
        folder: A folder, possibly missing.

    Returns:
        False for a missing folder.
    """
    return any((folder / name).is_file() for name in ("config.json", MODULES_FILE, ADAPTER))


def is_built_in(path: str) -> bool:
    """True for the name of an encoder that is installed with juzhen.

    Args:
        path: A name such as builtin/mini_zh.

    Returns:
        False if this version of juzhen lacks it.
    """
    return path.startswith(f"{BUILTIN}/") and (PACKAGE / newest(path)).is_dir()


def _hint(missing: Path) -> str:
    """The nearest existing folders, as they are typed. "" without one."""
    for place in ("runs", BUILTIN):
        if Path(place, missing.name).is_dir() or is_built_in(f"{place}/{missing.name}"):
            return f". Did you mean {place}/{missing.name}?"
    place = f"{missing.parent}/" if len(missing.parts) > 1 else ""
    parents = {folder / missing.parent for folder in (Path(), PACKAGE, ROOT)}
    folders = [path for parent in parents if parent.is_dir() for path in parent.iterdir() if path.is_dir()]
    built_in = PACKAGE / BUILTIN
    names = [path.name.partition("@")[0] if path.parent == built_in else path.name for path in folders]
    hint = nearest(missing.name, names)
    if not hint.startswith("Did you mean"):
        return ""
    return f". {hint}".replace("mean ", f"mean {place}", 1).replace(" or ", f" or {place}")


def encoder_source(source: str | Path, revision: str | None = None) -> str:
    """Folder of the encoder of a run or folder. A hub id is returned unchanged.

    Args:
        source: A run, a folder or a hub id.
        revision: Version on the hub, which a folder does not have.

    Returns:
        Path of the encoder folder, or the hub id.

    Raises:
        UserError: As in `encoder_folder`, or a revision of a folder.
    """
    if locate_folder(str(source)) is None:
        return str(source)
    if revision is not None:
        raise UserError(f"revision={revision}: {source} is a folder, which has one version. Leave it out")
    return str(encoder_folder(source))


def encoder_folder(folder_or_run: str | Path) -> Path:
    """Encoder folder of a run, or the folder itself.

    Args:
        folder_or_run: Folder of an encoder, or of a finished run. A hub id is refused.

    Returns:
        Absolute path of the folder with the encoder's files.

    Raises:
        UserError: The folder is missing, or has no encoder.
    """
    source = str(folder_or_run)
    folder = locate_folder(source)
    if folder is None:
        hub = f". For a model of the hub first type hf download {source} --local-dir FOLDER" * ("/" in source)
        raise UserError(
            f"{source}: no such folder. Expected a run, or a folder with an encoder{_hint(Path(source)) or hub}"
        )
    if (folder / ENCODER_FOLDER).is_dir():
        folder = folder / ENCODER_FOLDER
    elif not has_encoder(folder):
        raise UserError(
            f"{source}: neither a run nor an encoder: {ENCODER_FOLDER}/ and config.json are missing. "
            "Name the folder of an encoder or of a finished run"
        )
    return folder


def has_score_head(folder_or_run: str | Path) -> bool:
    """True if an encoder scores pairs by a learnt form instead of the cosine. False if no files are available.

    Args:
        folder_or_run: Folder of an encoder or of a run, or a hub id.

    Returns:
        True if the folder, or the encoder of the run, has SCORE_FILE.
    """
    try:
        folder = locate_folder(str(folder_or_run))
    except UserError:
        return False  # who loads it says what is wrong
    return folder is not None and any(
        (path / SCORE_FILE).is_file() for path in (folder, folder / ENCODER_FOLDER)
    )


def is_cross_encoder(folder_or_run: str | Path) -> bool:
    """True if a run or folder holds a cross-encoder.

    Args:
        folder_or_run: Folder of an encoder, or of a finished run.

    Returns:
        False for other encoders of that folder.

    Raises:
        UserError: The encoder is missing.
    """
    return scores_pairs(encoder_folder(folder_or_run))


def scores_pairs(folder: Path) -> bool:
    """True for a cross-encoder: ours, of sentence-transformers, or a transformers classifier.

    A broken file is reported later, by its reader.

    Args:
        folder: Folder of an encoder.

    Returns:
        False for an encoder of single texts.
    """
    if (folder / HEAD_FILE).is_file():
        return True
    if (folder / OWN_FILE).is_file():
        return False
    with suppress(UserError):
        if (folder / MODULES_FILE).is_file():
            path = folder / PROMPTS_FILE
            return path.is_file() and read_settings(path).get("model_type") == "CrossEncoder"
        if (folder / ADAPTER).is_file() and not (folder / "config.json").is_file():
            return read_settings(folder / ADAPTER).get("task_type") == "SEQ_CLS"
        names = read_settings(folder / "config.json").get("architectures") or [""]
        return str(names[0]).endswith(CLASSIFIER)
    return False


CLASSIFIER = "ForSequenceClassification"
"""How transformers ends the name of a class with a head for whole texts, or pairs of them."""


def check_files(folder: Path, *, needs_weights: bool, shown: str) -> None:
    """Raise UserError with the first missing file of an encoder, and the way to get it.

    Libraries open more files than these, so the folder may hold only regular files and folders.

    Args:
        folder: Folder of the transformer.
        needs_weights: False for an encoder that begins with random weights.
        shown: Name of the encoder in the message.

    Raises:
        UserError: A file is missing, not a regular one, or the folder holds an adapter.
    """
    for path in sorted(path for path in folder.iterdir() if path.exists() and not path.is_dir()):
        require_file(path)
    fault = None
    # Of an encoder that is read with an adapter, the folder of its base is looked at.
    if (folder / ADAPTER).is_file():
        fault = (
            f"holds an adapter ({ADAPTER}), not read here. Merge it into its model first (merge_and_unload)"
        )
    elif not (folder / "config.json").is_file() and not is_static(folder):
        fault = "config.json is missing. Expected an encoder in transformers layout"
        fault += f", such as {folder / ENCODER_FOLDER}" * (folder / ENCODER_FOLDER).is_dir()
    elif not has_tokenizer(folder):
        fault = f"no tokenizer. Expected one of {', '.join(_TOKENIZERS)}"
    elif needs_weights and not has_weights(folder):
        fault = _missing_weights(folder)
    if fault:
        raise UserError(f"{shown}: {fault}")
    check_weights_index(folder)


def check_weights_index(folder: Path) -> None:
    """Raise UserError if the index of weights names anything but safetensors files of the same folder.

    Args:
        folder: Folder of the transformer. Without an index, nothing is checked.

    Raises:
        UserError: The index is broken, or names other files.
    """
    path = folder / WEIGHTS[1]
    with naming(f"{path}: no list of weights"):
        names = read_settings(path)["weight_map"].values() if path.is_file() else ()
    for name in dict.fromkeys(map(str, names)):
        if Path(name).name != name or not name.endswith(".safetensors") or not (folder / name).is_file():
            raise UserError(
                f"{path}: names {short(repr(name))} as weights. Expected .safetensors files of the same folder"
            )


def has_tokenizer(folder: Path) -> bool:
    """True if a folder has the files of a tokenizer.

    Args:
        folder: Folder of a transformer.

    Returns:
        True if at least one of its possible files is there.
    """
    return any((folder / name).is_file() for name in _TOKENIZERS)


def has_weights(folder: Path) -> bool:
    """True if a folder has weights in safetensors, in one file or with an index.

    Args:
        folder: Folder of a transformer.

    Returns:
        False for weights in other formats, such as pickles.
    """
    return any((folder / name).is_file() for name in WEIGHTS)


def _missing_weights(folder: Path) -> str:
    if any((folder / name).is_file() for name in _PICKLED):
        return (
            "only pytorch_model.bin is here, and pickled weights are not read because they can run code; if you trust "
            "the file, load it with transformers and write it with save_pretrained"
        )
    return (
        "model.safetensors is missing. Put the weights there (a job of train.py can begin without any: "
        "backbone.initialize=random)"
    )


def download(hub_id: str, revision: str | None) -> Path:
    """Local cache folder of a hub model, fetched if the hub is reachable. Without a network this takes seconds.

    Args:
        hub_id: owner/name.
        revision: Branch, tag or commit. None is main.

    Returns:
        Folder of that revision in the cache.

    Raises:
        UserError: The model is neither on the hub nor in the cache.
    """
    from huggingface_hub import snapshot_download

    problem = hub_problem()
    try:
        return Path(
            snapshot_download(
                hub_id,
                revision=revision,
                allow_patterns=_WANTED,
                ignore_patterns=_UNWANTED,
                local_files_only=problem is not None,
            )
        )
    except Exception as error:  # the hub client raises a dozen unrelated types, from OSError to httpx errors
        reason, endpoint = foreign_reason(error), os.environ.get("HF_ENDPOINT")
        if problem is not None:
            reason = f"{problem} and the model is not in the local cache"
        elif isinstance(error, KeyError | TypeError | AttributeError):
            reason = f"what answers there is no such hub ({type(error).__name__}: {reason})"
        hub = f"the hub at HF_ENDPOINT={endpoint}" if endpoint else "the Hugging Face hub"
        raise UserError(
            f"{hub_id}: no such folder, and it could not be fetched from {hub}: {reason}. Check the name, or use a "
            f"folder you have{_hint(Path(hub_id))}"
        ) from error


BASE_FILE = "base.json"


@dataclass(frozen=True)
class Base:
    """Base weights of an adapter, and how they are loaded.

    Attributes:
        path: As in `BackboneConfig`.
        revision: As in `BackboneConfig`.
        digest: Digest of the weight files. "" if unknown.
        layers: Number of first layers to keep. None keeps all.
        dropout: Dropout. None is that of config.json.
        attention: Attention of a decoder, causal or bidirectional. None is that of config.json.
        precision: Format of the weights: float32, bfloat16 or nf4.
        nested_dims: Sizes for which truncated embeddings were trained.
    """

    path: str
    revision: str | None
    digest: str
    layers: int | None = None
    dropout: float | None = None
    attention: str | None = None
    precision: Literal["float32", "bfloat16", "nf4"] = "float32"
    nested_dims: tuple[int, ...] = ()


def is_adapter(folder: Path) -> bool:
    """True if a folder holds an adapter.

    Args:
        folder: Folder of an encoder.

    Returns:
        True if the configuration of an adapter is there.
    """
    return (folder / ADAPTER).is_file()


def read_base(folder: Path) -> Base:
    """Base of an adapter folder.

    Args:
        folder: Folder of an adapter of juzhen or of peft.

    Returns:
        The base. Its digest is "" for an adapter of peft, which records none.

    Raises:
        UserError: A file that does not describe a base.
    """
    path = folder / BASE_FILE
    if not path.is_file():
        return _base_of_peft(folder)
    with naming(f"{path}: no account of a base"):
        settings = read_settings(path)
        known = {field.name: settings[field.name] for field in fields(Base) if field.name in settings}
        return Base(**known | {"nested_dims": tuple(known.get("nested_dims", ()))})


def _base_of_peft(folder: Path) -> Base:
    path = folder / ADAPTER
    settings = read_settings(path)
    name, revision = settings.get("base_model_name_or_path"), settings.get("revision")
    if not isinstance(name, str) or not name:
        raise UserError(
            f"{path}: base_model_name_or_path={short(repr(name))}: the adapter does not name its base. Write the "
            "folder of the base there, or its id on the hub"
        )
    known = CONFIGURATION / "backbone" / f"{name}.yaml"
    if re.fullmatch(r"\w+", name) and known.is_file() and not Path(name).is_dir():
        backbone = read_yaml(known)
        name, revision = backbone["path"], revision or backbone["revision"]
    return Base(path=name, revision=str(revision) if revision else None, digest="")


def weight_files(folder: Path) -> list[Path]:
    """The files of the transformer's weights in a folder.

    Args:
        folder: Folder with model.safetensors, or with an index of several files.

    Returns:
        One path, or those of the index by name.
    """
    if (folder / WEIGHTS[0]).is_file():
        return [folder / WEIGHTS[0]]
    names = read_settings(folder / WEIGHTS[1])["weight_map"].values()
    return [folder / name for name in sorted(set(names))]


def base_digest(folder: Path) -> str:
    """16 hex digits over the weights of a transformer's folder.

    Args:
        folder: Folder as for `weight_files`.

    Returns:
        Lowercase hexadecimal digits.
    """
    found = [(path, path.stat()) for path in weight_files(folder)]
    parts = [_file_digest(path, stat.st_mtime_ns, stat.st_size) for path, stat in found]
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()[:16]


@lru_cache(maxsize=256)
def _file_digest(path: Path, modified_ns: int, size: int) -> str:
    """Digest of a file. Time and size only invalidate the cache."""
    with open_regular_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def require_base(base: Base, folder: Path, *, adapter: Path) -> None:
    """Raise UserError if the weights in `folder` differ from the base of the adapter's training.

    Args:
        base: Base as the adapter records it. An empty digest is accepted.
        folder: Folder of the weights.
        adapter: Folder of the adapter, for the message.

    Raises:
        UserError: The digests differ.
    """
    if base.digest and (digest := base_digest(folder)) != base.digest:
        raise UserError(
            f"{adapter}: this adapter was trained with other weights than those of {base.path} "
            f"(digest {base.digest}, now {digest}). Restore them, or write their path in its {BASE_FILE}"
        )
