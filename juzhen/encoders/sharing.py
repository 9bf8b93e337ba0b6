"""An encoder as a folder that others can load, and as a repository of the Hugging Face hub."""

import tempfile
from pathlib import Path
from typing import Any

from juzhen.core.errors import UserError
from juzhen.core.network import hub_problem
from juzhen.core.owned import LIST
from juzhen.encoders.bundle import save_encoder, write_encoder
from juzhen.encoders.frozen import for_others
from juzhen.encoders.peer_options import PeerNames, takes_peer_options


class Shareable(PeerNames):
    """What can be saved and uploaded."""

    def save(self, folder: str | Path, *, card: dict[str, Any] | None = None) -> Path:
        """Writes the encoder with all settings to a folder that `load` and sentence-transformers open.

        card  facts for its README, as of `juzhen.encoders.save_encoder`

        A folder that was written so, and not changed since, is replaced. Raises UserError for any other.
        """
        return save_encoder(self, folder, card=self._fitted() | (card or {}))

    def _fitted(self) -> dict[str, Any]:
        """Thresholds that `juzhen.fit` found for these weights, as facts of a card."""
        return getattr(self, "fitted_here", {})

    @takes_peer_options
    def push_to_hub(
        self,
        repo_id: str,
        *,
        private: bool = True,
        revision: str | None = None,
        token: str | None = None,
        message: str = "Upload an encoder",
        card: dict[str, Any] | None = None,
        dry_run: bool = False,
    ) -> str:
        """Uploads what `save` writes to a repository of the Hugging Face hub, and gives the address of the commit.

        repo_id   owner/name; made where there is none
        private   of a repository that is made: others do not see it
        revision  an existing branch; None: main
        token     None: that of HF_TOKEN or of `hf auth login`
        card      as of `save`; the name of the README is that of the repository
        dry_run   prints the files with their sizes, asks for no token and no network, and gives "": nothing is uploaded

        An adapter whose base is no model of the hub is merged into its weights. Raises UserError without a token and
        without a network; what the hub refuses is an error of huggingface_hub.
        """
        if not dry_run:
            require_hub_token(repo_id, token)
        with tempfile.TemporaryDirectory() as folder:
            name = repo_id.rpartition("/")[2]
            write_encoder(
                for_others(self), Path(folder), {"name": name} | self._fitted() | (card or {}), place=repo_id
            )
            if dry_run:
                print("\n".join([*file_lines(Path(folder)), f"nothing was uploaded to {repo_id}: dry_run"]))
                return ""
            return upload(
                Path(folder), repo_id, private=private, revision=revision, token=token, message=message
            )


def require_hub_token(repo_id: str, token: str | None = None) -> None:
    """Raises UserError without a network and without a token."""
    from huggingface_hub import get_token

    if (problem := hub_problem()) is not None:
        raise UserError(f"push_to_hub({repo_id!r}): {problem}; nothing was uploaded")
    if not (token or get_token()):
        raise UserError(
            f"push_to_hub({repo_id!r}): no token of the hub. Make one that may write at "
            "https://huggingface.co/settings/tokens, then `hf auth login`, or set HF_TOKEN"
        )


def file_lines(folder: Path) -> list[str]:
    """Size and name of each file that `upload` sends."""
    files = [file for file in sorted(folder.rglob("*")) if file.is_file() and file.name != LIST]
    return [f"{file.stat().st_size / 1e6:9.2f} MB  {file.relative_to(folder)}" for file in files]


def upload(
    folder: Path, repo_id: str, *, private: bool, revision: str | None, token: str | None, message: str
) -> str:
    """Uploads the files of a folder; options, answer and errors as of `Shareable.push_to_hub`."""
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
