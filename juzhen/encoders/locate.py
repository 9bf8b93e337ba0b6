"""Where an encoder lies: from what the user typed to a folder whose files have been seen.

Nothing is downloaded before the text has proved not to be a path, and no pickled weights are ever read.
"""

from contextlib import suppress
from pathlib import Path

from juzhen.core.errors import UserError, foreign_reason, nearest
from juzhen.core.network import hub_problem
from juzhen.core.opened import require_file
from juzhen.core.places import PACKAGE, ROOT
from juzhen.core.texts import short
from juzhen.encoders.layout import MODULES_FILE, OWN_FILE
from juzhen.encoders.prefix import PROMPTS_FILE
from juzhen.encoders.settings_file import Settings

BUILTIN = "builtin"

ENCODER_FOLDER = "encoder"
"""Subfolder of a run that holds its encoder."""

SCORE_FILE = "score.safetensors"
"""Beside the transformer of an encoder whose pairs are not scored by the cosine."""

HEAD_FILE = "head.safetensors"
"""Beside the transformer of a cross-encoder."""

WEIGHTS = ("model.safetensors", "model.safetensors.index.json")
ADAPTER = "adapter_config.json"
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
    """The local folder that `path` names, or None when it can only be a hub id.

    Relative paths are taken from the working directory, then from the package (builtin/encoder), then from the
    clone. Raises UserError when the text can only be a path and there is no such folder.
    """
    if not path.strip():
        raise UserError("path is empty; expected a folder or a hub id, for example builtin/encoder")
    given = Path(path).expanduser()
    for candidate in (given, PACKAGE / given, ROOT / given):
        if candidate.is_dir():
            return candidate.resolve()
    if given.exists():
        raise UserError(f"{path}: this is a file; an encoder is a folder with config.json and a tokenizer")
    if given.parts[0] == BUILTIN:
        raise UserError(f"{path}: there is no such built-in encoder; {nearest(given.name, _siblings(given))}")
    could_be_hub_id = path.count("/") <= 1 and not path.startswith((".", "/", "~")) and "\\" not in path
    if not could_be_hub_id:
        places = " and from ".join(dict.fromkeys(map(str, (Path.cwd(), ROOT))))
        raise UserError(f"{path}: no such folder (looked from {places}){_hint(given)}")
    return None


def _siblings(missing: Path) -> list[str]:
    """Folders that lie where a missing one was looked for."""
    parents = {folder / missing.parent for folder in (Path(), PACKAGE, ROOT)}
    return [one.name for parent in parents if parent.is_dir() for one in parent.iterdir() if one.is_dir()]


def _hint(missing: Path) -> str:
    hint = nearest(missing.name, _siblings(missing))
    return f"; {hint}" if hint.startswith("did you mean") else ""


def encoder_source(source: str | Path) -> str:
    """The folder of the encoder that a folder or run holds; a hub id as it is. Errors: as `encoder_folder`."""
    if not isinstance(source, str | Path):
        raise UserError(
            f"expected a folder, a run, a built-in encoder such as {BUILTIN}/mini_zh or a hub id, got {source!r}"
        )
    return str(source) if locate_folder(str(source)) is None else str(encoder_folder(source))


def encoder_folder(folder_or_run: str | Path) -> Path:
    """Where the encoder of a run, or an encoder's folder, lies. Raises UserError when there is none."""
    given = str(folder_or_run)
    folder = locate_folder(given)
    if folder is None:
        raise UserError(
            f"{given}: no such folder; expected a run, or a folder that holds an encoder{_hint(Path(given))}"
        )
    if (folder / ENCODER_FOLDER).is_dir():
        folder = folder / ENCODER_FOLDER
    elif not any((folder / name).is_file() for name in ("config.json", MODULES_FILE)):
        raise UserError(
            f"{given}: neither a run with an encoder nor an encoder: there is no {ENCODER_FOLDER}/ and no "
            "config.json. A run has its encoder once training is finished"
        )
    return folder


def has_score_head(folder_or_run: str | Path) -> bool:
    """Whether an encoder scores pairs by another form than the cosine; false where there is none to ask."""
    try:
        folder = locate_folder(str(folder_or_run))
    except UserError:
        return False  # who loads it says what is wrong
    return folder is not None and any(
        (one / SCORE_FILE).is_file() for one in (folder, folder / ENCODER_FOLDER)
    )


