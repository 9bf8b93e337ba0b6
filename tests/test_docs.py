"""The documentation is true: its commands are accepted, its programs run, its paths exist, its examples train."""

import importlib.util
import json
import re
import shlex
import shutil
import sys
import tomllib
from pathlib import Path
from textwrap import indent

import pytest
import torch
from forks import ROOT, in_a_fork, printed
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from pages import EDITIONS, WORKED_CHANGES, appended, commands, page, programs, shown_files, site_pages

import callbacks
import juzhen.losses
from juzhen.cli.main import main
from juzhen.cli.verbs import VERBS
from juzhen.cli.verbs import commands as commands_of
from juzhen.core.examples import Kind
from juzhen.data.source import load_examples
from launch.check import check_command_line
from launch.job import read_job, register_resolvers
from tools.generated import users_files

PAGES = (*EDITIONS, "ARCHITECTURE.md", "CONTRIBUTING.md", WORKED_CHANGES)
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)
WITH_COMMANDS = (*EDITIONS, "CONTRIBUTING.md", *site_pages())
PATH = re.compile(r"`((?:[\w.-]+/)+(?:[\w.-]+\.\w+)?|[\w-]+\.(?:py|md|txt|toml))`")
PROGRAMS = (
    "pip",
    "git",
    "cd",
    "source",
    "export",
    "eval",
    "cp",
    "mkdir",
    "ls",
    "cat",
    "head",
    "pytest",
    "nvidia-smi",
    "modelscope",
    "curl",
    "kill",
)
"""What commands of a page may begin with besides those of the project."""

PAIRS = "question,similar_question,same\n" + "".join(f"问题{n},问法{n},{n % 2}\n" for n in range(100))
TABLES = {
    "pairs.csv": PAIRS,
    "variants.csv": PAIRS,
    "faq.csv": PAIRS,
    "mined.jsonl": "".join(
        f'{{"query": "问题{n}", "pos": ["问法{n}"], "neg": ["别的{n}"]}}\n' for n in range(100)
    ),
}
"""Name → text of the tables of which pages make sets."""

OF_OTHER_TESTS = ("my_conf", "mined/conf", "distilled/conf", "squared_error_of_long")
"""Words of commands that need a package, an earlier mining, a distillation or a new tensor. Other tests add these."""

MADE_BY_RUNS = ("runs/", "encoder/", "encoder/model.safetensors", "previous/")


def examples():
    """Path → text of the files that the page of worked changes shows whole."""
    return shown_files(WORKED_CHANGES)


def tree():
    """Paths of the file structure in ARCHITECTURE.md, in order."""
    sections = re.split(r"^## ", page("ARCHITECTURE.md"), flags=re.MULTILINE)
    (text,) = [part for part in sections if part.startswith("File structure")]
    (block,) = [body for _, body in FENCE.findall(text)]
    return [line.split()[0] for line in block.splitlines()]


@pytest.fixture(scope="module")
def extended_root(tmp_path_factory):
    """A copy of the project with the examples of the worked changes where they say they go, and nothing else."""
    root = tmp_path_factory.mktemp("extended") / "project"

    def hidden(folder, names):
        return ["__pycache__", *(name for name in names if Path(folder, name) in users_files())]

    for folder in tree():
        if folder.endswith("/") and folder != "tests/":
            shutil.copytree(ROOT / folder, root / folder, ignore=hidden, dirs_exist_ok=True)
    shutil.copy(ROOT / "train.py", root)
    of_pages = {path: text for name in site_pages() for path, text in shown_files(name).items()}
    for path, text in (of_pages | examples()).items():
        assert not (root / path).exists(), f"a page would overwrite {path}"
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    ends = appended(WORKED_CHANGES)
    for path, text in ends.items():
        with (root / path).open("a", encoding="utf-8") as file:
            file.write(f"\n\n{text}")
    with pytest.MonkeyPatch.context() as patch:  # the classes of the examples can be imported
        for path, text in ends.items():
            module = importlib.import_module(path.removesuffix(".py").replace("/", "."))
            names = dict(vars(module))
            exec(compile(text, path, "exec"), names)
            for name in names.keys() - vars(module).keys():
                patch.setattr(module, name, names[name], raising=False)
        for package in (juzhen.losses, callbacks):
            folder = root.joinpath(*package.__name__.split("."))
            patch.setattr(package, "__path__", [*package.__path__, str(folder)])
        # Sets are made in the copy, of tables as a reader has them.
        patch.setattr("juzhen.cli.dataset.CONFIGURATION", root / "conf")
        patch.setattr("juzhen.data.dataset_from_table.DATASETS", root / "conf" / "dataset")
        patch.setenv("JUZHEN_DATA", str(root / "data"))
        for path, text in TABLES.items():
            (root / path).write_text(text, encoding="utf-8")
            assert main(["dataset", str(root / path)]) == 0
        yield root


