"""Which evaluation rows training has seen, over the stages of a job, and what a result says of it."""

import json

import numpy as np
import pytest
from jobs import run_job
from scipy.stats import spearmanr

from juzhen.cli.main import main
from juzhen.core.examples import Examples, Kind
from juzhen.core.result import Result
from juzhen.data.convert import convert_rows
from juzhen.data.leaks import SeenRows
from juzhen.encoders import load_encoder

HEADER = "sentence1\tsentence2\tlabel"
SEEN = [
    ("花呗怎么还款", "怎么还花呗", 1),
    ("我想知道花呗分期以后提前还款怎么算利息", "提前还款怎么算", 1),
    ("一台电脑多少钱", "手机要多少钱", 0),
]
OTHER = [(f"第{i}个问题是什么", f"问题{i * 7}在哪里", i % 2) for i in range(8)]
DEV = [
    ("怎么还花呗", "花呗怎么还款？", 1),  # turned round, another mark
    ("我想知道花呗分期以后提前还款怎样算利息", "提前还款怎么算", 0),  # one character in nineteen
    ("一台电脑多少钱", "手机要多少钱", 0),
    ("一台电脑多少钱", "苹果多少钱", 1),  # one sentence alone
    ("借呗额度在哪里看", "在哪看借呗的额度", 1),
    ("今天天气好吗", "明天下雨吗", 0),
    ("怎么改密码", "密码忘了怎么办", 0),
]


def made(name, rows, split="train", kind=Kind.LABELLED_PAIR):
    first, second, labels = zip(*rows, strict=True)
    texts = {"text_a": list(first), "text_b": list(second)}
    return Examples.from_texts(name, split, kind=kind, texts=texts, targets=np.array(labels))


EVALUATION = made("atec", DEV, "dev")


def seen_of(*stages, evaluation=(EVALUATION,)):
    account = SeenRows(list(evaluation))
    for stage in stages:
        account.learn({one.name: one for one in stage})
    return account.seen()


def test_pairs_are_found_as_the_audit_finds_them():
    train = made("afqmc", SEEN + OTHER)
    found = seen_of([train])["dev/atec"]
    assert found.rows.tolist() == [0, 1, 2]
    assert found.share == pytest.approx(3 / 7)
    assert found.by_set == {"afqmc": 3}


def test_rows_that_were_not_learnt_from_do_not_count():
    train = made("afqmc", SEEN + OTHER)
    assert seen_of([train.select(np.arange(1, 11))])["dev/atec"].rows.tolist() == [1, 2]
    assert seen_of([convert_rows(train, Kind.POSITIVE_PAIR)])["dev/atec"].rows.tolist() == [0, 1]
    assert seen_of([made("afqmc", OTHER)])["dev/atec"].by_set == {}
    assert seen_of([])["dev/atec"].share == 0


def test_earlier_stages_count_and_rows_that_two_sets_hold_count_once():
    first, second = made("afqmc", SEEN[:2] + OTHER), made("bq", SEEN[1:] + OTHER)
    account = SeenRows([EVALUATION])
    account.learn({"afqmc": first})
    assert account.seen()["dev/atec"].rows.tolist() == [0, 1]
    account.learn({"bq": second})
    account.learn({"afqmc": first})
    found = account.seen()["dev/atec"]
    assert found.rows.tolist() == [0, 1, 2]
    assert found.by_set == {"afqmc": 2, "bq": 2}


def test_text_has_no_pairs_on_either_side():
    text = Examples.from_texts("web", "train", kind=Kind.SENTENCE, texts={"text": [DEV[2][0], DEV[2][1]]})
    assert seen_of([text])["dev/atec"].rows.tolist() == []
    assert seen_of([made("afqmc", SEEN)], evaluation=[text]) == {}


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    """Two training sets, of which the first has rows of the set that is evaluated on."""
    folder = tmp_path_factory.mktemp("data")
    for name, split, rows in (
        ("afqmc", "train", SEEN + OTHER),
        ("bq", "train", OTHER),
        ("atec", "dev", DEV),
        ("lcqmc", "dev", SEEN),
        ("xiaobu", "dev", DEV[4:]),
    ):
        (folder / name).mkdir(exist_ok=True)
        lines = [HEADER, *("\t".join(map(str, row)) for row in rows)]
        (folder / name / f"{split}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return [
        f"data_dir={folder}",
        "source=local",
        "benchmark=none",
        "+dataset@evaluate.atec=atec",
        "evaluate.atec.rows.dev=null",
        "training.duration=2 steps",
        "training.batch_size=4",
        "debug_rows=null",
        "cache_dir=null",
    ]


