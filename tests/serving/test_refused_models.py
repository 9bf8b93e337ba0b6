"""Models that cannot be served together, or with such a threshold, are refused by their option or name."""

import pytest
from jobs import tiny_encoder
from refusals import each, typed

from juzhen.core.errors import UserError
from juzhen.encoders import SentenceEncoder, load_backbone, save_encoder
from juzhen.encoders.backbone_config import AdapterConfig, BackboneConfig
from juzhen.index import Rows, build

for package in ("fastapi", "uvicorn", "httptools", "prometheus_client"):
    pytest.importorskip(package)
from juzhen.serving.models import load_models  # noqa: E402  # needs those packages
from juzhen.serving.settings import Keys  # noqa: E402


def served(model, index=None, rerank=None, **options):
    options = {"name": None, "device": "cpu", "backend": "torch"} | options
    load_models(str(model), rerank, index, **options)


def verb(f, *words):
    """Start the verb with these words. BYTES is a file of bytes that are no text, KEYS one of a key."""
    files = {"BYTES": f.tmp_path / "bytes", "KEYS": f.tmp_path / "keys"}
    files["BYTES"].write_bytes(b"\xff\xfe\x00")
    files["KEYS"].write_text("0123456789abcdef\n")
    typed(f, "serve", f.prompted_folder, *(files.get(word, word) for word in words))


def indexed(f):
    """An index of the texts of that encoder."""
    encoder = SentenceEncoder.load(f.prompted_folder)
    build(f.tmp_path / "faq", encoder, Rows(["今天天气很好", "怎么退货"], ["a", "b"]), name="small")
    return f.tmp_path / "faq"


def second(f):
    """The folder of an encoder with other vectors."""
    return save_encoder(tiny_encoder(f.tiny_backbone, pooling="max"), f.tmp_path / "second", card={})


def adapter(f):
    pytest.importorskip("peft")
    config = BackboneConfig(path=str(f.encoder_folder), adapter=AdapterConfig(rank=2))
    return save_encoder(load_backbone(config, seed=1), f.tmp_path / "faq", card={})


def deciding(f):
    """The folder of an encoder with the thresholds of two sets."""
    card = {"thresholds": {"demo": 0.5, "other": 0.25}, "trained_on": ["demo"]}
    return save_encoder(tiny_encoder(f.tiny_backbone), f.tmp_path / "bi", card=card)


REFUSED = [
    (lambda f: served(f.prompted_folder, indexed(f), compare=str(second(f))), "--compare: give --index FILE"),
    (lambda f: served("builtin/mini_zh", indexed(f)), "other weights or settings"),
    (lambda f: served(adapter(f), adapters=[str(f.encoder_folder)]), "--adapter .*encoder has no adapter"),
    (lambda f: served("builtin/mini_zh", adapters=["builtin/mini_zh"]), "--adapter .*has no adapter"),
    (
        lambda f: served(f.prompted_folder, "texts.txt", compare=str(f.prompted_folder)),
        "--compare .*another run",
    ),
    *(
        (lambda f, words=words: verb(f, *words), told)
        for words, told in {
            ("--name", " "): "--name.*empty",
            ("--name", "a\nb"): "--name.*one line",
            ("--name", "\ud800"): "--name.*surrogate",
            ("--host", ""): "--host.*empty",
            ("--compare", ""): "--compare.*empty",
            ("--host", "http://localhost"): "--host http://localhost.*--port",
            ("--host", "localhost:8000"): "--host localhost:8000.*--port",
            ("--host", "256.1.1.1", "--no-keys"): "--host 256.1.1.1.*127.0.0.1",
            ("--host", "8.8.8.8", "--no-keys"): "--host 8.8.8.8.*127.0.0.1",
            ("--host", "0.0.0.0"): "--host 0.0.0.0.*--no-keys",
            ("--host", "127.evil.example"): "--host 127.evil.example.*--no-keys",
            ("--api-keys", "BYTES"): "bytes.*16 ASCII",
            ("--api-keys", "KEYS", "--no-keys"): "--api-keys, --no-keys",
        }.items()
    ),
    (
        lambda f: (f.monkeypatch.setenv("JUZHEN_API_KEYS", "k" * 20), verb(f, "--no-keys")),
        "JUZHEN_API_KEYS, --no-keys",
    ),
    *((lambda f, value=value: Keys(value), "^keys: ") for value in ("0123456789abcdef", [""])),
    (lambda f: served(folder := adapter(f), adapters=[str(folder)]), "several are called faq"),
    (
        lambda f: served(f.prompted_folder, rerank=str(f.cross_folder), name=f.cross_folder.name),
        "several are called judge.*--name",
    ),
    *(
        (lambda f, word=word: served(deciding(f), threshold=word), told)
        for word, told in {
            "demmo": "--threshold demmo.*demo",
            "nan": "--threshold nan.*demo",
            "7": r"^threshold=7.*-1 to 1",
        }.items()
    ),
    (
        lambda f: SentenceEncoder.load(deciding(f)).is_same("今天", "明天", threshold=-1.5),
        r"^threshold=-1.5",
    ),
    *each(
        lambda f, words: typed(f, "serve", "builtin/mini_zh", *words.split()),
        [(words, words.split()[0]) for words in ("--proxy localhost:80", "--timeout inf", "--timeout nan")],
    ),
]


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_a_file_of_keys_may_come_from_windows(tmp_path, mark):
    (tmp_path / "keys").write_bytes(mark + b"0123456789abcdef\r\nfedcba9876543210\r\n")
    keys = Keys.read(tmp_path / "keys")
    assert [keys.number(f"Bearer {key}") for key in ("0123456789abcdef", "fedcba9876543210")] == [0, 1]


@pytest.mark.parametrize(("call", "told"), REFUSED)
@pytest.mark.sampled(3)
def test_what_cannot_be_served_is_refused_by_its_option(call, told, f):
    with pytest.raises(UserError, match=told):
        call(f)
