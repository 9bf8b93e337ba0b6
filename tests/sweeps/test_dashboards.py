import hashlib
import json

import pytest
from forks import python
from report_fixture import report_of, small_picture, write_audit, write_results

from juzhen.cli.main import main
from juzhen.core.machine import wandb_problem
from juzhen.core.result import Result
from sweeps import dashboards

pytestmark = pytest.mark.usefixtures("keyless")
COLUMNS = ("dev/bq", "dev/csts", "dev/lcqmc", "dev/pawsx_zh")


@pytest.fixture
def report(make_result):
    results = small_picture(make_result)
    return report_of(results)


def grouped(results, *groups):
    for place, result in enumerate(results):
        result.config["logger"] = {"group": groups[place % len(groups)]}
    return results


def panels_of(workspace):
    model = json.loads(dashboards.specification_text(workspace))
    sections = model["spec"]["section"]["panelBankConfig"]["sections"]
    return {one["name"]: one["panels"] for one in sections}


def test_panels_are_built_offline_for_every_set_and_dimension(report):
    pytest.importorskip("wandb_workspaces", reason='pip install -e ".[dashboards]"')
    workspace = dashboards.build_workspace(report.matrix, "team", "juzhen", "picture")
    sections = panels_of(workspace)
    assert list(sections) == [
        "Transfer matrix",
        "Model × loss × set × hardware",
        "Sets, run by run",
        "Sets by model",
        "Sets by loss",
        "Sets by backbone",
        "Sets by hardware",
        "Time and memory",
    ]
    for name, key in (("loss", "loss.value.name"), ("hardware", "hardware.value.accelerator")):
        bars = [panel["config"] for panel in sections[f"Sets by {name}"]]
        assert {bar["groupBy"] for bar in bars} == {key}
        assert [bar["metrics"] for bar in bars] == [[f"{column}/spearman"] for column in COLUMNS]
    (everything,) = sections["Model × loss × set × hardware"]
    accessors = [column["accessor"] for column in everything["config"]["columns"]]
    assert accessors[:2] == ["config:model.value.name", "config:loss.value.name"]
    assert accessors[-4:] == [f"summary:{column}/spearman" for column in COLUMNS]
    assert sections["Transfer matrix"][0]["config"]["mediaKeys"] == ["heat_map"]
    assert workspace.entity == "team"


def test_the_logged_table_is_the_matrix(report):
    columns, lines = dashboards.matrix_rows(report.matrix)
    assert columns[:4] == ["trained on", "setup", "seeds", "bq (dev)"]
    by_label = {line[0]: line for line in lines}
    assert by_label["lcqmc"][2:5] == pytest.approx([3, 52.0, 75.0])
    assert by_label["csts"][-1] is None


def test_a_summary_is_the_same_run_for_the_same_sweep():
    assert dashboards.summary_id("picture") == f"summary-{hashlib.sha256(b'picture').hexdigest()[:8]}"
    assert dashboards.summary_id("picture") != dashboards.summary_id("other")


def test_the_group_is_that_of_the_runs(make_result):
    def group(*groups):
        results = grouped(small_picture(make_result), *groups)
        return dashboards.group_of(report_of(results))

    assert group("picture") == "picture"
    assert group("picture", None) == "picture"


@pytest.mark.slow
def test_single_runs_are_a_dashboard_by_their_names(tmp_path, make_result, monkeypatch):
    pytest.importorskip("wandb_workspaces", reason='pip install -e ".[dashboards]"')
    logged = []
    monkeypatch.setattr(dashboards, "wandb_problem", lambda: "no key")
    monkeypatch.setattr(
        dashboards, "log_summary", lambda *_, **given: logged.append(given["group"]) or "there"
    )
    results = small_picture(make_result)[:3]
    for number, result in enumerate(results):
        result.name, result.config["logger"] = f"sts+{number // 2}-s{result.seed}", {"group": None}
    runs = write_results(tmp_path / "runs", results)
    folders = sorted(path.parent for path in runs.rglob("result.json"))
    names = [Result.read(folder).name.rpartition("-s")[0] for folder in folders]
    assert main(["dashboards", str(folders[0])]) == 0
    assert (folders[0] / "report" / "workspace.json").exists()
    assert main(["dashboards", *map(str, folders), "--out", str(tmp_path / "out")]) == 0
    assert logged == [names[0], ", ".join(sorted({*names}))]


