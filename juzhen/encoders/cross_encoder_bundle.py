"""A cross-encoder as a folder: transformers' own files, and beside them the head and what it needs to know."""

from pathlib import Path
from typing import Any

from safetensors.torch import save_file

from juzhen.core.markup import in_markdown
from juzhen.encoders.bundle import save_transformer, write_folder, write_json
from juzhen.encoders.card import fact_table
from juzhen.encoders.cross_encoder import SETTINGS_FILE, CrossEncoder
from juzhen.encoders.locate import HEAD_FILE

_USE = """```python
from juzhen import CrossEncoder

encoder = CrossEncoder.load("<this folder>")
scores = encoder.score([("今天天气很好", "今天是个好天气")])
```
"""


def save_cross_encoder(encoder: CrossEncoder, folder: str | Path, *, card: dict[str, Any]) -> Path:
    """Writes the cross-encoder to `folder` and gives it back; one that is there already is replaced whole."""
    return write_folder(folder, lambda part: _write_files(encoder, part, card))


def _write_files(encoder: CrossEncoder, folder: Path, card: dict[str, Any]) -> None:
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
