"""An encoder as a folder that others can load, and as a repository of the Hugging Face hub."""

from pathlib import Path
from typing import Any

from juzhen.core.lazy_names import offered
from juzhen.encoders.bundle import save_encoder
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
        options = {"private": private, "revision": revision, "token": token, "message": message}
        facts = self._fitted() | (card or {})
        address: str = offered("hub", "push")(self, repo_id, facts=facts, dry_run=dry_run, **options)
        return address