def test_what_hinders_is_said_with_what_to_do(monkeypatch, tmp_path, closed_port, open_port):
    assert "set WANDB_API_KEY" in wandb_problem()
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login user password " + "0" * 40)
    monkeypatch.setenv("WANDB_BASE_URL", closed_port)
    assert "no answer from the server within 3 s" in wandb_problem()
    monkeypatch.setenv("WANDB_BASE_URL", open_port)
    assert wandb_problem() is None


@pytest.mark.slow
def test_without_a_key_all_is_built_and_the_summary_waits_on_the_disk(tmp_path, make_result):
    pytest.importorskip("wandb_workspaces", reason='pip install -e ".[dashboards]"')
    runs = write_results(tmp_path / "runs", grouped(small_picture(make_result), "picture"))
    program = (
        "import sys; from juzhen.cli.main import main\n"
        f"status = main(['dashboards', {str(runs)!r}, '--leaks', {str(write_audit(tmp_path))!r}])\n"
        "assert 'torch' not in sys.modules\nsys.exit(status)"
    )
    done = python("-c", program, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "nothing published: no key (set WANDB_API_KEY" in done.stdout
    (offline,) = (runs / "report" / "wandb").glob(f"offline-run-*-{dashboards.summary_id('picture')}")
    assert f"wandb sync {offline}" in done.stdout
    logged = {path.name.split("_")[0] for path in (offline / "files" / "media").rglob("*.*")}
    assert logged == {"matrix", "heat"}
    assert json.loads((runs / "report" / "workspace.json").read_text(encoding="utf-8"))["project"] == "juzhen"


@pytest.mark.slow
def test_with_a_key_the_workspace_is_saved_and_its_address_shown(tmp_path, make_result, monkeypatch, capsys):
    workspaces = pytest.importorskip("wandb_workspaces.workspaces", reason='pip install -e ".[dashboards]"')
    saved, logged = [], {}

    class Saved:
        url = "https://wandb.ai/team/juzhen?nw=1"

    monkeypatch.setattr(dashboards, "wandb_problem", lambda: None)
    monkeypatch.setattr(dashboards, "log_summary", lambda *_, **given: logged.update(given))
    monkeypatch.setattr(workspaces.Workspace, "save", lambda self: saved.append(self.entity) or Saved)
    runs = write_results(tmp_path / "runs", grouped(small_picture(make_result), "picture"))
    assert main(["dashboards", str(runs), "--entity", "team"]) == 0
    assert saved == ["team"]
    assert (logged["mode"], logged["group"]) == ("online", "picture")
    assert Saved.url in capsys.readouterr().out


@pytest.mark.slow
def test_the_cells_of_a_sweep_share_a_group_unless_another_was_typed(tmp_path):
    def group_of_run(*words):
        folder = tmp_path / str(len(words))
        cells = ["model=lexical", "dataset=[]", "benchmark=demo", "debug_rows=24", "logger=csv"]
        cells += [f"output_dir={folder}"]
        done = python("train.py", "-m", *cells, *words, timeout=200)
        assert done.returncode == 0, done.stderr
        (path,) = folder.glob("*/result.json")
        return Result.read(path).config["logger"]["group"]

    assert group_of_run().startswith("multirun-")
    assert group_of_run("logger.group=mine") == "mine"
    assert group_of_run("sweep=transfer_matrix", "loss=cosent") == "transfer_matrix"
