"""The sweeps of conf/sweep compose, and rows, grids and what is typed become cells."""

import contextlib
from pathlib import Path

import pytest
from forks import python
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.types import RunMode
from omegaconf import OmegaConf

from juzhen.core.errors import UserError
from juzhen.core.result import Result
from launch.check import check_command_line
from launch.hydra_internals import opened
from launch.job import register_resolvers
from launch.overrides import Groups
from launch.sweep_cells import cells_of, give_to_launcher, with_row

CONF = Path(__file__).parents[2] / "conf"
ALL = sorted(path.stem for path in (CONF / "sweep").glob("*.yaml"))


def checked(*words: str) -> list[tuple[str, ...]]:
    """Words of the cells of a sweep over the real tree."""
    return [cell.words for cell in check_command_line(list(words), conf_dir=CONF).cells]


@pytest.mark.slow  # tests/launch/test_real_tree.py tries every choice of every sweep by default
@pytest.mark.parametrize("name", ALL)
def test_every_sweep_on_file_composes(name):
    checked("-m", f"sweep={name}")


def test_a_row_goes_before_the_grid_and_the_keyboard_before_both():
    grid = ["loss=by_kind", "benchmark=demo", "seed=3"]
    row = ["loss=triplet", "+dataset@evaluate.csts=csts"]
    assert with_row(grid, row, ["seed"]) == ["benchmark=demo", "seed=3", *row]
    assert with_row(grid, row, ["seed", "loss"]) == [*grid, row[1]]


def cells(*words: str, **sweeper: object) -> list[list[str]]:
    """Words of the cells of a sweep, without those that name its group."""
    with opened(CONF, None) as hydra:
        target = {"_target_": "hydra_plugins.juzhen_sweeps.sweeper.RowSweeper"}
        sweep = OmegaConf.create({"hydra": {"sweeper": target | sweeper, "runtime": {"choices": {}}}})
        return [cell[:-1] for cell in cells_of(sweep, words, Groups(hydra.config_loader))]


def test_every_row_meets_every_cell_of_the_grid():
    found = cells(
        "seed=1,2",
        params={"loss": "by_kind"},
        rows={"one": "dataset=[a]", "two": "dataset=[b,c] loss=triplet"},
    )
    assert found == [
        ["loss=by_kind", "seed=1", "dataset=[a]", 'sweep_row="one"'],
        ["loss=by_kind", "seed=2", "dataset=[a]", 'sweep_row="one"'],
        ["seed=1", "dataset=[b,c]", "loss=triplet", 'sweep_row="two"'],
        ["seed=2", "dataset=[b,c]", "loss=triplet", 'sweep_row="two"'],
    ]
    assert cells("seed=1,2", params={"loss": "x"}) == [["loss=x", "seed=1"], ["loss=x", "seed=2"]]
    assert cells(rows={"one": "dataset=[a]", "two": "seed=2"}, only=["two"]) == [
        ["seed=2", 'sweep_row="two"']
    ]


ONE_CELL = ("loss=by_kind", "benchmark=zh_published", "schedule=serial")


@pytest.mark.slow
def test_one_cell_of_a_sweep_runs_without_m_when_all_that_varies_is_said():
    checked("sweep=domains", *ONE_CELL, "dataset=[simclue,lcqmc]")


def test_the_mixed_way_and_the_two_losses_are_what_their_comments_say():
    checked("experiment=ce_then_cosent")


@pytest.mark.slow
def test_one_task_against_four_is_scored_on_a_set_of_each_task():
    rows = [dict(word.split("=", 1) for word in words) for words in checked("-m", "sweep=four_tasks")]
    assert [row["sweep_row"].strip('"') for row in rows] == [
        "retrieval",
        "similarity",
        "classes",
        "clusters",
        "four",
    ]
    assert {(row["benchmark"], row["backbone"]) for row in rows} == {("four_tasks", "bert_en")}


@pytest.mark.slow
def test_cross_encoders_learn_graded_pairs_by_each_loss_of_the_note():
    rows = [
        dict(word.split("=", 1) for word in words) for words in checked("-m", "sweep=cross_encoder_losses")
    ]
    graded = {row["loss"] for row in rows if row["dataset"] == "[csts]"}
    assert graded == {"cosent", "ce", "mse", "huber", "quantile", "ce_mse"}
    assert {row["model"] for row in rows} == {"crossencoder"}


MINED = ("dataset=[demo_qmc]", "benchmark=none", "loss=info_nce")
TWO_ROWS = {"plain": "loss=cosent", "mined": "mining=dynamic callbacks.mining.range_max=60"}


ROWS = [f"+hydra.sweeper.rows.{name}='{words}'" for name, words in TWO_ROWS.items()]


def test_a_key_that_only_some_cells_have_is_set_in_these():
    """It goes before what the row says; a grid over it does not repeat the others."""
    found = checked("-m", *MINED, *ROWS, "callbacks.mining.range_max=20,30")
    told = [[word for word in cell if "mining" in word or "row" in word] for cell in dict.fromkeys(found)]
    assert told == [
        ['sweep_row="plain"'],
        ["callbacks.mining.range_max=20", "mining=dynamic", 'sweep_row="mined"'],
        ["callbacks.mining.range_max=30", "mining=dynamic", 'sweep_row="mined"'],
    ]
    for cell in checked("-m", *MINED, "mining=static,ance", "callbacks.mining.range_max=20"):
        assert "callbacks.mining.range_max=20" in cell


def test_a_key_that_is_there_without_a_value_is_set():
    path = "backbone.path=juzhen/builtin/mini_zh@2"
    (cell,) = checked("-m", *MINED, "backbone=local", path)
    assert path in cell


