"""What cannot be mined, grouped or read again is refused before anything is encoded or written."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from jobs import MINED_FOR, run_job
from refusals import each, rows, typed
from test_mine_command import own_set  # noqa: F401, a fixture
from test_negatives import FEW, LIKE, encoder, pairs, ranking  # noqa: F401, fixtures

import juzhen
from juzhen.cli.mine import mine
from juzhen.core.errors import UserError
from juzhen.core.examples import Examples, Kind
from juzhen.core.file_guard import LIST
from juzhen.core.paths import DATASETS
from juzhen.data.loading import load_ranking
from juzhen.data.rankings import RankingSet
from juzhen.data.rows import ConfiguredSets
from juzhen.mining import MiningOptions, groups
from juzhen.mining.negatives import fit_false_negatives
from lightning_modules.base import SentenceModule

BM25 = ["bm25"]
EMPTY = RankingSet("none", "train", [], [], [])
SCORED = Examples.from_texts(
    "sts", "dev", kind=Kind.SCORED_PAIR, texts={"text_a": ["a"], "text_b": ["b"]}, targets=np.ones(1)
)


def mined(f, sources, *, of=None, on=None, **options):
    try:
        juzhen.mine(of or f.ranking, sources, replace(FEW, **options), folder=f.tmp_path, calibrate_on=on)
    finally:
        assert not list(f.tmp_path.iterdir())


def nothing_kept(f):
    found = juzhen.mine(f.ranking, BM25, replace(FEW, max_score=-1.0), folder=f.tmp_path / "shards")
    try:
        found.write(f.tmp_path / "of_tests_hard.tsv", like=LIKE)
    finally:
        names = sorted(one.name for one in f.tmp_path.iterdir())
        assert names == [LIST, "of_tests_hard.parquet", "shards"]


COUNTS = '{"reasons": {}, "known": 2, "rules": {}, "left": {}}'
SHARDS = {
    "cut": lambda path, table: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "empty": lambda path, table: path.write_bytes(b""),
    "no reason": lambda path, table: pq.write_table(table.drop_columns(["reason"]), path),
    "no rows": lambda path, table: pq.write_table(table.slice(0, 0), path),
    "no counts": lambda path, table: pq.write_table(table.replace_schema_metadata({}), path),
    "other queries": lambda path, table: pq.write_table(numbered(table, 0, "query"), path),
    "fewer rows": lambda path, table: pq.write_table(table.slice(0, len(table) - 1), path),
    "no scores": lambda path, table: pq.write_table(
        numbered(table, table.column_names.index("score"), "score", np.nan), path
    ),
    "other documents": lambda path, table: pq.write_table(numbered(table, 1, "document"), path),
    "other counts": lambda path, table: pq.write_table(
        table.replace_schema_metadata({"juzhen.counts": COUNTS}), path
    ),
    "a pipe": lambda path, table: path.unlink() or os.mkfifo(path),
    "a folder": lambda path, table: path.unlink() or path.mkdir(),
}


def numbered(table, place, column, value=10**6):
    return table.set_column(place, column, [[value] * len(table)]).cast(table.schema)


@pytest.fixture(scope="module")
def shards(ranking, encoder, tmp_path_factory):  # noqa: F811
    """A mining of one shard, and what the shard holds."""
    folder = tmp_path_factory.mktemp("mined") / "shards"
    (path,) = juzhen.mine(ranking, [encoder], FEW, folder=folder).shards
    return path, path.read_bytes()


def over_a_spoilt_shard(f, spoil):
    path, raw = f.shards
    try:
        spoil(path, pq.read_table(path))
        juzhen.mine(f.ranking, [f.encoder], FEW, folder=path.parent)
    finally:
        path.rmdir() if path.is_dir() else path.unlink()
        path.write_bytes(raw)
        juzhen.mine(f.ranking, [f.encoder], FEW, folder=path.parent)  # what was there is taken again


def of_a_wrong_kind(f):
    path = f.own_set / "conf" / "dataset" / "tiny.yaml"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("kind: labelled_pair", "kind: labeled_pair"), encoding="utf-8")
    return ConfiguredSets(DATASETS, Path("data"), config_dir=path.parents[1]).training(["tiny"])


def of_a_faulty_row(f):
    with (f.own_set / "tiny" / "train.tsv").open("a", encoding="utf-8") as file:
        file.write("没有答案\t\t1\n")
    return load_ranking("tiny", "train", data_dir=f.own_set, config_dir=f.own_set / "conf")


def deeper_than_the_corpus(f):
    options = {
        "data_dir": f.own_set,
        "config_dir": f.own_set / "conf",
        "rules": MiningOptions(num_negatives=1),
    }
    mine("tiny", BM25, out=f.own_set / "out" / "of_tests_tiny_hard.tsv", range_max=100, **options)


def verb(f, words):
    f.monkeypatch.chdir(f.tmp_path)
    f.monkeypatch.setenv("JUZHEN_DATA", "nowhere")
    try:
        typed(f, "mine", *words.split())
    finally:
        assert not list(f.tmp_path.iterdir())


def a_faulty_row_of_a_file(f):
    """Of the verb: the row is left out where that is typed."""
    with (f.own_set / "tiny" / "train.tsv").open("a", encoding="utf-8") as file:
        file.write("没有答案\t\t1\n")
    words = ["mine", "tiny", "bm25", "--out", f.own_set / "of_tests_tiny_hard.tsv", "--num-negatives", "1"]
    typed(f, *words, "--data-dir", f.own_set, "--config-dir", f.own_set / "conf")


VERBS = [
    *each(
        verb,
        [
            ("lcqm bm25 --out of_tests_x.tsv", "lcqm: unknown set. Did you mean lcqmc"),
            ("demo_sts bm25 --out of_tests_x.tsv", "demo_sts"),
            ("demo_qmc bm25 --out x.csv", "--out x.csv: expected a .tsv .* mined/demo_qmc_hard.tsv"),
            ("demo_qmc bm25 --out lcqmc.tsv", "lcqmc already. Choose lcqmc_hard.tsv"),
            ("demo_qmc nothing --out of_tests_x.tsv", "nothing: no such folder"),
            (
                "demo_qmc bm25 --out of_tests_x.tsv --exclude-from lcqm",
                "exclude-from lcqm: unknown set. Did you mean",
            ),
            ("demo_qmc builtin/mini_zh --limit 9 --out of_tests_x.tsv --min-score 7", "--min-score 7.0: "),
            (
                "demo_qmc builtin/mini_zh --out of_tests_x.tsv --calibrate-on demo_qmc --false-negative-rate 3",
                "--false-negative-rate 3.0: ",
            ),
            ("demo_qmc bm25 --out of_tests_x.tsv --false-negative-rate 0.1", "needs --calibrate-on"),
            (
                "demo_qmc bm25 --out of_tests_x.tsv --relative-margin 2",
                "--relative-margin 2.0: .*0 to below 1",
            ),
        ],
    ),
    (a_faulty_row_of_a_file, "--on-bad-row drop"),
]


def mined_for(f, words):
    """Refused before a step."""
    f.monkeypatch.setattr(SentenceModule, "training_step", lambda *given: pytest.fail("a step was made"))
    run_job(f.tmp_path, f.tiny_backbone, *MINED_FOR, *words)


JOBS = each(
    mined_for,
    [
        (("loss=cosent",), r"callbacks\.mining: loss=cosent of demo_qmc reads no negatives.*loss=info_nce"),
        (("loss=info_nce_in_batch",), "loss=info_nce_in_batch of demo_qmc reads no negatives"),
        (("model=crossencoder", "loss=bce"), "crossencoder does not learn embeddings from anchors"),
        (
            ("model=simcse",),
            r"callbacks\.mining: cot does not learn embeddings from anchors and positives.*model=biencoder",
        ),
        (("dataset=[demo_sts]",), "loss=info_nce needs"),
        (("callbacks.mining.sets=[]",), r"sets=\[\]: expected names of sets, or null for all"),
        (("schedule=serial", "callbacks.mining.stages=[]"), "expected names of stages, or null for all"),
        (("callbacks.mining.sets=[demo_qmz]",), r"sets=demo_qmz: unknown choice\. Did you mean demo_qmc"),
        (("callbacks.mining.stages=[demo_qmc]",), r"callbacks\.mining\.stages=demo_qmc: "),
        (
            ("schedule=serial", "callbacks.mining.stages=[hrad]"),
            r"stages=hrad: unknown choice\. Known: demo_qmc",
        ),
        (
            (
                "schedule=serial",
                "dataset=[demo_qmc,demo_sts]",
                "+loss@schedule.sets.demo_sts.loss=cosent",
                "callbacks.mining.sets=[demo_sts]",
                "callbacks.mining.stages=[demo_qmc]",
            ),
            "no stage that is mined for learns from demo_sts",
        ),
        (("callbacks.mining.phases=[0.5,0.4,1]",), "expected shares of training that rise to 1"),
        (("callbacks.mining.every_steps=[2]",), r"every_steps=\[2\]: expected 3 numbers"),
        (("callbacks.mining.hard_share=[0,1]",), r"hard_share=\[0, 1\]: expected 4 numbers"),
        (("callbacks.mining.relative_margin=1",), "relative_margin=1: expected a number from 0"),
        (
            ("callbacks.mining.positive_reference=onw",),
            r"positive_reference=onw: unknown choice\. Did you mean own",
        ),
        (("callbacks.mining.index=hnsv",), r"index=hnsv: unknown choice\. Did you mean hnsw"),
        (("callbacks.mining.range_max=5",), r"callbacks\.mining\.range_max=5: expected a number from 8"),
    ],
)

REFUSED = {
    "an option": [
        (lambda f, wrong=wrong: MiningOptions(**wrong), words)
        for wrong, words in (
            ({"index": "hnws"}, "index=hnws: .*Did you mean hnsw"),
            ({"relative_margin": 1}, "relative_margin=1: .*0 to below 1"),
            ({"range_min": 100}, "range_min=100: .*0 to 99"),
            ({"temperature": 0.0}, "temperature=0.0: "),
            ({"temperature": 1e300}, "temperature=1e.300: "),
            ({"num_negatives": 10**5}, "num_negatives=100000: "),
            ({"absolute_margin": float("nan")}, "absolute_margin=nan"),
            ({"hard_share": -0.1}, "hard_share=-0.1: .*0 to 1"),
            ({"positive_reference": "onw"}, "positive_reference=onw: .*Did you mean own"),
            (
                {"positive_reference": "own", "false_negatives": "relabel"},
                "positive_reference=own, false_negatives=relabel",
            ),
        )
    ],
    "a threshold": [
        (
            lambda f: fit_false_negatives(np.arange(4.0), np.array([1, 1, 0, 0]), rate=1),
            "false_negative_rate=1: .*0 to",
        ),
        (lambda f: fit_false_negatives(np.arange(4.0), np.ones(4), rate=0.1), "one of them is missing"),
    ],
    "groups": [
        (lambda f: groups.mine_paraphrases(["今天", "明天"]), "vectors: expected a matrix"),
        (lambda f: groups.detect_communities(np.zeros(3)), "vectors: expected a matrix"),
        (lambda f: groups.mine_paraphrases(np.full((2, 2), np.nan)), "vectors: row 0 holds NaN"),
        (lambda f: groups.cluster(np.eye(3)), "give count, or min_score"),
        (lambda f: groups.cluster(np.eye(3), 4), "count=4: .*1 to 3"),
        (lambda f: groups.cluster(np.eye(3), 0), "count=0: .*1 to 3"),
        (lambda f: groups.cluster(np.eye(3), min_score=2), "min_score=2: .*1"),
        (lambda f: groups.mine_paraphrases(np.eye(3), min_score=-7), "min_score=-7: .*1"),
        (lambda f: groups.detect_communities(np.eye(3), min_score=7), "min_score=7: .*1"),
        (lambda f: groups.mine_paraphrases(np.eye(3), max_pairs=-1), "max_pairs=-1: "),
    ],
    "a mining": [
        (lambda f: mined(f, BM25, of=EMPTY), "range_max=20: .*1 to 0"),
        (lambda f: mined(f, BM25, range_max=10**6), "range_max=1000000: .*1 to"),
        (lambda f: mined(f, ["bm52"]), "sources: bm52: .*loaded encoders, bm25"),
        (lambda f: mined(f, []), "sources: none: .*loaded encoders"),
        (lambda f: mined(f, BM25, on=f.pairs), "bm25 depend on the corpus"),
        (lambda f: mined(f, BM25, on=SCORED), "kind scored_pair. Expected labelled_pair"),
        (lambda f: mined(f, BM25, index="hnsw"), "index=hnsw: is for embeddings"),
        (lambda f: mined(f, BM25, on=f.pairs, max_score=1.0), "one of them"),
        (lambda f: mined(f, [f.encoder], max_score=7), "max_score=7: .*-1 to 1"),
        (lambda f: mined(f, [f.encoder], min_score=-1.5), "min_score=-1.5: .*-1 to 1"),
        (lambda f: mined(f, [f.encoder], absolute_margin=9), "absolute_margin=9: .*-2 to 2"),
        (nothing_kept, r"no query has a negative, .* above_threshold \([\d,]+\), see"),
        (deeper_than_the_corpus, "range_max=100: .*1 to 15"),
        (of_a_wrong_kind, r"tiny\.yaml: kind=labeled_pair: .*Did you mean labelled_pair"),
        (of_a_faulty_row, "text_b is empty"),
    ],
    "a shard": [
        (lambda f, spoil=spoil: over_a_spoilt_shard(f, spoil), r"000000\.parquet: not a shard .*Delete it")
        for spoil in SHARDS.values()
    ],
    "a verb": VERBS,
    "a job": JOBS,
}


@pytest.mark.parametrize(("call", "words"), rows(REFUSED, sampled={"a job": 3}))
@pytest.mark.sampled(3)
def test_what_cannot_be_mined_is_refused(f, call, words):
    with pytest.raises(UserError, match=words) as caught:
        call(f)
    assert r"\n" not in str(caught.value)