def test_the_editions_have_the_same_sections_blocks_and_commands():
    english, chinese = (page(name) for name in EDITIONS)
    for pattern in (r"^## ", r"^- ", r"^```\w+", r"^\| ", r"^!\["):
        found = [len(re.findall(pattern, text, flags=re.MULTILINE)) for text in (english, chinese)]
        assert found[0] == found[1] > 0, pattern
    assert commands("README.md") == commands("README.zh.md")


def test_the_editions_have_the_same_numbers_and_links():
    for pattern in (r"\d[\d.,]*\d", r"\]\((?:docs|results|juzhen|https)[^)#]*"):
        english, chinese = (
            sorted(found.replace(".zh.md", ".md") for found in re.findall(pattern, page(name)))
            for name in EDITIONS
        )
        assert english == chinese


def training_commands():
    lines = {
        shlex.join(arguments): None
        for name in WITH_COMMANDS
        for program, arguments in programs(name)
        if program == "python"
        and arguments[:1] == ["train.py"]
        and not any(word in " ".join(arguments) for word in OF_OTHER_TESTS)
    }
    return [f"python {line}" for line in lines]


def is_sweep_of_a_suite(line):
    return "sweep=" in line and "benchmark=" not in line


def quick_or_slow(line):
    """A line, slow where all the runs of a sweep are composed: tests/sweeps does that too."""
    return pytest.param(line, marks=[pytest.mark.slow] if "sweep=" in line else [])


@pytest.mark.parametrize("line", map(quick_or_slow, training_commands()))
@pytest.mark.sampled(48)
def test_every_training_command_is_accepted(line, extended_root):
    words = shlex.split(line)[2:]
    if is_sweep_of_a_suite(line):
        words.append("benchmark=none")  # the sets of a suite, in every row, would take most of the time
    words = [
        word.replace("data=", f"data={extended_root}/") if word[:5] == "data=" else word for word in words
    ]
    check_command_line(words, conf_dir=extended_root / "conf")


@pytest.mark.slow
@pytest.mark.parametrize("line", filter(is_sweep_of_a_suite, training_commands()))
def test_every_sweep_is_accepted_with_its_suite(line, extended_root):
    check_command_line(shlex.split(line)[2:], conf_dir=extended_root / "conf")


@pytest.mark.parametrize("name", WITH_COMMANDS)
@pytest.mark.sampled(3)
def test_the_other_commands_exist(name):
    verbs = re.findall(r"^([a-z-]+):.*## ", page("Makefile"), flags=re.MULTILINE)
    for program, arguments in programs(name):
        if program == "make":
            assert set(arguments[:1]) <= set(verbs)
        elif program == "juzhen" and not arguments[0].startswith("--"):
            if arguments[1:] != ["--help"]:
                words = " ".join(arguments[:2]) if len(commands_of(arguments[0])) > 1 else arguments[0]
                commands_of(arguments[0])[words].make_context(words, arguments[len(words.split()) :])
        elif program == "python" and arguments[0] == "-m":
            assert importlib.util.find_spec(arguments[1]), arguments
        elif program == "python":
            assert (ROOT / arguments[0]).is_file(), arguments
        else:
            assert program in {*PROGRAMS, "juzhen"}, f"{program}: is it one that a reader has?"


def test_every_verb_is_shown_somewhere():
    found = [one for name in WITH_COMMANDS for one in programs(name)]
    seen = {arguments[0] for program, arguments in found if program in ("make", "juzhen") and arguments}
    assert seen >= {"demo", "test", "check", *VERBS} - {"published", "dashboards"}


def test_markers_and_extras_named_in_contributing_are_declared():
    project = page("pyproject.toml")
    text = "\n".join(commands("CONTRIBUTING.md"))
    for marker in re.findall(r"pytest -m (\w+)", text):
        assert f'"{marker}: ' in project
        assert any(
            f"pytest.mark.{marker}" in path.read_text("utf-8") for path in ROOT.glob("tests/**/test_*.py")
        )
    for extra in re.findall(r'"\.\[([\w,]+)\]"', text + "\n".join(commands("README.md"))):
        assert all(re.search(rf"^{one} = \[", project, flags=re.MULTILINE) for one in extra.split(","))


@pytest.mark.parametrize("name", ["docs/start/install.md", "docs/start/install.zh.md"])
def test_extras_above_the_empty_row_are_those_of_make_install(name):
    extras = tomllib.loads(page("pyproject.toml"))["project"]["optional-dependencies"]
    installed = set(re.findall(r"juzhen-embeddings\[(\w+)\]", " ".join(extras["dev"])))
    above, below = re.split(r"^\| \| \|$", page(name), flags=re.MULTILINE)
    above, below = (set(re.findall(r"^\| `(\w+)` \|", part, flags=re.MULTILINE)) for part in (above, below))
    assert {"suite", "search", "serve"} <= above <= installed
    assert below
    assert below <= extras.keys() - installed


