"""Sets of whoever works here lie beside those of the project, and break none of its tests."""

import os
import shutil
import subprocess

import pytest
from forks import ROOT, python

from juzhen.core.paths import BUILTIN

TESTS = (
    "tests/datamodules/test_dataset_configs.py",
    "tests/distillation/test_graded_sets.py",
    "tests/docs/test_generated.py",
    "tests/launch/test_data_file.py",
    "tests/launch/test_real_tree.py",
    "tests/lightning_modules/test_crossencoder.py",
    "tests/mining/test_mine_command.py",
    "tests/mining/test_negatives.py",
    "tests/security/test_owned.py",
    "tests/sweeps/test_published_page.py",
    "tests/test_docs.py",
    "tests/test_pages.py",
)
"""That read conf/dataset or the pages made of it, or write a set."""

STALE = "from tools.generated import stale; print([page.writes for page in stale()])"


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A clone of the project, as it is on the disk, with five sets of a user, one by hand."""
    root = tmp_path_factory.mktemp("user") / "juzhen"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("no checkout of git")
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, root / name)
    for words in (["init", "-q"], ["add", "--all"]):
        subprocess.run(["git", *words], cwd=root, check=True)
    lines = (BUILTIN / "data" / "demo_qmc" / "train.tsv").read_text(encoding="utf-8").splitlines()[1:201]
    pairs = [line.split("\t") for line in lines]
    nli = ("蕴含", "中立", "矛盾")
    tables = {
        "hard.csv": [f"{a},{b},{label}" for a, b, label in pairs],
        "问答.tsv": [f"{a}\t{b}" for a, b, _ in pairs],
        "graded.csv": [f"{a},{b},{n % 11 / 2}" for n, (a, b, _) in enumerate(pairs)],
        "taught.tsv": [f"{a}\t{b}\t{nli[n % 3]}" for n, (a, b, _) in enumerate(pairs)],
        "mined.txt": [a for a, *_ in pairs],
    }
    for name, rows in tables.items():
        (root / name).write_text("\n".join(rows), encoding="utf-8")
        done = python("-m", "juzhen", "dataset", name, cwd=root, env=os.environ | {"PYTHONPATH": str(root)})
        assert done.returncode == 0, done.stderr
    assert len([*root.glob("conf/dataset/*.yaml")]) == 5 + listed.stdout.count("conf/dataset/")
    by_hand = (root / "conf" / "dataset" / "graded.yaml").read_text(encoding="utf-8").replace("graded", "x")
    (root / "conf" / "dataset" / "x.yaml").write_text(by_hand, encoding="utf-8")
    return root


@pytest.mark.slow
def test_the_tests_that_read_conf_pass_beside_sets_of_a_user(copy):
    # Pages that wait for `python -m tools.generated` do so with and without these sets.
    words = ["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-n", "2", *TESTS]
    words += ["--deselect", "tests/docs/test_generated.py::test_no_page_is_stale"]
    done = python(*words, cwd=copy, env=os.environ | {"PYTHONPATH": str(copy)})
    assert done.returncode == 0, done.stdout[-5000:]
    answers = [
        python("-c", STALE, cwd=root, env=os.environ | {"PYTHONPATH": str(root)}) for root in (ROOT, copy)
    ]
    assert answers[0].returncode == 0, answers[0].stderr
    assert answers[0].stdout == answers[1].stdout
