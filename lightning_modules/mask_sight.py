"""Whether [MASK] can be learnt from: it must have stood for hidden tokens, and see the sentence around it."""

import torch

from conf.job import JobConfig
from juzhen.core.errors import UserError
from juzhen.encoders.layout import read_json, read_layout
from juzhen.encoders.locate import ENCODER_FOLDER, locate_folder
from juzhen.encoders.prompt_encoder import PromptEncoder
from juzhen.metrics.geometry import mean_cosine

SAME = 0.9999
"""Mean cosine of the states at [MASK] above which they are the same for all sentences, but for rounding."""

SENTENCES = (
    "今天天气很好。",
    "怎么修改绑定的手机号？",
    "两个孩子在公园里踢足球。",
    "The committee rejected the proposal on Monday.",
    "A man is playing the guitar.",
    "How do I reset my password?",
)
"""Sentences that no encoder should take for the same."""

WAY_OUT = (
    "Train it first: python train.py model=mlm 'dataset=[…]' …, then add init_from=<that run> here; or choose a "
    "pretrained backbone, such as backbone=bert_zh"
)


def start_of(job: JobConfig) -> str:
    """What the job's weights are from, as it was typed."""
    return job.init_from or job.backbone.path


def require_trained_mask(job: JobConfig) -> None:
    """Raises UserError for a start of which the job alone says that [MASK] is new to it. Loads no weights."""
    name = job.model["variant"]
    if _num_layers(job) == 0:
        raise UserError(
            f"model={name} reads a sentence at [MASK], and {start_of(job)} holds no layers, only token embeddings: new "
            f"layers change nothing at first, so that [MASK] cannot see the sentence. {WAY_OUT}"
        )
    is_random = job.init_from is None and job.backbone.initialise == "random"
    if is_random and not job.model.get("untrained_mask"):
        raise UserError(
            f"model={name} reads a sentence at [MASK], and with backbone.initialise=random [MASK] has learnt nothing. "
            f"{WAY_OUT}; to learn from random weights all the same: model.untrained_mask=true"
        )


def _num_layers(job: JobConfig) -> int | None:
    """Layers of the encoder that the job starts from; None where that is in no folder, or its file does not say."""
    if job.init_from is None and job.backbone.initialise == "random":
        return job.backbone.layers
    folder = locate_folder(start_of(job))
    if folder is None:
        return None
    folder = folder / ENCODER_FOLDER if (folder / ENCODER_FOLDER).is_dir() else folder
    path = read_layout(folder).transformer / "config.json"
    return read_json(path).get("num_hidden_layers") if path.is_file() else None


@torch.no_grad()
def require_sight(encoder: PromptEncoder, start: str) -> None:
    """Raises UserError where the state at [MASK], of the anchor's template, is the same whatever the sentence."""
    if encoder.prompts.read == "pooling":
        return
    was_training = encoder.training
    states = encoder.eval().stage_1(encoder.collate(encoder.tokenize(SENTENCES)))
    encoder.train(was_training)
    cosine = mean_cosine(states.numpy())
    if cosine > SAME:
        raise UserError(
            f"{start}: the state at [MASK] is the same whatever the sentence (mean cosine {cosine:.5f} of "
            f"{len(SENTENCES)} sentences), so there is nothing to learn from. {WAY_OUT}"
        )
