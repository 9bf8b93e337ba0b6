"""Every block of README and of Start, pasted in the order of its page into a clean copy of the project."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys

import pytest
from forks import ROOT
from pages import EDITIONS, FENCE, blocks, page, quoted, shown_files, site_pages

pytestmark = pytest.mark.slow  # it trains what the pages train, on few rows

PAGES = [*EDITIONS, *(name for name in site_pages() if name.startswith("docs/start/"))]
SHORT = "debug_rows=48 evaluation.bootstrap_samples=0 logger.wandb=off"
STEPS = f"{SHORT} training.batch_size=8 'training.duration=2 steps'"
"""What is added to each training: the page's own words are all there, and the numbers are not looked at."""

OF_A_MACHINE = ("make", "pip", "python3 -m venv", "source", "git", "juzhen --install-completion", "wandb")
"""Lines that make an environment or change the machine: `tests/test_docs.py` sees that they exist."""

DRIVER = """
import sys
known = {"__name__": "__main__"}
for path in sys.argv[1:]:
    exec(compile(open(path, encoding="utf-8").read(), path, "exec"), known)
"""


@pytest.fixture(scope="module")
def clean_copy(tmp_path_factory):
    """A function: the files of the project that git has, in a new folder."""

    def copy():
        folder = tmp_path_factory.mktemp("pasted") / "juzhen"
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
        for name in filter(None, listed.decode().split("\0")):
            if not name.startswith(("results/", "tests/")) and (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, folder / name)
        (folder / "juzhen" / "data" / "descriptions").symlink_to("../../conf/dataset")
        programs = folder / ".venv" / "bin"
        programs.mkdir(parents=True)
        for name, words in {"python": "", "python3": "", "juzhen": " -m juzhen"}.items():
            (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable}{words} "$@"\n')
            (programs / name).chmod(0o755)
        return folder

    return copy


def is_runnable(line):
    return bool(line.strip()) and not line.startswith((*OF_A_MACHINE, "#")) and "<" not in line


def shortened(line):
    """A line of a page; a training is given few rows and two steps."""
    command, mark, comment = line.partition("  #")
    if command.startswith("python train.py") and not any(word in command for word in ("--help", "--info")):
        learns = not any(word in command for word in ("model=lexical", "dataset=[]"))
        command = f"{command.rstrip()} {STEPS if learns else SHORT}"
        command += " hydra.launcher.jobs=2" * (" -m " in command)  # most of a run's time is its imports
    if command.startswith("juzhen advise"):
        command = f"{command.rstrip()} --minutes 1"  # a quarter of an hour as written
    if command.startswith("juzhen serve"):  # it runs until it is stopped: 124 is the status of timeout
        command = f"timeout -s INT 40 {command.rstrip()} --port $((20000 + $$ % 20000)); test $? = 124"
    return f"{command}{mark}{comment}"


def environment(folder):
    return os.environ | {
        "PATH": f"{folder / '.venv' / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(folder),
        "HOME": str(folder.parent),
        "OMP_NUM_THREADS": "1",
        "JUZHEN_CACHE": str(folder.parent / "cache"),
    }


def paste(name, folder):
    """Runs the blocks; those of Python share their names, as in a notebook, and run again up to each new one."""
    for path, text in shown_files(name).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    (folder.parent / "driver.py").write_text(DRIVER, encoding="utf-8")
    waiting = []

    def run(*command):
        done = subprocess.run(command, cwd=folder, env=environment(folder), capture_output=True, text=True)
        assert done.returncode == 0, f"{name}: {command[-1]}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}"

    def run_programs():
        if waiting:
            run("python", folder.parent / "driver.py", *waiting)

    for number, block in enumerate(blocks(name)):
        if block.needs is not None and importlib.util.find_spec(block.needs) is None:
            continue
        if block.language == "python":
            path = folder.parent / f"block{number}.py"
            path.write_text(block.body, encoding="utf-8")
            waiting.append(path)
        elif block.language == "bash":
            lines = [
                shortened(line) for line in block.body.replace("\\\n", " ").splitlines() if is_runnable(line)
            ]
            if lines and waiting:
                run_programs()
            for line in lines:
                run("bash", "-c", line)
    run_programs()


@pytest.mark.parametrize("name", PAGES)
def test_the_blocks_of_a_page_run_in_its_order(name, clean_copy):
    assert FENCE.search(page(name))
    paste(name, clean_copy())


def scores(table):
    """Numbers of the one line of results of the table of a training."""
    (line,) = [line for line in table.splitlines() if line.startswith("│ ")][:1]
    return [float(number) for number in re.findall(r"\d+\.\d", line)]


def test_the_readme_trains_to_the_table_that_it_quotes(clean_copy):
    """Two editions, one training. Another processor rounds otherwise and may keep weights of another step."""
    (block,) = [one for one in blocks("README.md") if "data=faq.csv run_dir=runs/faq\n" in one.body][:1]
    folder = clean_copy()
    done = subprocess.run(
        ["bash", "-c", block.body], cwd=folder, env=environment(folder), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    printed = done.stdout.partition("Same or not")[0]
    for name in EDITIONS:
        verdict, _, table = quoted(name, "WIN, ").partition("\n")
        assert re.sub(r"\d", "0", verdict) in re.sub(r"\d", "0", done.stderr + done.stdout)
        before, *after = scores(table)
        assert scores(printed)[0] == pytest.approx(before, abs=0.11)  # not trained
        assert scores(printed)[1:] == pytest.approx(after, abs=1.5)
        strip = re.compile(r"[\d\s━─]+")
        assert strip.sub("", table) == strip.sub("", printed)
        rise = re.findall(r"\b\d+\.\d\b", page(name).partition(table)[2])[:2]
        assert [float(number) for number in rise] == [before, after[3]]