@pytest.mark.parametrize("name", PAGES)
def test_every_path_in_the_text_exists(name):
    made = {*MADE_BY_RUNS, *examples(), *(path for path, *_ in PLACED.findall(page(name)))}
    found = {path for path in PATH.findall(page(name)) if path not in made}
    assert found
    missing = [path for path in sorted(found) if not (ROOT / path).exists()]
    assert not missing


def test_the_file_structure_names_what_is_there_and_all_of_it():
    named = tree()
    assert all((ROOT / path).exists() for path in named)
    packages = {f"{path.parent.name}/" for path in ROOT.glob("*/__init__.py")}
    programs = {path.name for path in ROOT.glob("*.py")}
    assert packages | programs | {"tests/"} <= set(named)


def test_the_functions_that_decide_are_where_the_page_says():
    _, _, section = page("ARCHITECTURE.md").partition("## Where it is decided")
    answers = re.findall(r"^\| [^|]+\? \| (.*) \|$", section.partition("\n## ")[0], flags=re.MULTILINE)
    assert len(answers) >= 10
    for answer in answers:
        places = re.split(r"`([\w/]+\.py)`", answer)[1:]
        for path, text in zip(places[::2], places[1::2], strict=True):
            source = page(path)
            names = [part for name in re.findall(r"`([\w.]+)`", text) for part in name.split(".")]
            assert names, path
            for name in names:
                known = rf"^\s*(?:async )?(?:def|class) {name}\b|^{name}\b.* = "
                assert re.search(known, source, flags=re.MULTILINE), f"{path}: {name}"


def test_contributing_shows_whole_files_of_a_readable_length():
    shown, ends = examples(), appended(WORKED_CHANGES)
    assert [Path(path).suffix for path in shown] == [".tsv", ".yaml", ".yaml", ".py", ".yaml"]
    assert [(ROOT / path).is_file() for path in ends] == [True]
    assert all(text.count("\n") <= 40 for text in (shown | ends).values())


def test_the_data_set_of_contributing_is_read(extended_root):
    register_resolvers()
    with initialize_config_dir(str(extended_root / "conf"), version_base="1.3"):
        job = read_job(compose("train", overrides=["dataset=my_questions"]))
    read = {
        split: load_examples(
            job.dataset["my_questions"],
            split,
            source="local",
            data_dir=extended_root / "data",
            on_bad_row="error",
        )
        for split in ("train", "dev")
    }
    assert read["train"].kind is Kind.LABELLED_PAIR
    assert read["train"].targets.tolist() == [1, 0, 1, 0]
    assert len(read["train"].sentences) == 6  # two questions stand in two rows
    assert read["dev"] is None


def import_from(root):
    """From here on the project is the one below `root`."""
    own = {folder.rstrip("/") for folder in tree() if folder.endswith("/")} | {"train", "jobs"}
    for name in [name for name in sys.modules if name.partition(".")[0] in own]:
        del sys.modules[name]
    sys.path.insert(0, str(root))


def take_a_step(root):
    """With the loss of the page, which only the modules below `root` have."""
    import_from(root)
    matching = importlib.import_module("lightning_modules.loss_factory")
    assert Path(matching.__file__).is_relative_to(root)
    config = OmegaConf.load(root / "conf" / "loss" / "two_sided_margin.yaml")
    loss = matching.build_loss(config, dim=2, num_classes=2)
    scores = torch.tensor([0.2, 0.9, 0.6, 0.1], requires_grad=True)
    labels = torch.tensor([1.0, 1.0, 0.0, 0.0])
    before, logs = loss.with_logs(scores, labels)
    before.backward()
    with torch.no_grad():
        scores -= 0.1 * scores.grad
    assert torch.equal(scores.grad, torch.tensor([-0.25, 0.0, 0.25, 0.0])), scores.grad
    assert loss(scores, labels) < before
    exported = importlib.import_module("juzhen.losses")
    assert isinstance(loss, exported.TwoSidedMargin)
    assert exported.two_sided_margin(scores, labels) == loss(scores, labels)
    assert {"positive_score", "negative_score"} <= set(logs)


def test_the_loss_of_contributing_takes_a_step(extended_root):
    """In a process of its own: the class would stay among the losses that other tests look at."""
    assert in_a_fork(take_a_step, extended_root) == 0


