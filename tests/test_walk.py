"""The walk of one pair, from a line of a file to the number in result.json, is short, and told in ARCHITECTURE.md.

A small job is watched call by call. A file is on the walk when one of its functions gives back the pair, in whatever
form: its texts, or numbers made of them out of what it was handed; or when it is what writes the number down.
"""

import dataclasses
import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from forks import ROOT
from jobs import compose_job, run_job
from torch import nn

from juzhen.core.result import RESULT_FILE, Result, Score

MARK = "墨竹甲"
"""A word that all texts have, by which they are known again."""

LONGEST = 22

BESIDE = {
    "callbacks/trainer.py": "how long training took, and its best validation",
    "juzhen/evaluation/run.py": "how many rows were scored, their fingerprint, how many texts were cut",
    "launch/start_comparison.py": "which sets are compared with the start, and what scoring them would cost",
    "juzhen/losses/arguments.py": "refuses tensors that do not fit each other",
    "lightning_modules/trainability.py": "counts the batches that compare nothing, and knows them by their rows",
    "juzhen/encoders/chunks.py": "counts the texts that are longer than is read, and the tokens that are lost of them",
}
"""Files that are shown the pair, and give back what no score is made of."""

TEXT, NUMBERS, NUMBER, MEASURED = "text", "numbers", "number", "measured"
OWN = f"{ROOT}/"


def form_of(value, depth=0):
    """What a value holds of the pair; None where it holds nothing. Weights and whole models are not looked into."""
    if isinstance(value, str | bytes):
        return TEXT if MARK in (value if isinstance(value, str) else value.decode(errors="ignore")) else None
    if isinstance(value, float):
        return NUMBER
    if isinstance(value, Score | Result):
        return MEASURED
    if isinstance(value, nn.Parameter | nn.Module | pl.Callback | type) or depth > 5:
        return None
    if isinstance(value, torch.Tensor | np.ndarray):
        return NUMBERS if len(value.shape) == 0 or value.shape[0] else None
    if type(value) is dict:  # not transformers' tables, which load all their models when they are read
        value = list(value.values())
    elif type(value).__module__.partition(".")[0] in PACKAGES:
        value = (
            [getattr(value, one.name, None) for one in dataclasses.fields(value)]
            if (dataclasses.is_dataclass(value))
            else list(getattr(value, "__dict__", {}).values())
        )
    if not isinstance(value, list | tuple):
        return None
    forms = {form_of(one, depth + 1) for one in value[:20]}
    return next((one for one in (TEXT, MEASURED, NUMBERS, NUMBER) if one in forms), None)


PACKAGES = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests"} | {"train"}


class Walk:
    """Watches calls of the project's functions until the result is there; `files`: those on the walk, in order."""

    def __init__(self) -> None:
        self._open: list[tuple] = []
        self._found: dict[str, int] = {}
        self._calls = 0
        self._is_over = False

    @property
    def files(self) -> list[str]:
        return sorted(self._found, key=self._found.get)

    def __call__(self, frame, event, value) -> None:
        code = frame.f_code
        if self._is_over or event not in ("call", "return") or not code.co_filename.startswith(OWN):
            return
        file = code.co_filename.removeprefix(OWN)
        if file.removesuffix(".py").partition("/")[0] not in PACKAGES or code.co_name == "<module>":
            return
        if event == "call":
            count = (
                code.co_argcount
                + code.co_kwonlyargcount
                + (code.co_flags >> 2 & 1)
                + (code.co_flags >> 3 & 1)
            )
            given = {form_of(frame.f_locals.get(name)) for name in code.co_varnames[:count]}
            self._calls += 1
            self._open.append((frame, file, self._calls, given - {None, NUMBER}))
            return
        while self._open:
            opened, _, call, given = self._open.pop()
            if opened is frame:
                form = form_of(value)
                if form in (TEXT, MEASURED) or (form is not None and given):
                    self._passed(file, call)
                return

    def _passed(self, file: str, call: int) -> None:
        self._found[file] = min(call, self._found.get(file, call))

    def replaced(self, path: Path) -> None:
        """A file was put in its place; if it is the result, what is open below the one who holds it has written it."""
        if path.name == RESULT_FILE:
            for _, file, call, given in reversed(self._open):
                self._passed(file, call)
                if MEASURED in given:
                    break
            self._is_over = True


@pytest.fixture(scope="module")
def walk(tmp_path_factory, tiny_backbone):
    folder = tmp_path_factory.mktemp("walk")
    place = folder / "data" / "demo_sts"
    place.mkdir(parents=True)
    for split in ("train", "dev", "test"):
        lines = [f"{MARK}在画画{split}{row}\t{MARK}在弹琴{split}{row}\t{row % 6}\n" for row in range(12)]
        (place / f"{split}.tsv").write_text(
            "sentence1\tsentence2\tlabel\n" + "".join(lines), encoding="utf-8"
        )
    watching = [name for name, one in compose_job().callbacks.items() if one and not one.decides_weights]
    overrides = [
        "model=biencoder",
        "loss=cosent",
        "dataset.demo_sts.source=local",
        "dataset.demo_sts.rows={train:null,dev:null,test:null}",
        f"data_dir={folder / 'data'}",
        "debug_rows=null",
        "training.duration=1 steps",
        *(f"callbacks.{name}=null" for name in watching),  # they look on, and change no number
    ]
    found, replace, before = Walk(), os.replace, sys.getprofile()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "replace", lambda old, new: (found.replaced(Path(new)), replace(old, new)))
        sys.setprofile(found)
        try:
            run = run_job(folder / "runs", tiny_backbone, *overrides)
        finally:
            sys.setprofile(before)
    assert Result.read(run).scores["test/demo_sts/spearman"].value is not None
    return [file for file in found.files if file not in BESIDE], found.files


def test_the_walk_of_a_pair_is_short_and_told_in_order(walk):
    on_it, seen = walk
    assert len(on_it) <= LONGEST, "\n".join(on_it)
    assert set(BESIDE) <= set(seen), "what stands beside the walk is still there"
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    _, _, section = text.partition("## The walk of one pair")
    told = re.findall(r"^\| \d+ \| `([^`]+)` \|", section.partition("\n## ")[0], flags=re.MULTILINE)
    assert told == on_it
