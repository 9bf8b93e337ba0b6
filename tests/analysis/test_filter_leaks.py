"""`filter_leaks`: which rows a job trains on, what its result and its key say."""

import numpy as np
import pytest
from jobs import compose_job, key_of, run_job, typed_job
from omegaconf import OmegaConf

from juzhen.core.examples import Kind
from juzhen.core.result import Result
from juzhen.data.loading import load_job_data
from juzhen.report.row_identity import identify, label_rows
from launch.console import leaky_counts

HEADER = "sentence1\tsentence2\tlabel"
TRAIN = [
    "花呗怎么还款\t怎么还花呗\t1",
    "今天天气好吗\t明天下雨吗\t0",
    "借呗额度在哪里看\t在哪看借呗的额度\t1",
    "我想知道花呗分期以后提前还款怎么算利息\t提前还款怎么算\t1",
    "一台电脑多少钱\t电脑要多少钱\t1",
    "一台电脑多少钱\t手机要多少钱\t0",
]
DEV = [
    "怎么还花呗\t花呗怎么还款\t1",
    "我想知道花呗分期以后提前还款怎样算利息\t提前还款怎么算？\t1",
    "一台电脑多少钱\t苹果多少钱\t0",
]


@pytest.fixture
def planted(tmp_path):
    """Two sets: rows 0 and 3 of the one's training are in the other's dev, the first turned round."""
    for name, split, rows in (("afqmc", "train", TRAIN), ("atec", "dev", DEV)):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{split}.tsv").write_text("\n".join([HEADER, *rows]) + "\n", encoding="utf-8")
    return [
        f"data_dir={tmp_path}",
        "source=local",
        "dataset=[afqmc]",
        "benchmark=none",
        "+dataset@evaluate.atec=atec",
        "dataset.afqmc.rows.train=null",
        "evaluate.atec.rows.dev=null",
        "debug_rows=null",
    ]


def train_rows(*overrides, kind=Kind.LABELLED_PAIR):
    return load_job_data(typed_job(*overrides), {"afqmc": kind}).train["afqmc"]


def test_exactly_the_planted_rows_are_left_out(planted):
    filtered = train_rows(*planted, "filter_leaks=true")
    assert filtered.lines.tolist() == [3, 4, 6, 7]
    assert filtered.num_leaky == 2
    everything = train_rows(*planted)
    assert len(everything) == 6
    assert everything.num_leaky is None
    assert filtered.fingerprint == everything.fingerprint  # of the rows as read


def test_rows_are_left_out_before_a_view_and_before_a_limit(planted):
    positives = train_rows(*planted, "filter_leaks=true", kind=Kind.POSITIVE_PAIR)
    assert positives.texts("anchor") == ["借呗额度在哪里看", "一台电脑多少钱"]
    assert positives.num_leaky == 2
    limited = train_rows(*planted, "filter_leaks=true", "dataset.afqmc.limit=4")
    assert limited.lines.tolist() == [3, 4, 6, 7]


def test_single_sentences_are_left_out_where_sentences_are_learnt(planted):
    texts = train_rows(*planted, "filter_leaks=true", kind=Kind.SENTENCE).texts("text")
    assert "手机要多少钱" in texts
    assert not {"花呗怎么还款", "怎么还花呗", "一台电脑多少钱", "提前还款怎么算"} & set(texts)


def test_all_evaluation_rows_count_also_those_that_debug_rows_cuts_off(planted):
    assert train_rows(*planted, "filter_leaks=true", "debug_rows=1").num_leaky == 2


def test_the_same_rows_every_time(planted):
    job = typed_job(*planted, "filter_leaks=true")
    first, second = (load_job_data(job, {"afqmc": Kind.LABELLED_PAIR}).train["afqmc"] for _ in range(2))
    assert np.array_equal(first.lines, second.lines)


def test_the_result_counts_them_and_the_console_has_the_number(planted, tmp_path, tiny_backbone, capsys):
    folder = run_job(
        tmp_path / "runs", tiny_backbone, *planted, "filter_leaks=true", "training.duration=1 steps"
    )
    result = Result.read(folder)
    assert result.data["train/afqmc"]["leaky"] == 2
    assert result.data["train/afqmc"]["rows"] == 4
    assert result.data["dev/atec"]["leaky"] is None
    assert leaky_counts(result) == {"afqmc": 2}
    assert "afqmc: 2 rows left out" in capsys.readouterr().out


def test_the_run_key_knows_of_it():
    assert key_of("filter_leaks=true") != key_of()
    assert key_of("filter_leaks=false") == key_of()


def test_rows_of_a_matrix_differ_by_evaluation_sets_only_when_these_decide_what_is_learnt():
    composed = OmegaConf.to_container(compose_job("dataset=[demo_sts]", "benchmark=none"), resolve=True)

    def identity(**config):
        result = Result("some", "key", ["demo_sts"], {}, composed | config, {}, {}, {}, seed=1)
        return identify(result, before_training=False)

    some, other = {"evaluate": {"afqmc": {}}}, {"evaluate": {"bq": {}}}
    assert identity(**some) == identity(**other)
    assert identity(filter_leaks=True, **some) != identity(filter_leaks=True, **other)
    assert identity(filter_leaks=True, **some) != identity(**some)
    many = {"evaluate": {name: {} for name in ("afqmc", "bq", "csts", "lcqmc", "ocnli")}}
    rows = [identity(**many), identity(filter_leaks=True, **many)]
    assert label_rows(rows) == ["demo_sts", "demo_sts, without leaks"]


def test_sets_that_the_model_has_nothing_to_measure_on_count_too(planted, tmp_path):
    """Triplets are not scored by Spearman; their sentences must not be learnt from all the same."""
    (tmp_path / "simclue").mkdir()
    row = "query\tpositive\tnegative\n一台电脑多少钱\t电脑要多少钱\t手机要多少钱\n"
    (tmp_path / "simclue" / "triclue_dev.tsv").write_text(row, encoding="utf-8")
    words = [
        *planted,
        "+dataset@evaluate.triclue=triclue",
        "evaluate.triclue.rows.dev=null",
        "filter_leaks=true",
    ]
    texts = train_rows(*words, kind=Kind.SENTENCE).texts("text")
    assert not {"一台电脑多少钱", "电脑要多少钱", "手机要多少钱"} & set(texts)
    assert "今天天气好吗" in texts
