"""Input files are opened in one place, which refuses what is no regular file: test_refused_strangers.py."""

import re

from juzhen.core import safe_open
from juzhen.core.paths import ROOT

ALONE = re.compile(
    r"\.read_text\(|\.read_bytes\(|json\.load\(|OmegaConf\.load\(|(np|torch)\.load\((?!require_file|io\.)|open\(\"rb\"\)"
)
"""Ways to open a file without having looked whether it is one."""

OTHERS = (
    "core/safe_open.py", "core/machine.py", "core/text.py", "encoders/forward.py",
    "export/folder.py", "encoders/tokens.py", "losses/__init__.py", "report/html_shell.py", "report/compare.py",
    "launch/stage_store.py", "lightning_modules/loss_factory.py", "loss_table.py",
)  # fmt: skip
"""The one place; modules that read /proc as well; and those that read what they or this program have made."""


def test_aliases_are_read(tmp_path):
    path = tmp_path / "aliases.yaml"
    path.write_text("a: &a [1, 2]\nb: *a\n")
    assert safe_open.read_yaml(path)["b"] == [1, 2]


def test_files_are_opened_in_one_place():
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for room in ("juzhen", "launch", "callbacks", "datamodules", "lightning_modules")
        for path in sorted((ROOT / room).rglob("*.py"))
        if not path.as_posix().endswith(OTHERS)
        for line in path.read_text(encoding="utf-8").splitlines()
        if ALONE.search(line)
    ]
    assert not found, "\n".join(found)