@pytest.mark.slow
def test_a_curriculum_carries_its_account_and_the_scores_are_those_of_the_rest(
    words, tmp_path, tiny_backbone, capsys
):
    folder = run_job(
        tmp_path,
        tiny_backbone,
        *words,
        "dataset=[afqmc,bq]",
        "schedule=serial",
        "dataset.afqmc.rows.train=null",
        "dataset.bq.rows.train=null",
        "+dataset@evaluate.lcqmc=lcqmc",
        "evaluate.lcqmc.rows.dev=null",
        "evaluation.without_leaks=true",
        "evaluation.untrained=true",
        "evaluation.bootstrap_samples=40",
    )
    found = sorted(folder.rglob("result.json"), key=lambda one: Result.read(one).stage)
    assert len(found) == 2
    for path in found:
        result = Result.read(path)
        expected = {"rows": 3, "share": pytest.approx(3 / 7), "by_set": {"afqmc": 3}}
        assert result.data["dev/atec"]["leaked"] == expected
        assert not any(key.endswith("_without_leaks") for key in result.untrained)
    last = result
    assert "leaked" not in last.data["train/bq"]

    encoder = load_encoder(found[-1].parent / "encoder")
    first, second = (
        encoder.encode([row[i] for row in DEV[3:]], batch_tokens=4096, show_progress=False) for i in (0, 1)
    )
    cosines = (first * second).sum(1) / np.linalg.norm(first, axis=1) / np.linalg.norm(second, axis=1)
    score = last.scores["dev/atec/spearman_without_leaks"]
    assert score.value == pytest.approx(spearmanr(cosines, [row[2] for row in DEV[3:]]).statistic, abs=1e-6)
    assert (score.count, last.scores["dev/atec/spearman"].count) == (4, 7)
    assert last.data["dev/lcqmc"]["leaked"]["share"] == 1
    assert last.scores["dev/lcqmc/spearman_without_leaks"].value is None
    spoken = capsys.readouterr().out
    assert "dev/atec: 3 rows (42.9 %) are in training, most of them in afqmc; Spearman without them" in spoken
    assert "dev/lcqmc: 3 rows (100.0 %) are in training, most of them in afqmc; no row is left" in spoken


@pytest.mark.slow
def test_a_finished_run_is_told_afterwards_what_it_has_seen(words, tmp_path, tiny_backbone, capsys):
    run = run_job(
        tmp_path,
        tiny_backbone,
        *words,
        "dataset=[afqmc]",
        "dataset.afqmc.rows.train=null",
        "+dataset@evaluate.lcqmc=lcqmc",
        "evaluate.lcqmc.rows.dev=null",
        "+dataset@evaluate.xiaobu=xiaobu",
        "evaluate.xiaobu.rows.dev=null",
        "evaluation.without_leaks=true",
        "evaluation.bootstrap_samples=40",
    )
    expected = Result.read(run)
    leaked = [expected.data[f"dev/{name}"]["leaked"]["rows"] for name in ("atec", "lcqmc", "xiaobu")]
    assert leaked == [3, 3, 0]

    run_before = json.loads((run / "result.json").read_text())
    run_before["config"]["evaluation"]["without_leaks"] = False
    for about in run_before["data"].values():
        about.pop("leaked", None)
    run_before["scores"] = {
        key: one for key, one in run_before["scores"].items() if not key.endswith("_without_leaks")
    }
    (run / "result.json").write_text(json.dumps(run_before))
    assert main(["evaluate", str(run)]) == 0
    assert "nothing to do" in capsys.readouterr().out

    assert main(["evaluate", str(run), "--without-leaks"]) == 0
    assert "training has seen 3 rows of dev/atec (42.9 %)" in capsys.readouterr().out
    found = Result.read(run)
    assert found.data == expected.data
    assert found.scores == expected.scores
    assert "dev/atec/spearman_without_leaks" in found.filled[0]["added"]
    assert main(["evaluate", str(run), "--without-leaks"]) == 0
    assert "nothing to do" in capsys.readouterr().out


@pytest.mark.slow
def test_a_run_that_has_seen_nothing_is_told_so_without_scoring(
    words, tmp_path, tiny_backbone, capsys, recwarn
):
    run = run_job(tmp_path, tiny_backbone, *words, "dataset=[bq]", "dataset.bq.rows.train=null")
    before = Result.read(run)
    assert main(["evaluate", str(run), "--without-leaks"]) == 0
    assert "training has seen no row of any set" in capsys.readouterr().out
    found = Result.read(run)
    assert found.scores == before.scores
    assert found.data["dev/atec"]["leaked"] == {"rows": 0, "share": 0.0, "by_set": {}}
    assert not [one for one in recwarn if "length of `list`" in str(one.message)]


@pytest.mark.slow
def test_without_training_there_is_nothing_to_leave_out(words, tmp_path, tiny_backbone):
    result = Result.read(
        run_job(tmp_path, tiny_backbone, *words, "dataset=[]", "evaluation.without_leaks=true")
    )
    assert "leaked" not in result.data["dev/atec"]
    assert result.scores["dev/atec/spearman"].count == len(DEV)
    assert not any(key.endswith("_without_leaks") for key in result.scores)
