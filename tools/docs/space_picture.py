"""Draws the picture of the guide to spaces: python -m tools.docs.space_picture docs/guides/img/space.svg

Texts of the built-in sets, as an encoder with random weights has them and as mini_zh does; prints the numbers.
"""

import argparse
import sys
from pathlib import Path

from juzhen.cli.program import run_program
from juzhen.core.atomic_write import write_text
from juzhen.core.paths import DATASETS
from juzhen.data.rows import ConfiguredSets
from juzhen.encoders import load_backbone
from juzhen.encoders.backbone_config import BackboneConfig
from juzhen.evaluation.space import ALL_SETS, read_text_sets, study
from juzhen.report.space_page import svg

SETS, TEXTS, SEED = ("demo_qmc", "demo_sts", "demo_nli"), 150, 42


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("picture", type=Path, help=".svg to write")
    path = parser.parse_args().picture
    sets = read_text_sets(SETS, ConfiguredSets(DATASETS, Path()), split="dev", most=TEXTS, seed=SEED)
    start = load_backbone(BackboneConfig(path="builtin/encoder", initialize="random"), seed=SEED)
    encoders = {"random weights": start, "builtin/mini_zh": "builtin/mini_zh"}
    studied = study(encoders, sets, maps=["tsne"], seed=SEED, show_progress=False)
    write_text(path, svg(studied))
    for name, measures in zip(studied.runs, studied.numbers[ALL_SETS], strict=True):
        print(name, {key: value for key, value in measures.items() if key != "spectrum"})


if __name__ == "__main__":
    sys.exit(run_program(main))
