"""Each published figure has a row of a sweep that gives one of its like, or a reason why not."""

import csv

import pytest
from forks import ROOT

from juzhen.evaluation.scoring import STS_SETS
from juzhen.report.compare import MEASURED, load_published
from juzhen.report.training import training_of
from sweeps.published_page import Job, all_jobs, giving, offers, page, reason, stage_results, sweep_jobs

PAGE = ROOT / "docs" / "published.md"
SOURCES = ("chinese_transfer", "cosent_cross_encoder")
GENERAL = "allnli_zh+pawsx_zh+pkuparaph>csts"


@pytest.fixture(scope="module")
def numbers():
    return [one for one in load_published() if one.source in SOURCES]


def lines(text):
    """Source → the cells of each line of its table."""
    found = {}
    for section in text.split("\n## ")[1:]:
        source, _, body = section.partition("\n")
        table = [line for line in body.splitlines() if line.startswith("| ")]
        found[source] = [[cell.strip() for cell in line.strip("|").split("|")] for line in table[2:]]
    return found


def test_all_345_cells_have_a_job_on_the_page(numbers):
    assert len(numbers) == 313 + 32
    shown = lines(PAGE.read_text(encoding="utf-8"))
    for one in numbers:
        metric = "" if one.metric == "spearman" else f" {one.metric}"
        figure = f"{one.dataset} {one.split}{metric} {one.percent:.2f}"
        (line,) = [
            line
            for line in shown[one.source]
            if line[:3] == [one.table, one.model, f"`{one.trained_on}`"] and figure in line[3].split(", ")
        ]
        assert "`sweep=" in line[4] + line[5], figure
        assert "no row" not in line[4]


def test_every_claim_is_on_the_page_with_its_standing():
    shown = lines(PAGE.read_text(encoding="utf-8"))["Claims"]
    claims = [one for one in load_published() if one.standing != MEASURED]
    assert [line[3] for line in shown] == [one.standing for one in claims]


@pytest.fixture(scope="module")
def some_jobs():
    """Composed; all of them take half a minute."""
    jobs = sweep_jobs("general_ways", ["way-4"]) + sweep_jobs("simclue", ["simclue-v2", "simclue-v4"])
    return jobs + sweep_jobs("domains", ["fin-qmc-v3", "v0-1-1"])


@pytest.mark.slow
def test_rows_compose_to_the_training_that_they_are_named_for(some_jobs):
    ends = {job.row: training_of(stage_results(job.config)[-1]) for job in some_jobs}
    assert {row: (one.family, one.sets, one.loss) for row, one in ends.items()} == {
        "way-4": ("biencoder", "allnli_zh[positive_pair]+pawsx_zh[positive_pair]+pkuparaph>csts", "by_kind"),
        "simclue-v2": ("biencoder", "simclue[positive_pair]", "by_kind"),
        "simclue-v4": ("biencoder", "simclue[triplet]", "triplet"),
        "fin-qmc-v3": ("biencoder", "simclue>lcqmc>bq", "by_kind"),
        "v0-1-1": ("biencoder", f"{GENERAL}>lcqmc>afqmc+bq", "by_kind"),
    }


@pytest.mark.slow
def test_a_figure_finds_the_stage_that_gives_it(some_jobs, numbers):
    known = offers(some_jobs)

    def rows(model, dataset, split="dev"):
        (one, *_) = [one for one in numbers if (one.model, one.dataset, one.split) == (model, dataset, split)]
        return [(found.job.row, found.is_end, found.less) for found in giving(one, known)]

    assert rows("allpospair", "bq") == [("way-4", False, ())]
    assert rows("csts-allpospair", "csts", "test") == [("way-4", True, ())]
    assert rows("simclue-v2", "simclue") == [
        ("simclue-v2", True, ("simclue_positive: 10,000 of 775,593 rows",))
    ]
    assert rows("simclue-v4", "simclue", "test") == [
        ("simclue-v4", True, ("simclue_rank: 10,000 of 389,370 rows",))
    ]
    assert rows("simclue-v3", "simclue") == []  # the same rows by another loss
    assert rows("fin-domain-v3", "bq") == [("fin-qmc-v3", True, ("simclue: 10,000 of 2,678,728 rows",))]
    (unseen, *_) = [one for one in numbers if one.model == "simclue-v3"]
    assert reason(unseen).startswith(
        "no row or experiment trains a biencoder on simclue[triplet] by the losses"
    )


def test_an_average_of_seven_sets_is_given_by_a_job_that_scores_all_seven():
    (average,) = [one for one in load_published() if one.model == "CoT-BERT" and one.standing == MEASURED]

    def config(*evaluated):
        described = {
            "kind": "scored_pair",
            "layout": "tsv",
            "layouts": {"tsv": {"files": {"test": "test.tsv"}}},
        }
        sentences = described | {"kind": "sentence"}
        return {
            "model": {"_target_": "lightning_modules.cot.CotEncoder", "name": "cot"},
            "loss": {"_target_": "juzhen.losses.in_batch_all.InfoNCEPool", "name": "info_nce_pool"},
            "schedule": {"name": "mix", "order": None, "stages": {}, "sets": {}},
            "dataset": {"wiki1m": sentences},
            "evaluate": dict.fromkeys(evaluated, described),
            "evaluation": {"splits": ["dev", "test"]},
        }

    def given(*evaluated):
        return giving(average, offers([Job("experiment=x", "", config(*evaluated))]))

    assert given(*STS_SETS)
    assert not given(*STS_SETS[1:])


def test_the_sizes_of_whole_sets_are_those_of_sets_that_hold_less_here():
    with (ROOT / "juzhen" / "report" / "published" / "sets" / "train_rows.csv").open(
        encoding="utf-8"
    ) as file:
        sizes = {line["dataset"]: line for line in csv.DictReader(file)}
    known = {path.stem for path in (ROOT / "conf" / "dataset").glob("*.yaml")}
    assert sizes.keys() <= known
    assert all(line["source"].startswith("https://") for line in sizes.values())


@pytest.mark.slow
def test_the_page_is_what_the_configuration_composes_to():
    jobs = list(all_jobs())
    assert page(load_published(), jobs) == PAGE.read_text(encoding="utf-8"), (
        "write it again: juzhen published docs/published.md"
    )


@pytest.mark.slow
def test_stages_are_those_that_a_job_would_run():
    from jobs import compose_job

    from launch.job import history, plan_job, read_job

    for job in sweep_jobs("domains") + sweep_jobs("general_ways"):
        words = [f"dataset=[{','.join(job.config['dataset'])}]", "schedule=serial", "benchmark=none"]
        stages = job.config["schedule"]["stages"]
        words += [
            f"+schedule.stages.{name}.dataset=[{','.join(one['dataset'])}]" for name, one in stages.items()
        ]
        if job.config["schedule"]["order"]:
            words.append(f"schedule.order=[{','.join(job.config['schedule']['order'])}]")
        plans = plan_job(read_job(compose_job(*words)))
        expected = [list(history(plans, index)) for index in range(len(plans))]
        assert [one.trained_on for one in stage_results(job.config)] == expected, job.row