def is_cross_encoder(folder_or_run: str | Path) -> bool:
    """Whether a run, or a folder of an encoder, holds a cross-encoder. Raises UserError when there is no encoder."""
    return scores_pairs(encoder_folder(folder_or_run))


def scores_pairs(folder: Path) -> bool:
    """Whether the folder holds a cross-encoder: one of ours, of sentence-transformers, or a classifier of transformers.

    Files that say nothing, or are broken, are for who loads them to tell of.
    """
    if (folder / HEAD_FILE).is_file():
        return True
    if (folder / OWN_FILE).is_file():
        return False
    with suppress(UserError):
        if (folder / MODULES_FILE).is_file():
            path = folder / PROMPTS_FILE
            return path.is_file() and Settings.read(path).values.get("model_type") == "CrossEncoder"
        names = Settings.read(folder / "config.json").values.get("architectures")
        return isinstance(names, list) and bool(names) and str(names[0]).endswith(CLASSIFIER)
    return False


CLASSIFIER = "ForSequenceClassification"
"""How transformers ends the name of a class with a head for whole texts, or pairs of them."""


def check_files(folder: Path, *, needs_weights: bool, shown: str) -> None:
    """Raises UserError naming the first file of an encoder that `folder` lacks, and what to do about it.

    Libraries open more of its files than are named here, so there may be nothing but files and folders in it.
    """
    for path in sorted(one for one in folder.iterdir() if one.exists() and not one.is_dir()):
        try:
            require_file(path)
        except OSError as error:
            raise UserError(f"{path}: {error.strerror}; take it out of the encoder's folder") from error
    if not (folder / "config.json").is_file():
        raise UserError(
            f"{shown}: config.json is missing; "
            "expected a folder in transformers or sentence-transformers layout"
        )
    if not any((folder / name).is_file() for name in _TOKENIZERS):
        raise UserError(
            f"{shown}: no tokenizer; expected one of {', '.join(_TOKENIZERS)}. "
            "Write it with AutoTokenizer.from_pretrained(…).save_pretrained(folder)"
        )
    if needs_weights and not has_weights(folder):
        raise UserError(f"{shown}: {_missing_weights(folder)}")
    check_weights_index(folder)


def check_weights_index(folder: Path) -> None:
    """Raises UserError for a list of weights that names anything but safetensors files of the same folder."""
    if (folder / ADAPTER).is_file():
        raise UserError(
            f"{folder}: holds an adapter ({ADAPTER}), whose weights go onto those of another place; put both together "
            "once (merge_and_unload of PEFT) and save the encoder anew with save_pretrained"
        )
    path = folder / WEIGHTS[1]
    if not path.is_file():
        return
    named = Settings.read(path).get("weight_map", dict).values()
    for name in dict.fromkeys(map(str, named)):
        if Path(name).name != name or not name.endswith(".safetensors") or not (folder / name).is_file():
            raise UserError(
                f"{path}: names {short(repr(name))} as weights; expected names of .safetensors files in the same "
                "folder. Pickled weights are not read, and nothing outside of the folder: fetch the encoder again, or "
                "save it anew with save_pretrained"
            )


def has_weights(folder: Path) -> bool:
    return any((folder / name).is_file() for name in WEIGHTS)


def _missing_weights(folder: Path) -> str:
    if any((folder / name).is_file() for name in _PICKLED):
        return (
            "only pytorch_model.bin is here, and pickled weights are not read because they can run code. "
            'If you trust the file, convert it once: python -c "from transformers import AutoModel; '
            "AutoModel.from_pretrained('<folder>', use_safetensors=False).save_pretrained('<folder>')\""
        )
    return "model.safetensors is missing; put the weights there, or train from scratch with initialize=random"


def download(hub_id: str, revision: str | None) -> Path:
    """Folder of a hub model's files in the local cache, fetched when the hub answers.

    Raises UserError when they cannot be had; without a network that takes seconds.
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
        reason = foreign_reason(error)
        if problem is not None:
            reason = f"{problem} and the model is not in the local cache"
        raise UserError(
            f"{hub_id}: no such folder{_hint(Path(hub_id))}, and it could not be fetched from the Hugging Face hub: "
            f"{reason}. Check the name, or use a folder you have"
        ) from error
