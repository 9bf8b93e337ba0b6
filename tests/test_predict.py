import gzip
import re

import numpy as np
import pytest
from forks import printed

from juzhen.calibration.pair_scorer import Scorer
from juzhen.cli.main import main
from juzhen.core.array_cache import read_arrays
from juzhen.core.file_guard import LIST
from juzhen.encoders import load_backbone, load_encoder, save_encoder
from juzhen.encoders.backbone_config import BackboneConfig

PAIRS = [("今天天气很好", "今天是个好天气"), ("怎么修改密码", "密码怎么改"), ('他说"好', "不，行")]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run folder with an encoder inside."""
    folder = tmp_path_factory.mktemp("run")
    config = BackboneConfig(path="builtin/encoder", initialize="random", max_length=32)
    save_encoder(load_backbone(config, seed=3), folder / "encoder", card={})
    return str(folder)


@pytest.fixture(scope="module")
def cosines(run):
    encoder = load_encoder(run)
    embed = [
        encoder.encode(list(side), batch_tokens=999, show_progress=False) for side in zip(*PAIRS, strict=True)
    ]
    first, second = (side / np.linalg.norm(side, axis=1, keepdims=True) for side in embed)
    return (first * second).sum(axis=1)


def write_pairs(path, *, header="id\tsentence1\tsentence2\tlabel\n", opened=open):
    lines = [f"{number}\t{first}\t{second}\t{number % 2}\n" for number, (first, second) in enumerate(PAIRS)]
    with opened(path, "wt", encoding="utf-8") as file:
        file.write(header + "".join(lines))
    return path


def test_two_sentences_print_their_cosine(run, cosines, capsys):
    assert main(["score", run, *PAIRS[0]]) == 0
    assert float(capsys.readouterr().out) == pytest.approx(cosines[0], abs=1e-4)
    assert main(["score", f"{run}/encoder", *PAIRS[0]]) == 0
    assert float(capsys.readouterr().out) == pytest.approx(cosines[0], abs=1e-4)


@pytest.mark.parametrize("backend", ["torch_bf16", pytest.param("onnx", marks=pytest.mark.slow)])
def test_a_back_end_and_a_cache_change_how_a_score_is_computed_not_the_score(
    run, cosines, tmp_path, capsys, backend
):
    if backend == "onnx":
        pytest.importorskip("onnxruntime")
        pytest.importorskip("onnxscript")
    for _ in range(2):
        assert main(["score", run, *PAIRS[1], "--backend", backend, "--cache", str(tmp_path)]) == 0
        assert float(capsys.readouterr().out) == pytest.approx(cosines[1], abs=2e-3)
        (segment,) = tmp_path.rglob("*.safetensors")
    assert len(read_arrays(segment)["vectors"]) == 2


def test_a_file_gets_one_more_column_and_keeps_the_others(run, cosines, tmp_path):
    path = write_pairs(tmp_path / "pairs.tsv")
    assert main(["score", run, "--file", str(path)]) == 0
    given = path.read_text(encoding="utf-8").splitlines()
    scored = (tmp_path / "pairs.scored.tsv").read_text(encoding="utf-8").splitlines()
    assert scored[0] == given[0] + "\tscore"
    assert [line.rpartition("\t")[0] for line in scored[1:]] == given[1:]
    scores = [float(line.rpartition("\t")[2]) for line in scored[1:]]
    np.testing.assert_allclose(scores, cosines, atol=2e-6)
    assert sorted(one.name for one in tmp_path.iterdir()) == [LIST, "pairs.scored.tsv", "pairs.tsv"]


def test_a_file_holds_the_very_scores_and_so_their_order(run, tmp_path, monkeypatch):
    """Of an encoder whose cosines differ in the seventh decimal only."""
    close = np.nextafter(np.float32(0.75), np.float32(1), dtype=np.float32)
    scores = np.array([0.75, close, 1e-9], dtype=np.float32)
    monkeypatch.setattr(Scorer, "scores", lambda *given, **options: scores)
    path = write_pairs(tmp_path / "pairs.tsv")
    assert main(["score", run, "--file", str(path)]) == 0
    lines = (tmp_path / "pairs.scored.tsv").read_text(encoding="utf-8").splitlines()[1:]
    written = [line.rpartition("\t")[2] for line in lines]
    assert np.array(written, dtype=np.float32).tolist() == scores.tolist()
    assert float(written[0]) < float(written[1])


def test_other_columns_no_header_compressed_and_a_chosen_output(run, cosines, tmp_path):
    path = write_pairs(tmp_path / "pairs.tsv.gz", header="", opened=gzip.open)
    output = tmp_path / "out.tsv"
    command = [run, "--file", str(path), "--no-header", "--columns", "3", "2", "--output", str(output)]
    assert main(["score", *command]) == 0
    rows = [line.split("\t") for line in output.read_text(encoding="utf-8").splitlines()]
    assert [tuple(row[1:3]) for row in rows] == PAIRS
    np.testing.assert_allclose([float(row[4]) for row in rows], cosines, atol=2e-6)


def test_quoted_csv_stays_quoted(run, tmp_path):
    path = tmp_path / "pairs.csv"
    path.write_text('a,b\n"今天,好","他说""行"""\n', encoding="utf-8")
    assert main(["score", run, "--file", str(path), "--quoted", "--columns", "a", "b"]) == 0
    header, row = (tmp_path / "pairs.scored.csv").read_text(encoding="utf-8").splitlines()
    assert header == "a,b,score"
    assert row.startswith('"今天,好","他说""行""",')


