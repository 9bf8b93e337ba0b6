"""Slips on the command line of a verb: one line that says what to type, status 2, and nothing written."""

import re
import shutil

import numpy as np
import pytest
from refusals import Fixtures

import juzhen.cli.main as program

TOKENS = (
    "score x a b",
    "encode x a.txt",
    "evaluate runs",
    "calibrate x",
    "fuse x y",
    "transfer x mrpc",
    "space x",
    "distill x mrpc --out of_tests_a.tsv",
    "mine mrpc bm25 --out of_tests_a.tsv",
)
MINE = "mine x bm25 --out of_tests_a.tsv"
SLIPS = {
    "tabel runs": ("tabel: unknown command. Did you mean table?", "compare, gate, report"),
    "calibrat runs/x": "unknown command. Did you mean calibrate?",
    "destill": "destill: unknown command. Did you mean distill?",
    "table runs --markdwon x": "--markdwon: unknown option. Did you mean --markdown?",
    "archive runs --split dev": "--split: unknown option. It is an option of space, mteb",
    "index search x --file a": ("--file: unknown option. It is an option of", "index remove"),
    "table EMPTY": "error: folder: ",
    "table runs --csv BLANK": "error: --csv",
    f"table {'a' * 300}": "(300 characters): File name too long",
    "table": "'folder'. See juzhen table --help",
    "mine lcqmc bm25": "'--out'. See juzhen mine --help",
    "table runs --split tset": ("'--split': 'tset' is not one of 'dev', 'test', 'both'", "See juzhen table"),
    "fuse a": "See juzhen fuse --help",
    "calibrate a --sets": ("'--sets'", "See juzhen calibrate --help"),
    "models": ("python train.py --help", "docs/guides/choose.md"),
    "curves runs": ("juzhen report", "metrics/"),
    "": "See juzhen --help",
    "table a split=dev": ("split=dev", "Type --split dev. See juzhen table --help"),
    "table a b": "(b)",
    "table a -5度": "after --",
    "table a -s dev": ("-s: unknown option", "--split"),
    "help encode": "juzhen --help",
    "version": "juzhen --version",
    "download BAAI/bge-m3": "hf download",
    "encode --model x --input y": ("--model: unknown option", "juzhen encode ENCODER FILE"),
    "encode x y --fp16": ("--fp16: unknown option", "juzhen encode ENCODER FILE"),
    "merge x y --out z": ("--out: unknown option", "juzhen merge RUN OUT"),
    "index create i x y": ("index create: unknown command", "build"),
    "index build y": "juzhen index build FOLDER ENCODER FILE",
    "calibrate x faq.csv": "Type --data faq.csv",
    "leaks faq.csv": "Type --train faq.csv",
    "leaks lcqmc": "Type --train lcqmc",
    "score faq.csv runs/x": "juzhen score runs/x --file faq.csv",
    "score faq.csv": "juzhen score runs/NAME --file faq.csv",
    "transfer x faq.csv": "juzhen dataset faq.csv",
    "score x 今天 明天 —decide": "Type --decide",
}
NUMBERS = {
    **{
        f"{verb} --batch-tokens={value}": "'--batch-tokens'"
        for verb in TOKENS
        for value in ("0", "-1", "３", "1e3", "x", "")
    },
    "space x --seed=-1": ("'--seed'", "to 0"),
    "space x --texts=9": ("'--texts'", "to 10"),
    f"transfer x mrpc --seed={2**32}": ("'--seed'", "less than or equal to"),
    "leaks --all --threshold=nan": "--threshold nan: ",
    f"{MINE} --range-max=0": ("'--range-max'", "greater"),
    f"{MINE} --relative-margin=all": ("'--relative-margin'", "'all'"),
    f"{MINE} --relative-margin=nan": ("--relative-margin nan", "a number from 0"),
}
FILES = {
    "encode x no.txt": "no.txt: No such file",
    "encode x -": "--output FILE.npy",
    "encode x {good} --output no/x.npy": "error: juzhen encode: ",
    "encode x {good} --precision int8 --ranges {good}": "--precision int8",
    "score x --file {good} --output no/x.csv": "no",
    "evaluate builtin/mini_zh --dataset own.csv": "without --dataset",
    "evaluate builtin/mini_zh own.csv": "own.csv: No such file",
    "evaluate {pairs}": "not an encoder",
    "evaluate {encoder} {pairs} --metric R@3": "--metric",
    "evaluate {encoder} {pairs} {pairs}": "dev/pairs: two sets",
    "encode x {docx}": ".csv, .tsv, .txt",
    "encode x {gap}": "gap.txt:2: the line is empty",
    "encode x {gap} --backend onx": "'--backend': 'onx' is not one of 'torch'",
    **{
        f"{words} EMPTY": f"{name}: an empty text"
        for words, name in (
            ("encode x {good} --cache", "--cache"),
            ("score {encoder} 今天 明天 --threshold", "--threshold"),
            ("index search x 今天 --encoder", "--encoder"),
            ("mteb {encoder} --tasks", "--tasks"),
            ("leaks --train", "--train"),
            ("merge x y z --base", "--base"),
            ("compare x", "runs"),
            ("fuse x", "runs"),
            ("characters", "encoder"),
            ("index push x", "address"),
        )
    },
    "evaluate EMPTY {pairs}": "names no encoder",
    "encode x {pairs} --columns text=1,text=2": "--columns text=1,text=2",
    "encode {encoder} {good} --output {empty}/x.npy --precision int8 --ranges {ranges}": "--ranges: ",
    "index remove x 5 --id 1": "--file",
    "index remove x 5 --sheet 1": "--sheet 1",
    "index search x 今天 --mode bm25 --encoder x": "--encoder: ",
    "index search x 今天 --mode bm25 --prompt-name x": "--prompt-name: ",
    "compare --published runs --csv {empty}/x.csv": "--csv",
    "compare --published runs --sets lcqmc": "--sets",
    "advise demo_sts --sources demo_qmc --columns text_a=1 --out {empty}/a": "--columns text_a=1",
    "advise demo_sts --sources demo_qmc demo_qmc --out {empty}/a": "--sources demo_qmc",
    "leaks --train demo_qmc --config-dir {empty} --output {empty}/a": "--config-dir ",
    "merge {encoder} {empty}/a --weights 1": "--method linear",
    "merge a b out --weights 0.5 0.5": ("--weights 0.5 0.5: ", "Type --weights 0.5,0.5"),
    "merge a b --weights 0.5 0.5 out": "Type --weights 0.5,0.5",
    "merge a b --dataset demo_sts out": ("--dataset takes all words behind it, also out", "RUN RUN OUT"),
    "index search x --filter kind=a 今天": ("'queries'. --filter takes all words behind it", "QUERIES"),
    "score x --file {pairs} --columns 1": ("--columns 1: ", "text_a and text_b", "--columns 1 2"),
    "score x --file {pairs} --columns 1 2 3": ("--columns 1 2 3: ", "--columns 1 2"),
    "score x 今天 明天 --file {pairs}": "--file FILE takes the place of the two sentences",
    "leaks --train demo_qmc --evaluate demo_qmc/tset": ("--evaluate demo_qmc/tset: ", "Did you mean test?"),
    "mine {pairs} bm25 --out {empty}/m.tsv --query-prompt q": "--query-prompt q: is for encoders",
    "mine {pairs} bm25 --out {empty}/m.tsv --index hnsw": "--index hnsw: is for embeddings",
    "transfer {encoder} demo_qmk": "unknown set. Did you mean demo_qmc?",
    "export {encoder} {empty}/out --sets lcqcm": "--sets lcqcm: unknown set. Did you mean lcqmc?",
    "score {encoder} 今天 明天 --calibration {pairs}": "juzhen calibrate",
    "export x out --format onxn": "'--format': 'onxn' is not one of",
    "export nowhere out": "nowhere",
    "score {encoder}-not 今天 明天": "no such folder",
    "score {empty} 今天 明天": "neither a run nor an encoder",
    "score {encoder} 今天": "--file",
    "score {encoder} 今天 BLANK": "is empty",
    "score {encoder} 今天 明天 --backend onx": "'onx' is not one of 'torch', 'torch_bf16', 'onnx', 'onnx_int8'",
    "score {encoder} --file {empty}/none.tsv": "none.tsv: No such file",
    "score x --file {good} --output x.parquet": "--output x.parquet",
    "encode x {good} --output x.csv": "--output x.csv",
    "encode x {good} --output {empty}/x.npy --cut-report {empty}/../empty/x.npy": "two outputs",
    "encode x {good} --output -": "-: results go to files",
    **{
        f"{words} --{option}": f"--{option.split()[0]}"
        for words in (
            "score {encoder} 今天 明天",
            "encode x {good} --output {empty}/x.npy",
            "mine demo_qmc x --out of_tests_a.tsv",
            "distill x demo_qmc --out of_tests_a.tsv",
            "space x --data demo_sts --out {empty}/out",
            "characters x {good}",
        )
        for option in ("header", "no-quoted", "sheet 1")
    },
    "score {encoder} 今天 明天 --output x.csv": "--file",
    "score {encoder} 今天 明天 --score-column x": "--file",
    "score {encoder} --file {pairs} --score-column BLANK": "--score-column",
    "score {encoder} --file {pairs} --decide --score-column same": "a column same",
    "score {encoder} --file {pairs} --split-cells EMPTY": "--split-cells",
    "score {encoder} 今天 明天 --words": "--words",
    "shrink x {empty}/out --layers 2 --dataset text_tatoeba": "--vocabulary",
    "shrink x {empty}/out --layers 2 --vocabulary 99": "--dataset",
    "score {encoder} --file {docx}": ".csv, .tsv",
    "advise demo_sts --sources nosuchset --out {empty}/a": "--sources nosuchset",
    "score bm25 a b": "juzhen evaluate",
    "characters bm25": "juzhen evaluate",
    "verify bm25": "juzhen evaluate",
    "evaluate {encoder} --dataset demo_retrieval --overlap 3": "overlap",
    "evaluate runs --dataset demo_retrieval --metric R@3": "--metric",
    "evaluate {encoder} --dataset demo_retrieval --columns text=a": "--columns",
    "evaluate {encoder} --dataset demo_retrieval --long-texts chunk --again": "--again",
    "encode {encoder} {mac} --output {empty}/x.npy": "mac.txt:1: ",
    "index remove x --file {mac}": "mac.txt:1: ",
    "encode {encoder} {twice} --output {empty}/x.npy": "'text' appears twice",
    "score {encoder} {good} {gap}": "--file",
    "index search x {good}": "good.txt",
    "leaks --train demo_qmc --evaluate demo_qmc/train --output {empty}/a": "--evaluate demo_qmc/train",
    "leaks --train {pairs} --evaluate {pairs} --output {empty}/a": "--evaluate ",
    "serve {encoder} --queue-tokens 1": "'--queue-tokens'",
    "serve {encoder} --processes 100000": "--processes 100000",
    "verify {encoder} {good} --with http://127.0.0.1:1": "(Connection refused)",
    "advise demo_sts --out {good}": "good.txt",
    "advise demo_sts --out {own}": "index.html",
    "mteb {encoder} --tasks STSB --out {good}": "good.txt",
    "mteb {encoder} --tasks ,": "--tasks ,",
    "index build {empty}/i {encoder} {good} --truncate-dim 10000": "10000",
    "index build {empty}/i {encoder} {good} --prompt-name passage": "passage",
    "index push {empty}/none qdrant:{empty}/q/x": "none",
    "merge EMPTY x y": "models: an empty text",
}
RUNS = {
    "compare {run}": "juzhen compare runs/FIRST runs/SECOND",
    "compare {run} {other} --sets lcqmc": "--sets lcqmc",
    "compare {run} {other} --csv {empty}/x --markdown {empty}/x": "two outputs",
    "calibrate {run} --sheet 1": "--sheet",
    "compare {run} {other} --metric nosuch": "--metric",
    "merge {run} {other} {index}": "index.sqlite",
    "compare {run} nowhere": "nowhere: no result in this folder",
    "compare --published {run} {run}": "juzhen compare --published runs",
    "gate {run} --against {other} --target nowhere": "--target nowhere",
    "evaluate {empty}/none": "no such folder",
    "evaluate {empty}": "no result.json below",
    "evaluate {run} --dataset demo_qcm": "Did you mean demo_qmc",
    **{
        words.format(other=other): told
        for other in ("{run}", "{run}/.", "{link}")
        for words, told in (
            ("compare {{run}} {other}", "different runs"),
            ("gate {{run}} --against {other}", "different runs"),
            ("fuse {{run}} {other} --output {{empty}}/out", "different runs"),
            ("merge {{run}} {other} {{empty}}/out", "each model once"),
        )
    },
    "merge {run} {other} {empty}/out --weights dev --dataset LCQMC": "--dataset LCQMC: unknown set. Type lcqmc",
    "merge {run} {other} {empty}/out --dataset demo_sts": "--dataset (without --weights dev): ",
    "evaluate {run} --dataset LCQMC": "--dataset LCQMC: unknown set. Type --dataset lcqmc",
    "serve {encoder} --index a --index b": "--index: given twice. Type it once",
    "score {encoder} a b --threshold 0.5 --threshold 0.6": "--threshold: given twice",
    "evaluate {run} --dataset sts-b": "--dataset sts-b: unknown set. Type --dataset stsb_en (Chinese: csts)",
    "evaluate {run} --dataset csts lcqmc": "lcqmc: is a set, not a run. Type --dataset csts --dataset lcqmc",
    "evaluate {run} --dataset nli": "(English: --dataset snli --dataset mnli)",
    "evaluate {run} --dataset demo_sts --hardware gpu": "--hardware gpu: unknown option. Type --hardware cuda",
    "evaluate {run} --benchmark mteb": "--benchmark mteb: unknown option",
    "fuse {run} {copy} --output {empty}/out": "same weights",
    "merge {run} {copy} {empty}/out": "same weights",
    "mine demo_qmc {run} {copy} --limit 5 --out {empty}/of_tests_m.tsv": "once",
    "index build {copy} {copy} {good}": "copy-index",
    "advise demo_sts --out {run}": "folder of a run",
    "advise demo_sts --out {foreign}": "--out {foreign}: holds a run",
    "advise demo_sts --answers {pairs}": "Type --corpus <their table>",
    "export {run} {other}": "is the folder of a run or a cache",
    "table {run} --picture {empty}/x.txt": ("--picture ", ".svg or .png"),
    "memory training.batch_size=999999999": "training.batch_size=999999999: ",
    "index search {index} -": "-: is a file, where a text is expected",
    "push {run} a/b/c": "error: a/b/c: not the name of a repository",
    "report {run} --debug --into {empty}/none.md": "none.md",
    "serve {run} --threshold nan": "error: --threshold nan: neither a score",
    "characters mini_zh": "builtin/mini_zh",
    "score {run} 今天 明天 --threshold 0,5": "error: --threshold 0,5: neither a score",
}


@pytest.fixture
def places(f: Fixtures, tmp_path):
    """Name → file or folder that a slip may name; runs are made for those that name them."""
    texts = {
        "gap.txt": "好\n\n好\n",
        "good.txt": "好\n",
        "docx.docx": "x",
        "pairs.csv": "a,b\n甲,乙\n丙,丁\n",
        "mac.txt": "好\r坏\r",
        "twice.json": '[{"text": "好", "text": "坏"}]',
        "own/index.html": "mine",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8", newline="")
    (tmp_path / "empty").mkdir()
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / "index.sqlite").write_bytes(b"")
    np.save(tmp_path / "ranges.npy", np.zeros((2, 3), np.float32))

    def find(words):
        found = {name: tmp_path / f"{name}.txt" for name in ("gap", "good", "mac")}
        found |= {name: tmp_path / file for name, file in (("docx", "docx.docx"), ("pairs", "pairs.csv"))}
        found |= {"twice": tmp_path / "twice.json", "own": tmp_path / "own"}
        found |= {"index": tmp_path / "index", "ranges": tmp_path / "ranges.npy"}
        found |= {"empty": tmp_path / "empty", "encoder": f.encoder_folder}
        if {*re.findall("{(run|copy|foreign)}", words)}:
            first, second = f.two_runs
            (tmp_path / "link").symlink_to(first)
            shutil.copytree(first, tmp_path / "copy")
            (tmp_path / "foreign").mkdir()
            shutil.copy(first / "result.json", tmp_path / "foreign")
            found |= {"foreign": tmp_path / "foreign"}
            found |= {"run": first, "other": second, "link": tmp_path / "link", "copy": tmp_path / "copy"}
        return found

    return find


def all_below(folder):
    return sorted(path for path in folder.rglob("*"))


@pytest.mark.parametrize(
    ("words", "told"),
    [*SLIPS.items(), *NUMBERS.items(), *FILES.items(), *RUNS.items()],
    ids=lambda value: str(value)[:60],
)
@pytest.mark.sampled(2)
def test_a_slip_is_met_with_what_to_type(words, told, places, tmp_path, capsys):
    found = places(words)
    before = all_below(tmp_path)
    capsys.readouterr()
    spaces = {"EMPTY": "", "BLANK": " "}
    assert program.main([spaces.get(word, word).format(**found) for word in words.split()]) == 2
    output = capsys.readouterr()
    assert output.err.startswith("error: ")
    assert output.err.count("\n") == 1
    assert "{" in words or output.out == ""
    for part in (told,) if isinstance(told, str) else told:
        assert part.format(**found) in output.err
    assert all_below(tmp_path) == before