COUNTED = {
    ("seed=1",): 1,
    ("optimizer.temprature=1",): 1,
    ("dataset=[]", "optimizer.lr=1"): 1,  # it is not read
    ("-m", "seed=1,2", "optimizer.lr=1e-4,1e-3"): 1 + 4,
    ("-m", "+hydra.sweeper.rows.one='loss=cosine'", "+hydra.sweeper.rows.two='loss=cosent'"): 1 + 2,
    ("-m", "seed=1,2", "sead=3"): 1,  # no cell can have it
}


@pytest.mark.parametrize("words", COUNTED)
def test_a_run_and_a_cell_are_composed_once(monkeypatch, words):
    composed = []
    compose = ConfigLoaderImpl._load_configuration_impl

    def counting(*given, **named):
        composed.append(given)
        return compose(*given, **named)

    monkeypatch.setattr(ConfigLoaderImpl, "_load_configuration_impl", counting)
    with contextlib.suppress(UserError):
        command = check_command_line([*words, "benchmark=none"], conf_dir=CONF)
        loader = command.check.hydra.config_loader
        for cell in () if command.is_run else command.cells:  # as a launcher asks for it
            assert loader.load_sweep_config(command.config, list(cell.words)) is cell.config
    assert len(composed) == COUNTED[words]


@pytest.mark.slow
def test_a_sweep_runs_with_such_a_key(tmp_path):
    rows = [f"+hydra.sweeper.rows.{name}='{words}'" for name, words in TWO_ROWS.items()]
    words = ["-m", *MINED, *rows, "callbacks.mining.range_max=20", "debug=fast", "hydra/launcher=basic"]
    done = python("train.py", *words, f"output_dir={tmp_path}")
    assert done.returncode == 0, done.stderr
    found = {}
    for path in tmp_path.glob("*/result.json"):
        config = Result.read(path).config
        found[config["sweep_row"]] = (config["callbacks"].get("mining") or {}).get("range_max")
    assert found == {"plain": None, "mined": 20}


@pytest.mark.parametrize(
    ("words", "jobs", "threads"),
    [
        (["hydra/launcher=basic"], None, None),
        (["hydra/launcher=processes"], 2, 1),
        (["hydra.launcher.threads=4"], 2, 4),
        (["hydra/launcher=slurm", "hydra.launcher.jobs=3"], 3, None),
    ],
)
@pytest.mark.sampled(4)
def test_a_launcher_is_given_what_it_has(words, jobs, threads):
    register_resolvers()
    with opened(CONF, None) as hydra:
        for sweep in ("transfer_cpu", "cross_encoder_cpu"):
            config = hydra.compose_config("train", [f"sweep={sweep}", *words], run_mode=RunMode.MULTIRUN)
            give_to_launcher(config)
            assert (config.hydra.launcher.get("jobs"), config.hydra.launcher.get("threads")) == (
                jobs,
                threads,
            )


def a_sweep_of_ones_own(folder):
    """Words that choose a sweep whose file sets what the plain launcher has not."""
    (folder / "sweep").mkdir()
    (folder / "sweep" / "mine.yaml").write_text(
        "# @package _global_\nhydra: {launcher: {jobs: 2}, sweeper: {params: {seed: '1,2'}}}\n"
    )
    return ["--config-dir", str(folder), "-m", "sweep=mine", "hydra/launcher=basic"]


NO_M = r"a sweep is several runs\. Add -m"
SLOW = [
    (["sweep=domains", *ONE_CELL], NO_M),
    (["sweep=domains", "dataset=[lcqmc]"], NO_M),
]
REFUSED = [
    (
        ["-m", "sweep=domains", "hydra.sweeper.only=[qmc-bse]"],
        r"hydra.sweeper.only=qmc-bse: unknown choice. Did you mean qmc-base",
    ),
    (["-m", "+hydra.sweeper.rows.one='dataset=[lcqcm]'"], "Did you mean lcqmc"),
    *(
        (["-m", *MINED, *ROWS, wrong], told)
        for wrong, told in {
            "callbacks.mining.range_mx=20": "Did you mean callbacks.mining.range_max",
            "callbacks.minig.range_max=20": "callbacks.minig: unknown key. .*Did you mean mining|unknown key",
            "callbacks.mining.range_max=x": "callbacks.mining.range_max=x|range_max",
        }.items()
    ),
    (["-m", *MINED, "callbacks.mining.range_max=20"], r"callbacks\.mining: unknown key"),
    (
        ["-m", "sweep=pooling", "+hydra.sweeper.launcher.job=2"],
        r"hydra\.sweeper\.launcher\.job: no launcher has this key. Did you mean jobs",
    ),
    (
        ["-m", "sweep=pooling", "hydra/launcher=basic", "hydra.launcher.jobs=2"],
        r"hydra\.launcher\.jobs: unknown key",
    ),
    (["-m", "sweep=pooling,losses"], r"sweep=pooling,losses: expected one sweep"),
    (
        ["-m", "hydra.sweep.dir=a", "output_dir=b", "seed=1,2"],
        r"hydra\.sweep\.dir=a: output_dir=b means the same",
    ),
    (a_sweep_of_ones_own, r"sweep/mine.*hydra\.launcher\.jobs"),
]


@pytest.mark.parametrize(
    ("words", "told"), [*REFUSED, *(pytest.param(*row, marks=pytest.mark.slow) for row in SLOW)]
)
def test_words_of_no_sweep_are_refused_before_the_first_cell(words, told, tmp_path):
    with pytest.raises(UserError, match=told):
        checked(*(words(tmp_path) if callable(words) else words))
