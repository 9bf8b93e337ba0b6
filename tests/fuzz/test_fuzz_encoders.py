"""Whatever the files of an encoder's folder hold, it is an encoder that encodes, or one UserError."""

import json
import shutil
from pathlib import Path

import pytest
from fuzzing import answer, any_file, changed, memory_bound, on_examples, sizes
from hypothesis import strategies as st

from juzhen.encoders import load_backbone, load_encoder, save_encoder
from juzhen.encoders.cross_encoder import CrossEncoder
from juzhen.encoders.layout import read_layout
from juzhen.encoders.projection import OutputNorm, Projection
from juzhen.encoders.spec import BackboneConfig

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"今天气好明", "a", "##a"]
CONFIG = {
    "model_type": "bert",
    "architectures": ["BertModel"],
    "vocab_size": len(VOCABULARY),
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 8,
    "max_position_embeddings": 16,
}
HUGE = 10**5
"""A configuration may ask for any size; what fits into memory is built. More than this takes long, and is left out."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A folder of each layout: sentence-transformers' with a projection, ours, a cross-encoder's."""
    memory_bound()
    root = tmp_path_factory.mktemp("encoders")
    plain = root / "plain"
    plain.mkdir()
    (plain / "config.json").write_text(json.dumps(CONFIG))
    (plain / "vocab.txt").write_text("\n".join(VOCABULARY), encoding="utf-8")
    (plain / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')
    encoder = load_backbone(BackboneConfig(path=str(plain), initialize="random", max_length=8), seed=0)
    encoder.projections.append(Projection(8, 4, bias=True, activation="torch.nn.modules.activation.Tanh"))
    encoder.projections.append(OutputNorm(4))
    save_encoder(encoder, root / "public", card={})
    encoder.pooling = "first_last"
    save_encoder(encoder, root / "own", card={})
    inner = load_backbone(BackboneConfig(path=str(plain), initialize="random", max_length=8), seed=0)
    joint = CrossEncoder(inner, outputs=1, segments=True, symmetric=False, seed=0)
    save_encoder(joint, root / "joint", card={})
    return root


def files(folder):
    found = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".md")
    return sorted(path.relative_to(folder).as_posix() for path in found)


def spoilt_file(path: Path):
    """The bytes of a file after accidents, or its JSON with other values."""
    raw = path.read_bytes()
    strategies = [any_file(raw)]
    if path.suffix == ".json" and len(raw) < 10_000:
        strategies.append(changed(json.loads(raw)).map(lambda value: json.dumps(value).encode()))
    return st.one_of(strategies)


def is_huge(path: Path) -> bool:
    try:
        value = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return False
    sizes = value.values() if isinstance(value, dict) else ()
    return any(isinstance(one, int) and abs(one) > HUGE for one in sizes)


@sizes
@pytest.mark.parametrize("layout", ["public", "own", "joint"])
@pytest.mark.slow
def test_folders(whole, layout, size):
    source, folder = whole / layout, whole / f"spoilt-{layout}"

    @on_examples(size, 0.5, data=st.data(), name=st.sampled_from(files(source)))
    def holds(data, name):
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(source, folder)
        (folder / name).write_bytes(data.draw(spoilt_file(source / name)))
        if name == "config.json" and is_huge(folder / name):
            return
        load = CrossEncoder.load if layout == "joint" else load_encoder
        encoder = answer(lambda: load(folder))
        if isinstance(encoder, str):
            return
        if layout == "joint":
            answer(lambda: encoder.score([("今天", "明天 a")]))
        else:
            answer(lambda: encoder.encode(["今天", "a"]))


@sizes
@pytest.mark.parametrize(
    ("layout", "name"),
    [
        ("public", "modules.json"),
        ("public", "1_Pooling/config.json"),
        ("public", "sentence_bert_config.json"),
        ("public", "config_sentence_transformers.json"),
        ("own", "juzhen.json"),
    ],
)
@pytest.mark.sampled(3)
def test_layouts(whole, layout, name, size):
    """The small files alone, which takes no model."""
    source, folder = whole / layout, whole / "layouts"
    if not (source / name).is_file():  # as encoders with templates, and those of earlier versions, have it
        (source / name).write_text('{"pooling": "first_last", "normalize": false, "max_length": 8}')
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(source, folder)

    @on_examples(size, 2, raw=spoilt_file(source / name))
    def holds(raw):
        (folder / name).write_bytes(raw)
        answer(lambda: read_layout(folder))
