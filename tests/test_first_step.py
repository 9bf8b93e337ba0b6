"""Few files lie between a command line and the first step of training, and ARCHITECTURE.md lists them.

A job is watched call by call until the first step begins. On the way are the files whose functions are at work then,
and those that have made what this step works with, called by one that is at work.
"""

import os
import re
import runpy
import sys

import pytorch_lightning as pl
from forks import ROOT, in_a_fork
from pages import page
from torch.utils.data import DataLoader

LONGEST = 12
SOURCES = tuple(f"{path.parent}/" for path in ROOT.glob("*/__init__.py") if path.parent.name != "tests")
SOURCES += (f"{ROOT}/train.py",)
UNNAMED = ("<module>", "<lambda>", "<genexpr>")


def is_made_for_the_step(value) -> bool:
    from conf.job import JobConfig
    from juzhen.data.loading import JobData
    from juzhen.encoders import SentenceEncoder

    made = (JobConfig, JobData, SentenceEncoder, pl.LightningModule, pl.Trainer, DataLoader)
    values = value if isinstance(value, list | tuple) else [value]
    return any(isinstance(each, made) for each in values)


def ours(frame):
    """The frame, or the next one below it, that is of the project."""
    while frame is not None and not frame.f_code.co_filename.startswith(SOURCES):
        frame = frame.f_back
    return frame


def stack_of(frame):
    frames = []
    while (frame := ours(frame)) is not None:
        frames.append(frame)
        frame = frame.f_back
    return frames[::-1]


def _watch(arguments, written) -> None:
    calls = []

    def watch(frame, event, value) -> None:
        code = frame.f_code
        if not code.co_filename.startswith(SOURCES) or code.co_name in UNNAMED:
            return
        if event == "return" and is_made(value):
            calls.append((code.co_filename, ours(frame.f_back)))
        elif event == "call" and code.co_name == "training_step":
            sys.setprofile(None)
            stack = stack_of(frame)
            files = [each.f_code.co_filename for each in stack]
            files += [file for file, caller in calls if any(caller is each for each in stack)]
            written.write_text("\n".join(dict.fromkeys(file.removeprefix(f"{ROOT}/") for file in files)))
            os._exit(0)

    def is_made(value) -> bool:
        return "torch" in sys.modules and is_made_for_the_step(value)

    sys.argv = [str(ROOT / "train.py"), *arguments]
    sys.setprofile(watch)
    runpy.run_path(sys.argv[0], run_name="__main__")


def test_the_way_from_a_command_line_to_the_first_step_is_short_and_listed(tmp_path, tiny_backbone):
    words = [
        "dataset=demo_sts",
        "benchmark=none",
        "debug=fast",
        "hardware=cpu",
        f"output_dir={tmp_path}/runs",
    ]
    words += [f"backbone.path={tiny_backbone}", "backbone.initialize=random"]
    in_a_fork(_watch, words, tmp_path / "files")
    files = (tmp_path / "files").read_text().splitlines()
    assert len(files) <= LONGEST, "\n".join(files)
    _, _, section = page("ARCHITECTURE.md").partition("## From a command line to the first step")
    listed = re.findall(r"^\| `([^`]+)` \|", section.partition("\n## ")[0], flags=re.MULTILINE)
    assert sorted(listed) == sorted(files)
