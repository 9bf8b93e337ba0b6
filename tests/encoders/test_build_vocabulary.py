import pytest
from forks import python
from transformers import AutoTokenizer, BertTokenizer

from tools.build_vocabulary import SPECIAL, gb2312_hanzi, vocabulary, write_decoder, write_files


@pytest.mark.parametrize(("name", "write"), [("encoder", write_files), ("decoder", write_decoder)])
def test_the_committed_files_are_what_the_script_writes(project_root, tmp_path, name, write):
    write(tmp_path)
    for path in tmp_path.glob("[!.]*"):
        assert path.read_bytes() == (project_root / "juzhen" / "builtin" / name / path.name).read_bytes(), (
            path.name
        )


@pytest.mark.slow
def test_the_command_writes_the_same_in_a_fresh_process(project_root, tmp_path):
    folders = tmp_path / "encoder", tmp_path / "decoder"
    python("-m", "tools.build_vocabulary", *folders, check=True, env={"PYTHONHASHSEED": "7"})
    vocab = (project_root / "juzhen" / "builtin" / "encoder" / "vocab.txt").read_bytes()
    assert (folders[0] / "vocab.txt").read_bytes() == vocab


def test_a_text_of_the_decoder_ends_once(project_root):
    decoder = AutoTokenizer.from_pretrained(project_root / "juzhen" / "builtin" / "decoder")
    assert decoder.convert_ids_to_tokens(decoder("你好")["input_ids"]) == ["你", "好", "[SEP]"]
    assert decoder("你好" * 9, truncation=True, max_length=4)["input_ids"][-1] == decoder.eos_token_id


def test_all_of_gb2312_is_there_and_nothing_twice():
    hanzi = gb2312_hanzi()
    assert len(hanzi) == len(set(hanzi)) == 6763
    assert (hanzi[0], hanzi[3754], hanzi[3755], hanzi[-1]) == ("啊", "座", "亍", "齄")
    tokens = vocabulary()
    assert len(tokens) == len(set(tokens))
    assert tuple(tokens[:5]) == SPECIAL
    assert set(hanzi) < set(tokens)


def test_auto_tokenizer_reads_the_whole_vocabulary(tokenizer):
    assert isinstance(tokenizer, BertTokenizer)
    assert [tokenizer.convert_ids_to_tokens(number) for number in range(len(tokenizer))] == vocabulary()
    assert tokenizer.pad_token_id == 0
    assert tokenizer.model_max_length == 512


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
def test_everything_splits_into_characters(tokenizer, text, tokens):
    assert tokenizer.tokenize(text) == tokens.split()


def test_a_sentence_is_framed(tokenizer):
    numbers = tokenizer("你好")["input_ids"]
    assert tokenizer.convert_ids_to_tokens(numbers) == ["[CLS]", "你", "好", "[SEP]"]
    assert tokenizer("你好", "再见")["token_type_ids"] == [0, 0, 0, 0, 1, 1, 1]


def test_every_printable_ascii_sign_has_a_token(tokenizer):
    assert tokenizer.unk_token_id not in tokenizer("".join(map(chr, range(33, 127))))["input_ids"]
