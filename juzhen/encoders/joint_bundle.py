"""A cross-encoder as a folder: transformers' own files, and beside them the head and what it needs to know."""

from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file

from conf.job import BackboneConfig
from juzhen.core.errors import UserError
from juzhen.core.markup import in_markdown
from juzhen.encoders.backbone import load_backbone
from juzhen.encoders.bundle import save_transformer, write_folder, write_json
from juzhen.encoders.card import fact_table
from juzhen.encoders.foreign import told_simply
from juzhen.encoders.joint_encoder import JointEncoder
from juzhen.encoders.locate import HEAD_FILE, encoder_folder
from juzhen.encoders.settings_file import Settings

SETTINGS_FILE = "crossencoder.json"

_USE = """```python
from juzhen.encoders.joint_bundle import load_joint_encoder

encoder = load_joint_encoder("<this folder>")
logits = encoder.logits(["今天天气很好"], ["今天是个好天气"], batch_tokens=16384, progress=False)
```
"""


def save_joint_encoder(encoder: JointEncoder, folder: str | Path, *, card: dict[str, Any]) -> Path:
    """Writes the cross-encoder to `folder` and gives it back; one that is there already is replaced whole."""
    return write_folder(folder, lambda part: _write_files(encoder, part, card))


def _write_files(encoder: JointEncoder, folder: Path, card: dict[str, Any]) -> None:
    save_transformer(encoder.inner, folder)
    head = {name: tensor.detach().cpu().contiguous() for name, tensor in encoder.head.state_dict().items()}
    save_file(head, folder / HEAD_FILE)
    settings = {
        "outputs": encoder.outputs,
        "pooling": encoder.inner.pooling,
        "segments": encoder.segments,
        "symmetric": encoder.symmetric,
    }
    write_json(folder / SETTINGS_FILE, settings)
    facts = dict(card)
    title = facts.pop("name", "Cross-encoder")
    own = {"architecture": encoder.backbone.config.model_type} | settings
    own["tokens at most"] = encoder.inner.max_length
    text = f"# {in_markdown(title)}\n\nA cross-encoder trained with juzhen: it scores pairs of sentences.\n\n"
    text += fact_table(own | facts) + f"\n## Use\n\n{_USE}"
    (folder / "README.md").write_text(text, encoding="utf-8")


def load_joint_encoder(folder_or_run: str | Path) -> JointEncoder:
    """The cross-encoder of a run or of a folder. Raises UserError when it is none, or files are broken."""
    folder = encoder_folder(folder_or_run)
    if not (folder / HEAD_FILE).is_file():
        raise UserError(
            f"{folder_or_run}: holds an encoder of single sentences and no {HEAD_FILE}; expected a run of "
            "model=crossencoder"
        )
    if not (folder / SETTINGS_FILE).is_file():
        raise UserError(f"{folder}: {SETTINGS_FILE} is missing; copy it from where {HEAD_FILE} came from")
    settings = Settings.read(folder / SETTINGS_FILE)
    config = BackboneConfig(path=str(folder), initialise="pretrained", pooling=settings.get("pooling", str))
    wanted = {
        "outputs": settings.get("outputs", int),
        "segments": settings.get("segments", bool),
        "symmetric": settings.get("symmetric", bool),
    }
    inner = load_backbone(config, seed=0)
    with told_simply(f"{folder}: {SETTINGS_FILE} and {HEAD_FILE} do not belong together"):
        encoder = JointEncoder(inner, **wanted, seed=0)
        encoder.head.load_state_dict(load_file(folder / HEAD_FILE))
    return encoder.train()