@pytest.mark.parametrize("encoding", ["gb18030", "utf-16", "utf-8-sig"])
def test_a_table_of_a_spreadsheet_is_scored_and_opens_there_again(run, tmp_path, encoding):
    text = 'sentence1,sentence2\n"今天,天气很好",今天是个好天气\n怎么还花呗,如何还款\n'
    for name, used in (("plain", "utf-8"), ("saved", encoding)):
        (tmp_path / f"{name}.csv").write_bytes(text.encode(used))
        assert main(["score", run, "--file", str(tmp_path / f"{name}.csv")]) == 0
    plain, saved = ((tmp_path / f"{name}.scored.csv").read_bytes() for name in ("plain", "saved"))
    assert saved == b"\xef\xbb\xbf" + plain
    assert plain.decode().startswith('sentence1,sentence2,score\n"今天,天气很好",')


@pytest.mark.parametrize("encoding", ["gb18030", "utf-16"])
def test_lines_of_another_encoding_are_encoded_as_the_same_texts(run, tmp_path, encoding):
    vectors = []
    for used in ("utf-8", encoding):
        (tmp_path / "lines.txt").write_bytes("今天天气很好\n怎么还花呗\n".encode(used))
        assert (
            main(["encode", run, str(tmp_path / "lines.txt"), "--output", str(tmp_path / f"{used}.npy")]) == 0
        )
        vectors.append(np.load(tmp_path / f"{used}.npy"))
    np.testing.assert_array_equal(*vectors)


@pytest.mark.parametrize(
    ("content", "more", "message"),
    [
        (b"", [], "the file is empty"),
        (b"sentence1\tsentence2\ttitle\na\tb\tc\n", [], "sentence1, sentence2, title.*--columns text_a=1"),
        (b"sentence1\tsentence2\na\tb\n", ["--columns", "sentence1", "7"], "no column 7"),
        (b"a\tb\n", ["--no-header", "--columns", "0", "2"], "no column 0 .*from 1"),
        (b"a\tb\n", ["--no-header", "--columns", "1", "3"], "no column 3"),
        (b"sentence1\tsentence2\na\tb\nc\n", [], r"pairs.tsv:3: "),
        (
            b"sentence1\tsentence2\na\tb\n \tb\n",
            [],
            r"pairs.tsv:3: sentence1 is empty.*--on-bad-row drop",
        ),
        (b"sentence1\tsentence2\na\t\xff\xfe\n", [], r"pairs.tsv:2: "),
        (b"sentence1\tsentence2\tscore\na\tb\t1\n", [], "--score-column"),
        (b"a\tb\na\tb\n", ["--columns", "a", "x"], r"no column x for text_b. Known: a, b$"),
        (b"a\tb\na\tb\n", ["--columns", "a", "\u00b2"], "no column \u00b2"),
        (b"a\tb\na\tb\n", ["--columns", "a", "a"], "expected two columns"),
        (b"a\ta\tb\n1\t2\t3\n", ["--columns", "a", "b"], "the column a 2 times"),
        (b"sentence1\tsentence2\na\tb\x00\n", [], r"pairs.tsv:2: binary data"),
        (b"sentence1\tsentence2\na\tb\n", ["--output", "{folder}/pairs.tsv"], "the input file"),
    ],
)
def test_a_bad_file_is_named_and_nothing_is_written(run, tmp_path, capsys, content, more, message):
    path = tmp_path / "pairs.tsv"
    path.write_bytes(content)
    more = [word.format(folder=tmp_path) for word in more]
    assert main(["score", run, "--file", str(path), *more]) == 2
    printed = capsys.readouterr().err
    assert printed.startswith("error: ")
    assert "Traceback" not in printed
    assert re.search(message, printed), printed
    assert [one.name for one in tmp_path.iterdir()] == ["pairs.tsv"]


def test_a_score_column_may_be_renamed(run, tmp_path):
    path = tmp_path / "sts.tsv"
    path.write_text("sentence1\tsentence2\tscore\n今天\t明天\t2.5\n", encoding="utf-8")
    assert main(["score", run, "--file", str(path), "--score-column", "predicted"]) == 0
    assert (
        (tmp_path / "sts.scored.tsv")
        .read_text(encoding="utf-8")
        .startswith("sentence1\tsentence2\tscore\tpredicted\n")
    )


def test_torch_waits_until_the_command_line_is_right():
    lines = (["nowhere", "--file", "no.tsv"], ["nowhere"], ["nowhere", "a", "b", "--backend", "onx"])
    code = f"for words in {lines}: main(['score', *words]); print('torch' in sys.modules)"
    assert printed("-c", f"import sys; from juzhen.cli.main import main\n{code}") == 3 * "False\n"


def test_a_link_that_was_planted_beside_the_output_is_not_followed(run, tmp_path):
    folder, precious = tmp_path / "folder", tmp_path / "precious"
    folder.mkdir()
    precious.write_text("mine")
    path = write_pairs(folder / "p.tsv")
    for name in ("p.scored.tsv.part", ".p.scored.tsv.part", "p.scored.tsv"):
        (folder / name).symlink_to(precious)
    assert main(["score", run, "--file", str(path)]) == 2
    (folder / "p.scored.tsv").unlink()
    assert main(["score", run, "--file", str(path)]) == 0
    assert precious.read_text() == "mine"
    assert (folder / "p.scored.tsv").read_text(encoding="utf-8").endswith("\n")
