"""A small configuration tree with one of everything that the real one uses, for a test's own folder."""

from pathlib import Path

DATASET = """\
# @package dataset.{name}
name: {name}
kind: {kind}
language: zh
about: a set for tests
licence: none
origin: nowhere
layout: plain
layouts:
  plain:
    files: {{train: {name}/train.tsv}}
    columns: {{text_a: 0, text_b: 1, {target}: 2}}
rows: {{train: 10, dev: null}}
score_range: {score_range}
"""

HARDWARE = """\
accelerator: {accelerator}
devices: 1
num_nodes: 1
strategy: auto
precision: 32-true
threads: null
num_workers: 0
eval_batch_tokens: 16384
compile: false
"""

SCHEDULE = """\
name: {name}
order: null
stages: {{}}
sets: {{}}
sample_by: size
temperature: 1.0
store: null
"""

FILES = {
    "train.yaml": """\
defaults:
  - model: biencoder
  - backbone: embedded
  - loss: cosent
  - dataset: [demo_sts]
  - schedule: mix
  - suite: demo
  - hardware: cpu
  - logger: default
  - _self_
  - experiment: null
  - sweep: null
  - debug: null
name: ${job_name:}
seed: 42
source: local
data_dir: data
cache_dir: null
output_dir: runs
run_dir: ${output_dir}/${name}
on_bad_row: error
resume: never
init_from: null
filter_leaks: false
debug_rows: null
dataset: {}
evaluate: {}
augmentation:
  views: []
  probability: 0.5
  delete: 0.1
  repeat: 0.1
  cutoff: 0.1
  shuffle: 4
  synonym: 0.3
training:
  duration: 3 epochs
  batch_size: 64
  share_sentences: true
  accumulate: 1
  length_window: 1
  stratify_by: none
  validate_every: 1 epochs
  patience: 3
  monitor: auto
  checkpoint_every: 200 steps
optimiser:
  lr: 2.0e-5
  weight_decay: 0.01
  betas: [0.9, 0.999]
  eps: 1.0e-8
  warmup: 10 percent
  decay: linear
  clip_norm: 1.0
evaluation:
  splits: [dev, test]
  bootstrap_samples: 1000
  untrained: false
  backend: torch
  without_leaks: false
  cache_embeddings: false
health:
  probe_sentences: 1000
  collapse_cosine: 0.98
  collapse_rank: 2.0
  collapse_spread: 0.01
  on_collapse: warn
  gradient_range: [0.1, 10]
hydra:
  run:
    dir: ${run_dir}
""",
    "model/biencoder.yaml": "_target_: lightning_modules.biencoder.BiEncoder\n",
    "model/misspelt.yaml": "_target_: lightning_modules.biencoder.BiEncodr\n",
    "backbone/embedded.yaml": """\
path: encoders/embedded
revision: null
initialise: random
pooling: mean
normalise: null
max_length: 64
dropout: 0.1
learning_rate: 5.0e-4
""",
    "backbone/local.yaml": """\
path: ???
revision: null
initialise: pretrained
pooling: null
normalise: null
max_length: null
dropout: null
learning_rate: 2.0e-5
""",
    "loss/cosent.yaml": "_target_: juzhen.losses.cosent.CoSENT\ntemperature: 0.05\n",
    "loss/triplet.yaml": "_target_: juzhen.losses.triplet.Triplet\nmargin: 0.2\nreduction: mean\n",
    "loss/softmax.yaml": "_target_: juzhen.losses.softmax.Softmax\n",
    "loss/incomplete.yaml": "_target_: juzhen.losses.cosent.CoSENT\n",
    "loss/misplaced.yaml": "_target_: losses.cosnet.CoSENT\ntemperature: 0.05\n",
    "loss/by_kind.yaml": """\
scored_pair:
  _target_: juzhen.losses.cosent.CoSENT
  temperature: 0.05
triplet:
  _target_: juzhen.losses.triplet.Triplet
  margin: 0.2
""",
    "dataset/demo_sts.yaml": DATASET.format(
        name="demo_sts", kind="scored_pair", target="score", score_range="[0, 5]"
    ),
    "dataset/csts.yaml": DATASET.format(
        name="csts", kind="scored_pair", target="score", score_range="[0, 5]"
    ),
    "dataset/afqmc.yaml": DATASET.format(
        name="afqmc", kind="labelled_pair", target="label", score_range="null"
    ),
    "dataset/nli.yaml": DATASET.format(name="nli", kind="nli_pair", target="label", score_range="null"),
    "dataset/upside_down.yaml": DATASET.format(
        name="upside_down", kind="scored_pair", target="score", score_range="[5, 0]"
    ),
    "suite/demo.yaml": "# @package evaluate\ndefaults:\n  - /dataset@demo_sts: demo_sts\n",
    "suite/zh_matching.yaml": """\
# @package evaluate
defaults:
  - /dataset@csts: csts
  - /dataset@afqmc: afqmc
""",
    "schedule/mix.yaml": SCHEDULE.format(name="mix"),
    "schedule/serial.yaml": SCHEDULE.format(name="serial"),
    "hardware/cpu.yaml": HARDWARE.format(accelerator="cpu"),
    "hardware/cuda.yaml": HARDWARE.format(accelerator="cuda"),
    "logger/default.yaml": """\
progress: true
every_steps: 10
csv: true
wandb: auto
project: juzhen
entity: null
group: null
tags: []
""",
    "debug/fast.yaml": "# @package _global_\ntraining:\n  duration: 3 steps\n",
    "experiment/good.yaml": """\
# @package _global_
defaults:
  - override /loss: triplet
training:
  batch_size: 8
""",
    "experiment/typo.yaml": "# @package _global_\ntraining:\n  batchsize: 8\n",
    "experiment/wrong_loss.yaml": "# @package _global_\ndefaults:\n  - override /loss: cosnet\n",
    "experiment/twice.yaml": "# @package _global_\ndefaults:\n  - override /dataset: [nli, csts, nli]\n",
    "experiment/dangling.yaml": "# @package _global_\ninit_from: ${output_dirr}/first\n",
    "experiment/broken.yaml": "# @package _global_\ntraining: [\n",
    "sweep/losses.yaml": """\
# @package _global_
hydra:
  sweeper:
    params:
      loss: cosent,triplet
      seed: range(0,3)
""",
    "sweep/typo.yaml": """\
# @package _global_
hydra:
  sweeper:
    params:
      loss: cosent,tripelt
""",
}


