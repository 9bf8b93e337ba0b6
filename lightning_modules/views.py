"""Bi-encoders that learn from text alone: a sentence and a changed form of it, or two pieces of a text, are a pair."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch.nn.functional as F

from conf.job import JobConfig
from juzhen.core.batch import Batch
from juzhen.core.errors import UserError, require_number
from juzhen.encoders.crops import CropCollator, Crops
from juzhen.encoders.masking import MaskedTokenHead, Masking
from juzhen.encoders.text_collate import ViewCollator
from juzhen.encoders.views import Views
from juzhen.encoders.views_text import TextViews
from juzhen.losses.loss import LossOutput
from juzhen.models.views import CropEncoderSettings, ViewEncoderSettings
from lightning_modules.biencoder import BiEncoder, changes_of
from lightning_modules.chosen_losses import Match
from lightning_modules.mlm import vocabulary_of


class ViewEncoder(BiEncoder):
    """A sentence shall find its changed form among those of other sentences.

    Numbers are those of `Views`. Any set can be learnt from: of pairs, their sentences are. Both forms
    are encoded apart, each with a dropout mask of its own: without any views this is unsupervised SimCSE (Gao et al.
    2021, https://arxiv.org/abs/2104.08821). Evaluation is that of the bi-encoder: sentences as they are.
    """

    Settings = ViewEncoderSettings

    def __init__(self, **shared: Any) -> None:
        super().__init__(**shared)
        chosen, encoder = Views.of(self.job.model), self.encoder
        self.collate = ViewCollator(
            self.tokenize,
            encoder.collate,
            changes=changes_of(chosen, encoder),
            changes_anchor=self.settings(self.job).changes_anchor,
            seed=self.job.seed,
            sides=self.tokenize,
        )

    @classmethod
    def check(cls, job: JobConfig, matches: Mapping[str, Match]) -> None:
        super().check(job, matches)
        TextViews(Views.of(job.model))  # a file of translations is read here, before any data


class CropEncoder(BiEncoder):
    """Pieces of one text are anchor and positive (Izacard et al. 2022, https://arxiv.org/abs/2112.09118, section 3.1).

    Numbers are those of juzhen.encoders.crops.Crops. Any set can be learnt from: of pairs, their sentences are. With an
    `mlm_weight` above 0, tokens of the pieces are hidden, and their names are learnt in the same pass (Gao and Callan
    2022, https://arxiv.org/abs/2108.05540, section 3.2): loss + mlm_weight · mean loss per hidden token of the process.
    Evaluation is that of the bi-encoder: whole sentences.
    """

    Settings = CropEncoderSettings

    def __init__(self, **shared: Any) -> None:
        super().__init__(**shared)
        settings, encoder = self.settings(self.job), self.encoder
        self.mlm_weight = settings.mlm_weight
        reads = {"tokenizer": encoder.tokenizer, "prompt": encoder.prompt}
        crops = Crops(
            tuple(settings.shares), delete=settings.delete, neighbour_share=settings.neighbour_share, **reads
        )
        options = {"crops": crops, "seed": self.job.seed, "sides": self.tokenize}
        self.collate = CropCollator(encoder.tokenize, encoder.collate, **options)
        require_number("model.mlm_weight", settings.mlm_weight, 0)
        if settings.mlm_weight and self.job.hardware.micro_batch_tokens is not None:
            raise UserError(
                "model.mlm_weight learns both from one pass; leave hardware.micro_batch_tokens at null, "
                "or mlm_weight at 0"
            )
        if settings.mlm_weight:
            self.masking = Masking(
                settings.mask_rate, "token", mean_span=1.0, mask_share=0.8, random_share=0.1
            )
            self.vocabulary = vocabulary_of(encoder)
            self.head = MaskedTokenHead(encoder.backbone)

    def objective(self, batch: Batch) -> LossOutput:
        if not self.mlm_weight:
            return super().objective(batch)
        tokens = batch.tokens
        self.vocabulary = self.vocabulary.to(tokens.input_ids.device)
        position = {"seed": self.job.seed, "step": self._batch_index}
        seen, hidden = self.masking(tokens, batch.sentence_ids, self.vocabulary, **position)
        states, embeddings = self.encoder.states_and_embeddings(replace(tokens, input_ids=seen))
        loss, logs = self.loss_of(batch, self.encoded(batch, embeddings))
        logits, names = self.head(states[hidden]).float(), tokens.input_ids[hidden]
        # A tiny batch may have nothing hidden: a sum of nothing is 0, and so are its gradients.
        named = F.cross_entropy(logits, names, reduction="sum") / max(len(names), 1)
        accuracy = (logits.detach().argmax(-1) == names).float().sum() / max(len(names), 1)
        logs = logs | {"contrast": loss.detach(), "mlm_loss": named.detach(), "mlm_accuracy": accuracy}
        return loss + self.mlm_weight * named, logs
