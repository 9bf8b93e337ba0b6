"""A whole mining: files, kill and resume, calibration, the verb, and that a job learns from the set."""

import json
import re
import shlex
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from jobs import run_job
from pages import quoted, shapes

import juzhen
from juzhen.cli.main import main
from juzhen.cli.mine import misfit
from juzhen.core.errors import UserError
from juzhen.core.examples import Kind
from juzhen.core.file_guard import LIST
from juzhen.core.result import Result
from juzhen.data.rankings import RankingSet, as_ranking
from juzhen.data.rows import as_examples
from juzhen.data.source import load_examples
from juzhen.data.spec import DatasetConfig, configured_set, read_description
from juzhen.encoders import load_encoder
from juzhen.mining import MiningOptions, negatives
from juzhen.mining.filters import Miner
from juzhen.mining.negatives import METADATA, report_lines
from launch.check import check_command_line

DESCRIBED = {"name": "like", "kind": "positive_pair", "language": "zh", "license": "MIT", "origin": "nowhere"}
DESCRIBED |= {"layout": "a", "layouts": {"a": {"files": {}, "columns": {}}}}
LIKE = DatasetConfig(**DESCRIBED)
FEW = MiningOptions(range_max=20, num_negatives=3)


@pytest.fixture(scope="module")
def pairs():
    config = configured_set("demo_qmc")
    found = load_examples(config, "dev", source="builtin", data_dir=".", on_bad_row="error")
    return found.select(np.arange(150))


@pytest.fixture(scope="module")
def ranking(pairs):
    return as_ranking(pairs)


@pytest.fixture(scope="module")
def encoder(encoder_folder):
    return load_encoder(encoder_folder).eval()


def files(mined, folder):
    yaml, _ = mined.write(folder / "of_tests_hard.tsv", like=LIKE)
    text = yaml.read_text().replace(str(folder.resolve()), "")
    return (folder / "of_tests_hard.tsv").read_bytes(), (folder / "of_tests_hard.parquet").read_bytes(), text


@pytest.mark.slow
def test_a_long_passage_is_written_once(tmp_path):
    """And not for every question that finds it: the files of passages were fifty times as large."""
    drawn = np.random.default_rng(0)
    passages = ["".join(chr(one) for one in drawn.integers(0x4E00, 0x9000, 3000)) for _ in range(300)]
    queries = [passage[:20] for passage in passages]
    ranking = RankingSet("long", "train", queries, passages, [{number: 1.0} for number in range(300)])
    few = replace(FEW, range_max=100, hard_share=0.0, relative_margin=None)
    mined = juzhen.mine(ranking, ["bm25"], few, folder=tmp_path / "shards", progress=False)
    mined.write_candidates(tmp_path / "candidates.parquet")
    texts = sum(len(one.encode()) for one in passages)
    for path in (*mined.shards, tmp_path / "candidates.parquet"):
        assert path.stat().st_size < 1.1 * texts < 10 * len(pq.read_table(path)) * 3000


@pytest.mark.slow
def test_a_killed_mining_goes_on_and_ends_with_the_same_bytes(ranking, encoder, tmp_path, monkeypatch):
    monkeypatch.setattr(negatives, "SHARD_QUERIES", 30)
    whole = juzhen.mine(ranking, [encoder, "bm25"], FEW, folder=tmp_path / "whole")
    assert len(whole.shards) > 4
    done, shard = [], Miner.shard

    def killed(self, queries, advance):
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(queries)
        return shard(self, queries, advance)

    monkeypatch.setattr(Miner, "shard", killed)
    with pytest.raises(KeyboardInterrupt):
        juzhen.mine(ranking, [encoder, "bm25"], FEW, folder=tmp_path / "cut")
    assert len(list((tmp_path / "cut").glob("*.parquet"))) == 2
    monkeypatch.setattr(Miner, "shard", shard)
    gone_on = juzhen.mine(ranking, [encoder, "bm25"], FEW, folder=tmp_path / "cut")
    assert files(gone_on, tmp_path / "b") == files(whole, tmp_path / "a")


def test_a_folder_holds_one_mining_and_names_what_another_has_otherwise(ranking, pairs, encoder, tmp_path):
    """Every option, each part of the data, and the sources."""
    few = ranking.some(range(30))
    first, *rest = few.relevant
    other = min({*range(len(few.corpus))} - {*first, *few.irrelevant[0]})
    others = [
        replace(few, queries=["别的", *few.queries[1:]]),
        replace(few, corpus=[*few.corpus[:-1], "别的"]),
        replace(few, relevant=[{**first, other: 1.0}, *rest]),
        replace(few, irrelevant=[np.array([other]), *few.irrelevant[1:]]),
        few.some(range(29)),
    ]
    options = {
        "range_max": 19,
        "index": "hnsw",
        "range_min": 1,
        "relative_margin": 0.06,
        "positive_reference": "own",
        "absolute_margin": 0.1,
        "max_score": 0.9,
        "min_score": -0.5,
        "num_negatives": 2,
        "hard_share": 0.4,
        "temperature": 0.1,
        "false_negatives": "relabel",
        "seed": 43,
    }
    assert options.keys() == vars(MiningOptions()).keys()
    changes = [
        *(("options", {"options": replace(FEW, **{key: value})}) for key, value in options.items()),
        *(("data", {"ranking": one}) for one in others),
        ("set", {"ranking": replace(few, name="other")}),
        ("sources", {"sources": [encoder, "bm25"]}),
        ("evaluation", {"exclude_from": [pairs.select(np.arange(3))]}),
    ]
    job = {"ranking": few, "sources": [encoder], "options": FEW, "folder": tmp_path / "shards"}
    juzhen.mine(**job)
    for part, change in changes:
        with pytest.raises(UserError, match=rf"mining with other {part}\b"):
            juzhen.mine(**job | change)
    with torch.no_grad():
        next(encoder.parameters()).view(-1)[0] += 1
    try:
        with pytest.raises(UserError, match="other sources"):
            juzhen.mine(**job)
    finally:
        with torch.no_grad():
            next(encoder.parameters()).view(-1)[0] -= 1


def test_the_file_of_candidates_says_what_decided_it(ranking, encoder, tmp_path):
    mined = juzhen.mine(ranking, [encoder], FEW, folder=tmp_path / "shards")
    yaml, count = mined.write(tmp_path / "of_tests_hard.tsv", like=LIKE)
    table = pq.read_table(tmp_path / "of_tests_hard.parquet")
    told = json.loads(table.schema.metadata[METADATA])
    assert told["options"]["seed"] == 42
    assert told["report"] == mined.report()  # printed, the same in sentences
    assert str(mined.report()).splitlines() == report_lines(told["report"])
    assert str(mined.report()).startswith("candidates: ")
    assert len(told["data"]) == len(told["sources"]["encoder"]) == 32
    assert sum(told["report"]["reasons"].values()) == len(table)
    rows = table.to_pylist()
    assert all(row["kept"] == (row["reason"] == "kept") for row in rows)
    assert all(row["kept"] for row in rows if row["chosen"])
    own = encoder.score([(row["query_text"], row["document_text"]) for row in rows[:50]])
    np.testing.assert_allclose([row["score"] for row in rows[:50]], own, atol=1e-5)
    # The table is a set like any other, in which the chosen ones stand.
    read = load_examples(read_description(yaml), "train", source="hub", data_dir=tmp_path, on_bad_row="error")
    assert (read.kind, len(read)) == (Kind.TRIPLET, count)
    chosen = {(row["query_text"], row["document_text"]) for row in rows if row["chosen"]}
    columns = ("negative", "negative_2", "negative_3")
    lacks = np.zeros((len(read), 4), dtype=bool) if read.missing is None else read.missing
    found = {
        pair
        for place, column in enumerate(columns, 1)
        for pair, is_absent in zip(
            zip(read.texts("anchor"), read.texts(column), strict=True), lacks[:, place], strict=True
        )
        if not is_absent
    }
    assert found <= chosen


def test_a_threshold_is_fitted_on_labelled_pairs(ranking, pairs, encoder, tmp_path):
    options = MiningOptions(range_max=20, relative_margin=None)
    mined = juzhen.mine(
        ranking, [encoder], options, folder=tmp_path, calibrate_on=pairs, false_negative_rate=0.1
    )
    fitted = mined.report()["threshold"]
    scores = encoder.score(list(zip(pairs.texts("text_a"), pairs.texts("text_b"), strict=True)))
    labels = pairs.targets
    assert fitted["kept_positives"] == np.mean(scores[labels == 1] < fitted["value"] - 1e-6) <= 0.1
    table = pq.read_table(mined.shards[0]).to_pylist()
    assert {row["reason"] for row in table if row["score"] >= fitted["value"]} <= {
        "above_threshold",
        "is_positive",
        "near_copy",
        "positive_cluster",
    }
    assert all(row["score"] < fitted["value"] for row in table if row["kept"])


SMALL = RankingSet(
    "small",
    "train",
    ["怎么退货", "如何开票", "几天发货"],
    ["东西想退掉", "发票怎么开", "什么时候寄出", "快递几天能到", "可以优惠一点吗"],
    [{0: 1.0}, {1: 1.0}, {2: 1.0, 3: 1.0}],
)


def test_rows_are_shorter_where_fewer_negatives_are_found(encoder, tmp_path):
    """Queries 0 and 1 have four other documents, query 2 has three for each of its positives."""
    options = MiningOptions(range_max=5, num_negatives=4, relative_margin=None)
    mined = juzhen.mine(SMALL, [encoder], options, folder=tmp_path / "shards")
    assert [(row[0], len(row) - 2) for row in mined.rows()] == [
        ("怎么退货", 4),
        ("如何开票", 4),
        ("几天发货", 3),
        ("几天发货", 3),
    ]
    assert mined.report()["rows"] == {"enough": 2, "fewer": 2, "none": 0, "negatives": 4}
    assert "2 rows have fewer than 4" in str(mined.report())
    _, count = mined.write(tmp_path / "of_tests_hard.tsv", like=LIKE)
    read = as_examples(tmp_path / "of_tests_hard.tsv")
    assert (count, len(read), read.kind) == (4, 4, Kind.TRIPLET)
    assert read.missing.sum(axis=1).tolist() == [0, 0, 1, 1]
    assert as_examples([*mined.rows()]).missing.tolist() == read.missing.tolist()


@pytest.mark.parametrize("reference", ["lowest", "own"])
def test_pairs_without_any_negative_are_counted_with_the_reason(reference, encoder, tmp_path):
    others = [
        [document for number, document in enumerate(SMALL.corpus) if number not in gains]
        for gains in SMALL.relevant
    ]
    best = [
        encoder.score([(query, other) for other in documents]).max()
        for query, documents in zip(SMALL.queries, others, strict=True)
    ]
    options = MiningOptions(
        range_max=5,
        num_negatives=2,
        relative_margin=None,
        positive_reference=reference,
        hard_share=1,
        min_score=float(min(best)) + 1e-5,
    )
    mined = juzhen.mine(SMALL, [encoder], options, folder=tmp_path / "shards")
    rows = mined.report()["rows"]
    assert rows["none"] == len(SMALL.relevant[int(np.argmin(best))])
    assert rows["enough"] + rows["fewer"] == len([*mined.rows()]) == 4 - rows["none"]
    assert f"{rows['none']} positives have none and no row: most candidates are refused as" in str(
        mined.report()
    )


@pytest.mark.slow
def test_a_job_learns_from_what_the_verb_has_mined(
    tmp_path, tiny_backbone, encoder_folder, project_root, capsys
):
    out = tmp_path / "mined" / "of_tests_qmc_hard.tsv"
    words = ["mine", "demo_qmc", "bm25", str(encoder_folder), "--split", "dev", "--out", str(out)]
    words += [
        "--range-max",
        "20",
        "--num-negatives",
        "2",
        "--exclude-from",
        "demo_qmc/test",
        "--limit",
        "150",
    ]
    assert main(words) == 0
    told = capsys.readouterr().out
    assert "rows of demo_qmc/dev with 2 negatives each" in told
    rule, rate = (line for line in told.splitlines() if "known" in line)
    pattern = r"where labels are known, above_share: [\d,]+ of [\d,]+ \([\d.]+ %\) answers kept by mistake, [\d,]+ of "
    assert re.match(pattern, rule)
    assert rate.startswith("false negatives among candidates whose label is known: ")
    for name in ("docs/guides/retrieval.md", "docs/guides/retrieval.zh.md"):
        assert shapes(quoted(name, "5,052 rows")) == shapes(told)
    assert len(set(pq.read_table(out.with_suffix(".parquet"))["query"].to_pylist())) == 150
    found = sorted(one.name for one in out.parent.iterdir())
    assert found == [LIST, "conf", "of_tests_qmc_hard.parquet", "of_tests_qmc_hard.tsv"]
    leaks = ["leaks", "--train", "of_tests_qmc_hard", "--evaluate", "demo_qmc", "--data-dir", str(tmp_path)]
    leaks += ["--config-dir", str(out.parent / "conf"), "--output", str(tmp_path / "leaks"), "--no-progress"]
    assert main(leaks) == 0
    assert "of_tests_qmc_hard" in capsys.readouterr().out
    (line,) = [line for line in told.splitlines() if "train.py" in line]
    check_command_line(shlex.split(line)[2:], conf_dir=project_root / "conf")
    run = run_job(
        tmp_path / "runs",
        tiny_backbone,
        f"hydra.searchpath=[file://{out.parent}/conf]",
        "dataset=[of_tests_qmc_hard]",
        f"data_dir={tmp_path}",
        "benchmark=demo",
        "loss=info_nce",
        "evaluation.splits=[dev]",
        "training.duration=2 steps",
    )
    assert Result.read(run).data["train/of_tests_qmc_hard"]["kind"] == "triplet"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (-1.0, r"N of N \(100.0 %\) candidates and leaves 0 of N \(0.0 %\) rows; calibrate on"),
        (2.0, r"0 of N \(0.0 %\) candidates, next to nothing; calibrate on pairs of the same kind"),
        (None, None),
    ],
)
def test_pairs_that_do_not_fit_are_told(ranking, pairs, encoder, tmp_path, monkeypatch, value, words):
    fit = negatives.fit_false_negatives

    def fitted(scores, labels, *, rate):
        found = fit(scores, labels, rate=rate)
        return found if value is None else replace(found, value=value)

    monkeypatch.setattr(negatives, "fit_false_negatives", fitted)
    options = MiningOptions(range_max=30, num_negatives=2, relative_margin=None, hard_share=1.0)
    report = juzhen.mine(
        ranking, [encoder], options, folder=tmp_path, calibrate_on=pairs, false_negative_rate=0.9
    ).report()
    told = misfit(report, "demo_qmc")
    assert (told is None) is (words is None)
    if words:
        assert re.search("refuses " + words.replace("N", r"[\d,]+"), told)
        assert told.startswith(f"--calibrate-on demo_qmc: the threshold {value:.4f} ")
        assert "\n" not in told


def short_rows(f):
    """Three negatives of few documents."""
    rows = [
        (SMALL.queries[query], SMALL.corpus[document])
        for query in range(3)
        for document in SMALL.relevant[query]
    ]
    lines = "".join(f"{a},{b}\n" for a, b in [("标准问", "相似问"), *rows])
    (f.tmp_path / "faq.csv").write_text(lines, encoding="utf-8")
    return [f.tmp_path / "faq.csv", f.encoder_folder, "--num-negatives", 3, "--relative-margin", "none"]


def wrong_pairs(f):
    """Pairs by which a threshold was fitted too high."""
    fit = negatives.fit_false_negatives
    f.monkeypatch.setattr(
        negatives, "fit_false_negatives", lambda *given, **how: replace(fit(*given, **how), value=2.0)
    )
    words = "--split dev --limit 60 --range-max 20 --relative-margin none --num-negatives 1"
    words += " --calibrate-on demo_qmc --positive-reference own"
    return ["demo_qmc", f.encoder_folder, *words.split()]


@pytest.mark.parametrize(
    ("words", "told", "warned"),
    [
        (
            short_rows,
            ["4 rows", "up to 3 negatives", "2 rows have fewer than 3 negatives"],
            "^$",
        ),
        (
            wrong_pairs,
            ["(?m)^where labels are known, above_threshold"],
            "(?m)^warning: --calibrate-on demo_qmc",
        ),
    ],
)
def test_the_verb_tells_of_missing_rows_and_of_wrong_pairs(f, words, told, warned, capsys):
    out = f.tmp_path / "of_tests_hard.tsv"
    assert main([*map(str, ["mine", *words(f)]), "--out", str(out)]) == 0
    printed, warnings = capsys.readouterr()
    assert all(len(re.findall(pattern, printed)) == 1 for pattern in told)
    assert re.search(warned, warnings)
    assert "warning" not in printed


@pytest.mark.slow
@pytest.mark.oracle
def test_candidates_are_those_of_sentence_transformers(project_root, tmp_path):
    """Where both have a rule: exact search, answers and a relative margin of 0.05 refused, the best ones taken."""
    library = pytest.importorskip("sentence_transformers")
    datasets = pytest.importorskip("datasets")
    folder = project_root / "juzhen" / "builtin" / "mini_zh@2"
    examples = load_examples(
        configured_set("demo_qmc"), "test", source="builtin", data_dir=".", on_bad_row="error"
    )
    positives = {}
    for first, second, label in zip(
        examples.texts("text_a"), examples.texts("text_b"), examples.targets, strict=True
    ):
        if label == 1:
            positives.setdefault(first, []).append(second)
    corpus = list(dict.fromkeys(text for texts in positives.values() for text in texts))
    relevant = [{corpus.index(text): 1.0 for text in texts} for texts in positives.values()]
    set_ = RankingSet("demo_qmc", "test", list(positives), corpus, relevant)
    options = MiningOptions(range_max=60, num_negatives=5, hard_share=1.0)
    mined = juzhen.mine(set_, [juzhen.SentenceEncoder.load(folder)], options, folder=tmp_path)
    ours = {(row[0], row[1]): row[2:] for row in mined.rows()}
    theirs = library.util.mine_hard_negatives(
        datasets.Dataset.from_dict(
            {
                "anchor": [query for query, texts in positives.items() for _ in texts],
                "positive": [text for texts in positives.values() for text in texts],
            }
        ),
        library.SentenceTransformer(str(folder), device="cpu", model_kwargs={"dtype": "float32"}),
        relative_margin=0.05,
        num_negatives=5,
        range_max=60 - 1,
        output_format="n-tuple",
        verbose=False,
    )
    expected = {
        (row["anchor"], row["positive"]): [row[f"negative_{n}"] for n in range(1, 6)] for row in theirs
    }
    # Near copies of a positive and what joins other positives are refused here alone.
    refused = {
        (row["query_text"], row["document_text"])
        for path in mined.shards
        for row in pq.read_table(path).to_pylist()
        if row["reason"] in ("near_copy", "positive_cluster")
    }
    compared = {pair for pair in expected if not {(pair[0], text) for text in expected[pair]} & refused}
    assert len(compared) > 0.8 * len(expected)
    differs = {
        pair: (ours[pair], expected[pair])
        for pair in compared
        if sorted(ours[pair]) != sorted(expected[pair])
    }
    assert not differs  # of equal scores either may be first


def test_queries_whose_answers_are_not_there_are_not_mined(ranking, encoder, tmp_path):
    more = replace(
        ranking,
        queries=[*ranking.queries, "没有答案的一问"],
        relevant=[*ranking.relevant, {}],
        own=np.append(ranking.own, -1),
        irrelevant=[*ranking.irrelevant, np.empty(0, dtype=np.int64)],
        unreachable=[*[()] * len(ranking.queries), (1.0,)],
    )
    mined = [
        juzhen.mine(one, [encoder], FEW, folder=tmp_path / str(len(one.queries))) for one in (ranking, more)
    ]
    assert list(mined[0].rows()) == list(mined[1].rows())