MODULES = {
    "juzhen/losses/__init__.py": "",
    "juzhen/losses/cosent.py": """\
import heavy_library
from juzhen.losses.loss import Loss


class CoSENT(Loss):
    def __init__(self, *, temperature: float) -> None:
        super().__init__()
""",
    "juzhen/losses/triplet.py": """\
from typing import Literal

from juzhen.losses.loss import Loss


class Triplet(Loss):
    def __init__(self, *, margin: float, reduction: Literal["mean", "sum"] = "mean") -> None:
        super().__init__()
""",
    "juzhen/losses/softmax.py": """\
from juzhen.losses.loss import Loss


class Softmax(Loss):
    def __init__(self, dim: int, num_classes: int) -> None:
        super().__init__()
""",
    "juzhen/losses/loss.py": "from heavy_library import nn\n\n\nclass Loss(nn.Module):\n    has_head = False\n",
    "lightning_modules/base.py": """\
import heavy_library


class Base(heavy_library.LightningModule):
    def __init__(self, *, optimiser: object, seed: int) -> None:
        super().__init__()
""",
    "lightning_modules/biencoder.py": """\
from lightning_modules.base import Base


class BiEncoder(Base):
    def __init__(self, *, encoder: object, losses: dict, share: bool = True, **rest: object) -> None:
        super().__init__(**rest)
""",
}


def write_tree(folder: Path, files: dict[str, str]) -> Path:
    """Writes `path → text` below `folder` and gives the folder back."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder
