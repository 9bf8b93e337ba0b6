"""`juzhen push`: an encoder, or an export, to the Hugging Face hub."""

import tempfile
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

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
    from juzhen.encoders.hub import file_lines, require_hub_token, require_repository_name, upload
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
