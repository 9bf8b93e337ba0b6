import subprocess
import sys

import pytest
from transformers import AutoTokenizer, BertTokenizer

from tools.build_vocabulary import SPECIAL, gb2312_hanzi, vocabulary, write_files


@pytest.fixture(scope="module")
def embedded(project_root):
    return AutoTokenizer.from_pretrained(project_root / "builtin" / "encoder", local_files_only=True)


def test_the_committed_files_are_what_the_script_writes(project_root, tmp_path):
    write_files(tmp_path)
    for path in tmp_path.iterdir():
        assert path.read_bytes() == (project_root / "builtin" / "encoder" / path.name).read_bytes(), path.name


@pytest.mark.slow
def test_the_command_writes_the_same_in_a_fresh_process(project_root, tmp_path):
    command = [sys.executable, "-m", "tools.build_vocabulary", str(tmp_path)]
    subprocess.run(command, cwd=project_root, check=True, env={"PYTHONHASHSEED": "7"})
    vocab = (project_root / "builtin" / "encoder" / "vocab.txt").read_bytes()
    assert (tmp_path / "vocab.txt").read_bytes() == vocab


def test_all_of_gb2312_is_there_and_nothing_twice():
    hanzi = gb2312_hanzi()
    assert len(hanzi) == len(set(hanzi)) == 6763
    assert (hanzi[0], hanzi[3754], hanzi[3755], hanzi[-1]) == ("啊", "座", "亍", "齄")
    tokens = vocabulary()
    assert len(tokens) == len(set(tokens))
    assert tuple(tokens[:5]) == SPECIAL
    assert set(hanzi) < set(tokens)


def test_auto_tokenizer_reads_the_whole_vocabulary(embedded):
    assert isinstance(embedded, BertTokenizer)
    assert [embedded.convert_ids_to_tokens(number) for number in range(len(embedded))] == vocabulary()
    assert embedded.pad_token_id == 0
    assert embedded.model_max_length == 512


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("今天，天气好！", "今 天 ， 天 气 好 ！"),
        ("iPhone 15手机", "i ##p ##h ##o ##n ##e 1 ##5 手 机"),
        ("ＡＢ１", "ａ ##ｂ ##１"),
        ("30℃～35℃", "3 ##0 ##℃ ##～ ##3 ##5 ##℃"),
        ("café①", "c ##a ##f ##e ##①"),
        ("第Ⅳ章", "第 ⅳ 章"),
        ("“你好……”", "“ 你 好 … … ”"),
        ("😀", "[UNK]"),
    ],
)
def test_everything_splits_into_characters(embedded, text, tokens):
    assert embedded.tokenize(text) == tokens.split()


def test_a_sentence_is_framed(embedded):
    numbers = embedded("你好")["input_ids"]
    assert embedded.convert_ids_to_tokens(numbers) == ["[CLS]", "你", "好", "[SEP]"]
    assert embedded("你好", "再见")["token_type_ids"] == [0, 0, 0, 0, 1, 1, 1]


def test_every_printable_ascii_sign_has_a_token(embedded):
    assert embedded.unk_token_id not in embedded("".join(map(chr, range(33, 127))))["input_ids"]
