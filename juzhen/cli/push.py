"""`juzhen push` and `push_to_hub`: an encoder, or an export, to the Hugging Face hub."""

import tempfile
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from juzhen.core.errors import UserError
from juzhen.core.file_guard import LIST
from juzhen.core.machine import hub_problem
from juzhen.export.formats import PARITY


def push(
    encoder: Annotated[str, Argument(help="run, or folder of an encoder or an export")],
    name: Annotated[str, Argument(metavar="OWNER/NAME", help="repository, created if missing")],
    *,
    public: Annotated[bool, Option("--public", help="make a new repository public")] = False,
    revision: Annotated[
        str | None, Option(metavar="BRANCH", help="existing branch", show_default="main")
    ] = None,
    message: Annotated[str, Option(metavar="TEXT", help="message of the commit")] = "Upload an encoder",
    dry_run: Annotated[bool, Option("--dry-run", help="list the files without uploading")] = False,
) -> None:
    """Uploads an encoder in the format of sentence-transformers, or an export.

    The token comes from HF_TOKEN or `hf auth login`. Without a token, or with --dry-run, the verb lists the files and
    sends nothing.

    juzhen push runs/NAME me/faq-encoder
    """
    from huggingface_hub import get_token

    from juzhen.encoders.base_weights import shareable_encoder
    from juzhen.encoders.resolve_path import encoder_folder
    from juzhen.encoders.save import write_encoder
    from juzhen.families.registry import find_family

    require_repository_name(name)
    is_tried = dry_run or get_token() is None
    if not is_tried:
        require_hub_token(name)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(encoder)
        if not (folder / PARITY).is_file():
            folder = Path(made)
            source = shareable_encoder(find_family(encoder).load(encoder_folder(encoder)))
            write_encoder(source, folder, {"name": name.rpartition("/")[2]}, place=name)
        print("\n".join(file_lines(folder)))
        if is_tried:
            why = "--dry-run" if dry_run else "no token of the hub. Type hf auth login, or set HF_TOKEN"
            print(f"nothing was uploaded to {name}: {why}")
            return
        options = {"private": not public, "revision": revision, "token": None, "message": message}
        print(upload(folder, name, **options))  # type: ignore[arg-type]


def push_encoder(encoder: Any, repo_id: str, *, facts: dict[str, Any], dry_run: bool, **options: Any) -> str:
    """Upload as `HubMixin.push_to_hub`.

    Args:
        encoder: An encoder of any family.
        repo_id: owner/name.
        facts: Facts of the model card.
        dry_run: Print the files with their sizes and upload nothing.
        **options: As in `upload`.

    Returns:
        Address of the commit. "" for a dry run.

    Raises:
        UserError: An invalid name, a missing token or no network.
    """
    from juzhen.encoders.base_weights import shareable_encoder
    from juzhen.encoders.save import write_encoder

    require_repository_name(repo_id)
    if not dry_run:
        require_hub_token(repo_id, options["token"])
    with tempfile.TemporaryDirectory() as folder:
        name = repo_id.rpartition("/")[2]
        write_encoder(shareable_encoder(encoder), Path(folder), {"name": name} | facts, place=repo_id)
        if dry_run:
            print("\n".join([*file_lines(Path(folder)), f"nothing was uploaded to {repo_id}: dry_run"]))
            return ""
        return upload(Path(folder), repo_id, **options)


def require_repository_name(repo_id: str) -> None:
    """Raise UserError for a name that the hub would refuse.

    Args:
        repo_id: owner/name.

    Raises:
        UserError: The name has other signs or is too long.
    """
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    try:
        validate_repo_id(repo_id or "")
    except HFValidationError as error:
        raise UserError(
            f"push_to_hub({repo_id!r}): not the name of a repository. Give owner/name: letters, digits, '-', '_' and "
            "'.', at most 96 of them"
        ) from error


def require_hub_token(repo_id: str, token: str | None = None) -> None:
    """Raise UserError without a network or a token.

    Args:
        repo_id: owner/name, for the message.
        token: Access token. None: that of HF_TOKEN or `hf auth login`.

    Raises:
        UserError: The hub cannot be used, or no token is known.
    """
    from huggingface_hub import get_token

    if (problem := hub_problem()) is not None:
        raise UserError(f"push_to_hub({repo_id!r}): {problem}. Nothing was uploaded")
    if not (token or get_token()):
        raise UserError(
            f"push_to_hub({repo_id!r}): no token of the hub. Create a write token at "
            "https://huggingface.co/settings/tokens, then `hf auth login`, or set HF_TOKEN"
        )


def file_lines(folder: Path) -> list[str]:
    """Size and name of each file to upload.

    Args:
        folder: Folder of an encoder.

    Returns:
        One line per file, in the order of their paths, sizes in MB.
    """
    files = [file for file in sorted(folder.rglob("*")) if file.is_file() and file.name != LIST]
    return [f"{file.stat().st_size / 1e6:9.2f} MB  {file.relative_to(folder)}" for file in files]


def upload(
    folder: Path, repo_id: str, *, private: bool, revision: str | None, token: str | None, message: str
) -> str:
    """Upload the files of a folder, as `HubMixin.push_to_hub`.

    Args:
        folder: Folder of an encoder.
        repo_id: owner/name. The repository is created if it is missing.
        private: Visibility of a new repository.
        revision: Existing branch. None is main.
        token: Access token. None: that of HF_TOKEN or `hf auth login`.
        message: Commit message.

    Returns:
        Address of the commit.
    """
    from huggingface_hub import HfApi

    hub = HfApi(token=token)
    hub.create_repo(repo_id, private=private, exist_ok=True)
    commit = hub.upload_folder(
        repo_id=repo_id,
        folder_path=folder,
        revision=revision,
        commit_message=message,
        ignore_patterns=[LIST],
    )
    return str(commit.commit_url)
