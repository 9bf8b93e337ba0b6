"""What a format or a back end cannot hold is refused, and nothing is written."""

import errno
from dataclasses import replace

import pytest
from jobs import tiny_encoder
from refusals import each, rows, typed
from test_export import PROOF

from juzhen import CrossEncoder
from juzhen.backends.graph_backends import export_onnx
from juzhen.core.errors import UserError
from juzhen.core.file_guard import claim_dir
from juzhen.encoders import save_encoder
from juzhen.export import folder as folder_module
from juzhen.export.backend_comparison import compare_backends
from juzhen.export.folder import export_encoder
from juzhen.export.formats import Format
from juzhen.export.loaders import open_export


@pytest.fixture(scope="module")
def encoder(tiny_backbone):
    return tiny_encoder(tiny_backbone).eval()


def joint(f, **options):
    options = {"outputs": 1, "segments": False, "symmetric": False, "seed": 0} | options
    return CrossEncoder(tiny_encoder(f.tiny_backbone), **options).eval()


def export(f, encoder, form, **options):
    try:
        export_encoder(encoder, f.tmp_path / "out", form, **options)
    finally:
        assert not list(f.tmp_path.iterdir())


def onto_an_encoder_of_a_run(f):
    claim_dir(f.tmp_path / "run")
    place = save_encoder(f.encoder, f.tmp_path / "run" / "encoder", card={})
    before = {file: file.read_bytes() for file in place.rglob("*") if file.is_file()}
    try:
        export_encoder(f.encoder, place, Format.SENTENCE_TRANSFORMERS)
    finally:
        assert {file: file.read_bytes() for file in place.rglob("*") if file.is_file()} == before


def beyond_the_bound(f):
    apart = replace(PROOF, differences={"a": 1.0}, speed={"before": 1, "after": 1})
    f.monkeypatch.setattr(folder_module, "prove", lambda *given, **options: apart)
    return f.encoder


def verb(f, words):
    (f.tmp_path / "texts.txt").write_text("今天\n", encoding="utf-8")
    f.monkeypatch.setattr("juzhen.core.errors.find_spec", lambda name: None)
    try:
        typed(f, *(word.format(encoder=f.encoder_folder, folder=f.tmp_path) for word in words.split()))
    finally:
        assert [path.name for path in f.tmp_path.iterdir()] == ["texts.txt"]


REFUSED = {
    "an export": [
        (
            lambda f: export(f, beyond_the_bound(f), Format.SENTENCE_TRANSFORMERS),
            r"1.0e\+00.*Set allow_difference",
        ),
        (lambda f: export(f, joint(f, outputs=3), Format.STATIC), "a cross-encoder has none"),
        (lambda f: export(f, joint(f, outputs=3), Format.ONNX, dim=4), "scores and no embeddings"),
        (lambda f: export(f, f.encoder, Format.ONNX, dim=64), "truncate_dim=64"),
        (lambda f: export(f, joint(f, symmetric=True), Format.SENTENCE_TRANSFORMERS), "both orders"),
        *(
            (lambda f, form=form: export(f, f.encoder, form), f"^format={form}: .*onnx")
            for form in ("onxx", "ONNX", None, 5)
        ),
        (lambda f: export(f, f.encoder, "static", sets="demo_stx"), "demo_sts"),
        (onto_an_encoder_of_a_run, r"test_what_an_export\S*/run\b"),
        *(
            (lambda f, limit=limit: export(f, f.encoder, "static", limit=limit), "^limit=.*at least 1")
            for limit in (0, -1, True, "a")
        ),
        (lambda f: export(f, f.encoder, "static", name=5), "^name"),
    ],
    "a back end": [
        (lambda f: open_export(f.tmp_path), "no export of juzhen"),
        (
            lambda f: compare_backends(f.encoder, ["今天"], beside=[str(f.tmp_path)], only=()),
            "no export of juzhen",
        ),
        (
            lambda f: compare_backends(joint(f), ["今天"], beside=["http://127.0.0.1:9"], only=()),
            "export",
        ),
        (lambda f: compare_backends(f.encoder, "今天"), "^texts: got one text"),
        (lambda f: compare_backends(f.encoder, []), "^texts: none"),
        (lambda f: compare_backends(f.encoder, ["今天"], only=["torhc"]), "^only=torhc.*torch"),
        (lambda f: export_encoder("builtin/mini_zh", f.tmp_path / "x", "onnx"), "^encoder: got a str.*load"),
    ],
    "a verb": each(
        verb,
        [
            ("export {encoder} {folder}/out --format openvino-int8", "openvino, nncf. Type: pip install"),
            ("verify {encoder} --ways torhc", r"Did you mean torch\?"),
            ("verify {encoder} {folder}/texts.txt --ways torch --with {folder}", "export"),
        ],
    ),
}


@pytest.mark.parametrize(("call", "words"), rows(REFUSED))
def test_what_an_export_cannot_hold_is_refused(f, call, words):
    with pytest.raises(UserError, match=words):
        call(f)


def test_a_full_disk_is_not_said_of_the_architecture(encoder, tmp_path, monkeypatch):
    class Program:
        def save(self, path):
            raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr("torch.onnx.export", lambda *given, **options: Program())
    with pytest.raises(OSError, match="No space left"):
        export_onnx(encoder, tmp_path / "model.onnx", quantised=False)
