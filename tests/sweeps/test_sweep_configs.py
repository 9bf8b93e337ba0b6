"""The sweeps of conf/sweep compose, and rows, grids and what is typed become cells."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from forks import python
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.plugins import Plugins
from hydra.types import RunMode

from juzhen.core.errors import UserError
from juzhen.core.result import Result
from launch.check import check_command_line
from launch.hydra_internals import opened
from launch.naming import register_resolvers
from launch.own_hydra import give_to_launcher
from launch.sweep_rows import handed_over, key_of, with_row

CONF = Path(__file__).parents[2] / "conf"
ALL = sorted(path.stem for path in (CONF / "sweep").glob("*.yaml"))


def checked(*words: str) -> list[str]:
    """Words that wait for the sweeper."""
    return list(check_command_line(list(words), conf_dir=CONF).waiting)


@pytest.mark.slow  # tests/launch/test_real_tree.py tries every choice of every sweep by default
@pytest.mark.parametrize("name", ALL)
def test_every_sweep_on_file_composes(name):
    checked("-m", f"sweep={name}")


def test_a_row_goes_before_the_grid_and_the_keyboard_before_both():
    grid = ["loss=by_kind", "suite=demo", "seed=3"]
    row = ["loss=triplet", "+dataset@evaluate.csts=csts"]
    assert with_row(grid, row, ["seed"]) == ["suite=demo", "seed=3", *row]
    assert with_row(grid, row, ["seed", "loss"]) == [*grid, row[1]]


def cells(*arguments: str, **options: object) -> list[list[str]]:
    Plugins.instance()  # executes plugins anew: a class imported before has another parent than it believes
    from hydra_plugins.juzhen_sweeps.sweeper import RowSweeper

    sweeper = RowSweeper(None, **options)
    sweeper.typed = {word.partition("=")[0] for word in arguments}
    words = [*sweeper._parse_config(), *arguments]
    return sweeper.split_arguments(OverridesParser.create().parse_overrides(words), None)[0]


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


@pytest.mark.slow
def test_one_cell_of_a_sweep_runs_without_m_when_all_that_varies_is_said():
    words = ("loss=by_kind", "suite=zh_published", "schedule=serial")
    checked("sweep=domains", *words, "dataset=[simclue,lcqmc]")
    with pytest.raises(UserError, match="a sweep is several runs; add -m"):
        checked("sweep=domains", *words)
    with pytest.raises(UserError, match="a sweep is several runs; add -m"):
        checked("sweep=domains", "dataset=[lcqmc]")


def test_mistakes_in_rows_are_found_before_the_first_cell():
    with pytest.raises(UserError, match=r"hydra.sweeper.only=qmc-bse: did you mean qmc-base"):
        checked("-m", "sweep=domains", "hydra.sweeper.only=[qmc-bse]")
    with pytest.raises(UserError, match="did you mean lcqmc"):
        checked("-m", "+hydra.sweeper.rows.one='dataset=[lcqcm]'")


def test_the_mixed_way_and_the_two_losses_are_what_their_comments_say():
    checked("experiment=ce_then_cosent")


MINED = ("dataset=[demo_qmc]", "suite=none", "loss=info_nce")
TWO_ROWS = {"plain": "loss=cosent", "mined": "mining=dynamic callbacks.mining.depth=60"}


def swept(*words: str, waiting: list[str], **options: object) -> list[list[str]]:
    """Words of the cells of a sweep over the real tree."""
    register_resolvers()
    with opened(CONF, None) as hydra:
        from hydra_plugins.juzhen_sweeps.sweeper import RowSweeper

        sweeper = RowSweeper(None, waiting=waiting, **options)
        sweeper.hydra_context = SimpleNamespace(config_loader=hydra.config_loader)
        sweeper.config = hydra.compose_config("train", list(words), run_mode=RunMode.MULTIRUN)
        words = [*words, *waiting]
        sweeper.typed = set(map(key_of, words))
        return sweeper.split_arguments(OverridesParser.create().parse_overrides(list(words)), None)[0]


@pytest.mark.slow
def test_a_key_that_only_some_rows_have_is_set_in_these():
    """It goes before what the row says; a grid over it does not repeat the others."""
    found = swept(*MINED, waiting=["callbacks.mining.depth=20,30"], rows=TWO_ROWS)
    assert [[word for word in cell if "mining" in word or "row" in word] for cell in found] == [
        ['sweep_row="plain"'],
        ["mining=dynamic", 'sweep_row="mined"', "callbacks.mining.depth=20"],
        ["mining=dynamic", 'sweep_row="mined"', "callbacks.mining.depth=30"],
    ]
    found = swept(*MINED, "mining=static,ance", waiting=["callbacks.mining.depth=20"])
    assert [cell[-1] for cell in found] == ["callbacks.mining.depth=20"] * 2


@pytest.mark.slow
def test_the_keyboard_may_name_such_keys():
    depth = "callbacks.mining.depth=20,30"
    assert checked("-m", *MINED, "mining=static,ance", depth) == [depth]
    assert checked("-m", *MINED, "mining=static", depth) == []  # Hydra finds the key itself
    rows = [f"+hydra.sweeper.rows.{name}='{words}'" for name, words in TWO_ROWS.items()]
    assert checked("-m", *MINED, *rows, depth, "seed=1,2") == [depth]
    for wrong, message in {
        "callbacks.mining.dept=20": "did you mean depth",
        "callbacks.minig.depth=20": "callbacks.minig: there is no such key; .*did you mean mining|no such key",
        "callbacks.mining.depth=x": "callbacks.mining.depth=x|depth",
    }.items():
        with pytest.raises(UserError, match=message):
            checked("-m", *MINED, *rows, wrong)
    with pytest.raises(UserError, match=r"callbacks\.mining: there is no such key"):
        checked("-m", *MINED, "seed=1,2", "callbacks.mining.depth=20")


def test_a_key_that_is_there_without_a_value_does_not_wait():
    words = ("-m", *MINED, "backbone=local", "backbone.path=juzhen/builtin/mini_zh", "seed=1,2")
    assert checked(*words) == []


def test_what_waits_is_handed_to_the_sweeper():
    words = ["-m", "sweep=x", "callbacks.mining.every_steps=[1,2],[3]", "seed=1", "callbacks.mining.depth=20"]
    found = handed_over(words, [words[2], words[4]])
    assert (found[:2], found[3:]) == (words[:2], ["seed=1"])
    (override,) = OverridesParser.create().parse_overrides([found[2]])
    assert override.key_or_group == "hydra.sweeper.waiting"
    assert override.value() == [words[2], words[4]]
    assert handed_over(words, []) == words


@pytest.mark.slow
def test_a_sweep_runs_with_such_a_key(tmp_path):
    rows = [f"+hydra.sweeper.rows.{name}='{words}'" for name, words in TWO_ROWS.items()]
    words = ["-m", *MINED, *rows, "callbacks.mining.depth=20", "debug=fast", "hydra/launcher=basic"]
    done = python("train.py", *words, f"output_dir={tmp_path}")
    assert done.returncode == 0, done.stderr
    found = {}
    for path in tmp_path.glob("*/result.json"):
        config = Result.read(path).config
        found[config["sweep_row"]] = (config["callbacks"].get("mining") or {}).get("depth")
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


def test_what_no_launcher_can_be_told_is_refused(tmp_path):
    with pytest.raises(
        UserError, match=r"hydra\.sweeper\.launcher\.job: no launcher has such a key; did you mean jobs"
    ):
        checked("-m", "sweep=pooling", "+hydra.sweeper.launcher.job=2")
    with pytest.raises(UserError, match=r"hydra\.launcher\.jobs: there is no such key"):
        checked("-m", "sweep=pooling", "hydra/launcher=basic", "hydra.launcher.jobs=2")
    (tmp_path / "sweep").mkdir()
    (tmp_path / "sweep" / "mine.yaml").write_text(
        "# @package _global_\nhydra: {launcher: {jobs: 2}, sweeper: {params: {seed: '1,2'}}}\n"
    )
    words = ["--config-dir", str(tmp_path), "-m", "sweep=mine", "hydra/launcher=basic"]
    with pytest.raises(UserError, match=r"sweep/mine.*hydra\.launcher\.jobs"):
        checked(*words)
