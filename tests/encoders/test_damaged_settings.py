"""Settings of a damaged folder end in a message that names the file and what to do."""

import json
import re

import pytest
from test_backbone import write_json, write_modules

from juzhen.core.errors import UserError
from juzhen.encoders import CrossEncoder, SentenceEncoder
from juzhen.encoders.folder_settings import naming

WAY_OUT = r"Copy the files? again|Mend the file|Use another"


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("config.json", lambda text: text[: len(text) // 2]),
        ("tokenizer.json", lambda text: json.dumps({"version": "1.0"})),
        ("tokenizer.json", lambda text: ""),
        ("tokenizer_config.json", lambda text: "[1]"),
        ("modules.json", lambda text: "{"),
        ("1_Pooling/config.json", lambda text: "not json"),
        ("config_sentence_transformers.json", lambda text: '{"prompts": '),
        ("sentence_bert_config.json", lambda text: "\x00"),
    ],
)
def test_a_damaged_file_is_named_with_a_way_out(folder, name, damage):
    write_modules(folder, ("Transformer", "Pooling"))
    write_json(folder / "1_Pooling/config.json", {"pooling_mode_mean_tokens": True})
    path = folder / name
    path.write_text(damage(path.read_text(encoding="utf-8") if path.exists() else ""), encoding="utf-8")
    with pytest.raises(UserError) as told:
        SentenceEncoder.load(folder)
    assert str(folder) in str(told.value)
    assert re.search(WAY_OUT, str(told.value)), str(told.value)


@pytest.mark.parametrize("value", ["no", "false", [], 2])
@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("sentence_bert_config.json", "do_lower_case"),
        ("config_sentence_transformers.json", "include_prompt"),
        ("1_Pooling/config.json", "pooling_mode_cls_token"),
        ("1_Pooling/config.json", "include_prompt"),
    ],
)
def test_what_is_neither_true_nor_false_in_a_file_is_refused(folder, name, key, value):
    write_modules(folder, ("Transformer", "Pooling"))
    write_json(folder / "1_Pooling/config.json", {"pooling_mode_mean_tokens": True})
    path = folder / name
    settings = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    path.write_text(json.dumps(settings | {key: value}), encoding="utf-8")
    with pytest.raises(UserError, match=re.escape(f"{key}=")) as told:
        SentenceEncoder.load(folder)
    assert name in str(told.value)


def test_own_files_too(folder, tmp_path):
    CrossEncoder(SentenceEncoder.load(folder), outputs=1, segments=False, symmetric=False, seed=0).save(
        tmp_path / "pairs"
    )
    path = tmp_path / "pairs" / "crossencoder.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"symmetric": "no"}))
    with pytest.raises(UserError, match=r"crossencoder.json: symmetric='no'"):
        CrossEncoder.load(tmp_path / "pairs")


def test_a_missing_entry_and_foreign_code_have_their_own_ways_out():
    with pytest.raises(UserError, match=r"^x: KeyError: 'added_tokens'\. Copy the files again"), naming("x"):
        {}["added_tokens"]
    with pytest.raises(UserError, match=r"Use another model$"), naming("x"):
        raise ValueError("This needs trust_remote_code=True")