PLACED = re.compile(
    r"^In `([^`\n]+)`, (after `([^`\n]+)`|at the end|a new file):\n\n```\w+\n(.*?)^```$", re.M | re.S
)
"""Where the worked changes put lines into a file that is there, or beside it."""


def train_there(root, backbone, folder):
    """With the loss of the page and the tensor that it reads, which only the modules below `root` have."""
    import_from(root)
    importlib.import_module("jobs").run_job(folder, backbone, "loss=squared_error_of_long")


@pytest.mark.slow
def test_a_loss_over_a_new_tensor_is_four_files_and_trains(tmp_path, tiny_backbone):
    places = PLACED.findall(page(WORKED_CHANGES))
    assert len({path for path, *_ in places}) == len(places) <= 4
    root = tmp_path / "project"
    for folder in (one for one in tree() if one.endswith("/") and one != "tests/"):
        shutil.copytree(ROOT / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "train.py", root)
    for path, where, line, text in places:
        old = "" if where == "a new file" else (root / path).read_text(encoding="utf-8")
        new = f"{old}\n\n{text}" if old else text
        if line:
            (found,) = [each for each in old.split("\n") if each.strip() == line]
            margin = " " * (len(found) - len(line) + 4 * line.endswith("{"))
            new = old.replace(f"{found}\n", f"{found}\n{indent(text, margin)}")
        (root / path).write_text(new, encoding="utf-8")
    assert in_a_fork(train_there, root, tiny_backbone, tmp_path / "runs") == 0
    (result,) = tmp_path.glob("runs/*/result.json")
    assert json.loads(result.read_text())["config"]["loss"]["name"] == "squared_error_of_long"


def watch_a_run(root, backbone, folder):
    """With the callback of the page; it decides no weights, so the run is the one that it is without it."""
    import_from(root)
    jobs = importlib.import_module("jobs")
    words = (
        "logger.every_steps=1",
        "training.duration=3 steps",
        "dataset=[my_questions]",
        f"data_dir={root / 'data'}",
    )
    run = jobs.run_job(folder, backbone, *words, "callbacks=[default,weight_distance]")
    distances = jobs.logged(run, "train/weight_distance")
    assert len(distances) == 3
    assert distances[0] < distances[1] < distances[2]
    plain = jobs.compose_job(*jobs.SMALL, f"output_dir={folder}", f"backbone.path={backbone}", *words)
    assert plain.run_dir == str(run)


@pytest.mark.slow
def test_the_callback_of_contributing_watches_a_run(extended_root, tiny_backbone, tmp_path):
    assert in_a_fork(watch_a_run, extended_root, tiny_backbone, tmp_path) == 0


@pytest.mark.slow
def test_the_loss_of_contributing_needs_one_line_of_test_data(extended_root):
    (line,) = [body for _, body in FENCE.findall(page(WORKED_CHANGES)) if body.startswith("        ")]
    shutil.copytree(ROOT / "tests" / "losses", extended_root / "tests" / "losses", dirs_exist_ok=True)
    for path in (*ROOT.glob("tests/*.py"), ROOT / "pyproject.toml"):
        shutil.copy(path, extended_root / path.relative_to(ROOT))
    table = (ROOT / "tests" / "expected_losses.py").read_text(encoding="utf-8")
    table = table.replace("    }.items()", f"{line}    }}.items()")
    (extended_root / "tests" / "expected_losses.py").write_text(table, encoding="utf-8")
    words = [
        "tests/losses/test_every_loss.py",
        "-k",
        "two_sided_margin or expected",
        "-p",
        "no:cacheprovider",
    ]
    of_another_page = extended_root / "conf" / "loss" / "absolute_error.yaml"
    of_another_page.rename(extended_root / "absolute_error.yaml")
    try:
        printed("-m", "pytest", *words, cwd=extended_root)
    finally:
        (extended_root / "absolute_error.yaml").rename(of_another_page)
    assert "two_sided_margin" in line


@pytest.mark.slow
def test_all_examples_train_together(extended_root, tiny_backbone, tmp_path):
    choices = [
        "dataset=my_questions",
        "benchmark=none",
        "loss=two_sided_margin",
        "debug=fast",
        "callbacks=[default,weight_distance]",
    ]
    places = [
        "data_dir=data",
        f"output_dir={tmp_path}",
        "backbone=random_small",
        f"backbone.path={tiny_backbone}",
    ]
    words = (*choices, *places, "hardware.threads=1", "logger.progress=false")
    printed("train.py", *words, cwd=extended_root)
    (path,) = tmp_path.glob("*/result.json")
    result = json.loads(path.read_text(encoding="utf-8"))
    assert result["trained_on"] == ["my_questions"]
    assert result["training"]["steps"] == 3
    assert result["data"]["train/my_questions"]["rows"] == 4
