"""A small configuration tree with one of everything that the real one uses, for a test's own folder."""

from pathlib import Path

DATASET = """\
# @package dataset.{name}
name: {name}
kind: {kind}
language: zh
about: a set for tests
license: none
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
weigh_loss: false
store: null
"""

FILES = {
    "train.yaml": """\
defaults:
  - model: biencoder
  - backbone: random_small
  - loss: cosent
  - dataset: [demo_sts]
  - schedule: mix
  - benchmark: demo
  - hardware: cpu
  - callbacks: default
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
callbacks: {}
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
optimizer:
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
hydra:
  run:
    dir: ${run_dir}
""",
    "model/biencoder.yaml": "_target_: lightning_modules.biencoder.BiEncoder\nname: biencoder\n",
    "model/misspelt.yaml": "_target_: lightning_modules.biencoder.BiEncodr\nname: misspelt\n",
    "callbacks/default.yaml": "defaults: [loss_gradient, space_health]\n",
    "callbacks/loss_gradient.yaml": """\
# @package callbacks.loss_gradient
_target_: callbacks.health.LossGradient
decides_weights: false
low: 0.1
high: 10
""",
    "callbacks/space_health.yaml": """\
# @package callbacks.space_health
_target_: callbacks.health.SpaceHealth
decides_weights: false
probe_sentences: 8
collapse_cosine: 0.9
collapse_rank: 2.0
on_collapse: warn
""",
    "callbacks/unmarked.yaml": """\
# @package callbacks.unmarked
_target_: callbacks.trainer.Throughput
""",
    "backbone/random_small.yaml": """\
path: encoders/random_small
revision: null
initialize: random
pooling: mean
normalize: null
max_length: 64
dropout: 0.1
learning_rate: 5.0e-4
""",
    "backbone/local.yaml": """\
path: ???
revision: null
initialize: pretrained
pooling: null
normalize: null
max_length: null
dropout: null
learning_rate: 2.0e-5
""",
    "loss/cosent.yaml": "_target_: juzhen.losses.pairwise_ranking.CoSENT\nname: cosent\ntemperature: 0.05\n",
    "loss/triplet.yaml": "_target_: juzhen.losses.triplets.TripletMargin\nname: triplet\n"
    "margin: 0.2\ndistance: cosine\n",
    "loss/softmax.yaml": "_target_: juzhen.losses.classes.SoftmaxClassifier\nname: softmax\n"
    "use_difference: true\nuse_product: false\n",
    "loss/incomplete.yaml": "_target_: juzhen.losses.pairwise_ranking.CoSENT\nname: incomplete\n",
    "loss/nameless.yaml": "_target_: juzhen.losses.pairwise_ranking.CoSENT\ntemperature: 0.05\n",
    "loss/misplaced.yaml": "_target_: juzhen.losses.oder.CoSENT\nname: misplaced\ntemperature: 0.05\n",
    "loss/by_kind.yaml": """\
scored_pair:
  _target_: juzhen.losses.pairwise_ranking.CoSENT
  name: cosent
  temperature: 0.05
triplet:
  _target_: juzhen.losses.triplets.TripletMargin
  name: triplet
  margin: 0.2
  distance: cosine
""",
    **{
        f"dataset/{name}.yaml": DATASET.format(name=name, kind=kind, target=target, score_range=score_range)
        for name, kind, target, score_range in (
            ("demo_sts", "scored_pair", "score", "[0, 5]"),
            ("csts", "scored_pair", "score", "[0, 5]"),
            ("afqmc", "labelled_pair", "label", "null"),
            ("nli", "nli_pair", "label", "null"),
            ("upside_down", "scored_pair", "score", "[5, 0]"),
        )
    },
    "benchmark/demo.yaml": "# @package evaluate\ndefaults:\n  - /dataset@demo_sts: demo_sts\n",
    "benchmark/zh_matching.yaml": """\
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


def write_tree(folder: Path, files: dict[str, str]) -> Path:
    """Writes `path → text` below `folder` and gives the folder back."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder
