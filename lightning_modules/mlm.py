"""Masked language modelling: the encoder learns from text alone, by predicting hidden tokens."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from juzhen.core.batch import Batch, Tokens
from juzhen.core.examples import Examples, Kind
from juzhen.core.result import Score
from juzhen.data.convert import convert_rows
from juzhen.data.loading import TransferTask
from juzhen.encoders.collate import TextCollator
from juzhen.encoders.masking import MaskedTokenHead, Masking, Vocabulary
from juzhen.evaluation.encoding_plan import ALIKE, CosinePlan, EncodingPlan, Matcher
from juzhen.evaluation.scoring import Evaluation
from juzhen.losses.loss import LossOutput
from juzhen.metrics.classification import Features
from juzhen.metrics.ranking import COSINE_TEMPERATURE
from juzhen.models.mlm import MaskedLanguageModelSettings
from lightning_modules.biencoder import BiEncoder

EVALUATION_STEP = -1
"""Stands for the step wherever dev is masked: each validation hides the same tokens."""

HEAD_PIECE = 8192
"""Tokens that pass through the head at a time where no gradients are kept. A large vocabulary fills the memory."""


class MaskedPlan(EncodingPlan):
    """Plan of texts to unmask, together with the sets and tasks of the bi-encoder.

    Args:
        sets: Every set. Sets without comparisons are scored by `text_scores`, not by a cosine.
        tasks: Sets for which a classifier is trained on embeddings.
        trained: Names of the trained sets.
        sides: `sides` of the encoder, as in `CosinePlan`.

    Attributes:
        texts: Sets read as sentences: the trained sets, or all sets if none was trained.
    """

    temperature = COSINE_TEMPERATURE

    def __init__(
        self,
        sets: Sequence[Examples],
        tasks: Sequence[TransferTask] = (),
        *,
        trained: Sequence[str],
        sides: Int[np.ndarray, "sides"] = ALIKE,
    ) -> None:
        super().__init__(sets, tasks)
        self._pairs = CosinePlan(sets, tasks, sides=sides)
        chosen = [examples for examples in sets if examples.name in trained] or list(sets)
        self.texts = [convert_rows(examples, Kind.SENTENCE) for examples in chosen]
        sentences, of_pairs = list(self._pairs.examples.sentences), self._pairs.examples.sides
        self._first = len(sentences)
        # Targets: 0 for a sentence of a pair; for one that is guessed in, its number in its own set, from 1, so
        # that what is hidden depends on nothing else.
        targets = [np.zeros(self._first)]
        for texts in self.texts:
            sentences += texts.texts("text")
            targets.append(1.0 + np.arange(len(texts)))
        self.examples = Examples(
            "union",
            "evaluation",
            Kind.SENTENCE,
            sentences,
            {"text": np.arange(len(sentences), dtype=np.int32)},
            np.concatenate(targets).astype(np.float32),
            sides=None if of_pairs is None else np.pad(of_pairs, (0, len(sentences) - self._first)),
        )

    def scores(self, outputs: Float[np.ndarray, "sentences outputs"]) -> list[np.ndarray]:
        return self._pairs.scores(outputs[: self._first, 3:])

    def features(self, outputs: Float[np.ndarray, "sentences outputs"]) -> list[dict[str, Features]]:
        return self._pairs.features(outputs[: self._first, 3:])

    def matchers(self, outputs: np.ndarray) -> list[Matcher]:
        return self._pairs.matchers(outputs[: self._first, 3:])

    def text_scores(self, outputs: Float[np.ndarray, "sentences outputs"]) -> dict[str, Score]:
        """Compute loss and accuracy of each text set, over all its hidden tokens.

        Args:
            outputs: A row for each of `examples`: summed loss, correct tokens, hidden tokens, then the embedding.

        Returns:
            `split/dataset/metric` → score of mlm_loss or mlm_accuracy. It has no value if no token was hidden.
        """
        scores, first = {}, self._first
        for examples in self.texts:
            loss, right, count = outputs[first : first + len(examples), :3].astype(np.float64).sum(axis=0)
            first += len(examples)
            values = {"mlm_loss": loss, "mlm_accuracy": right}
            scores |= {
                f"{examples.split}/{examples.name}/{name}": Score(
                    value / count if count else None,
                    count=int(count),
                    why=None if count else "no token was hidden",
                )
                for name, value in values.items()
            }
        return scores


class MaskedLanguageModel(BiEncoder):
    """Cross entropy of hidden tokens (Devlin et al. 2019, https://arxiv.org/abs/1810.04805, section 3.1).

    Only hidden tokens pass through the head. Any set can be used. A set of pairs contributes its sentences.
    Evaluation scores pairs by the cosine of embeddings, which measures the encoder without similarity
    training. Hyperparameters are those of juzhen.encoders.masking.Masking.

    The head belongs to the architecture. It is pretrained if the backbone's folder holds it. Checkpoints
    contain it. The saved encoder of a run does not.
    """

    Settings = MaskedLanguageModelSettings

    def __init__(self, **shared: Any) -> None:
        super().__init__(**shared)
        settings = self.settings(self.job)
        self.masking = Masking(
            settings.mask_rate,
            settings.strategy,
            settings.mean_span,
            settings.mask_share,
            settings.random_share,
        )
        size = self.encoder.backbone.get_input_embeddings().num_embeddings
        self.vocabulary = Vocabulary.of(self.encoder.tokenizer, size=size, prompt=self.encoder.prompt)
        self.head = MaskedTokenHead(self.encoder.backbone)
        for parameter in self.encoder.projections.parameters():
            parameter.requires_grad_(False)  # no token passes there, and DDP waits for every gradient
        self.collate = TextCollator(self.encoder.tokenize, self.encoder.collate, sides=self.tokenize)

    def objective(self, batch: Batch) -> LossOutput:
        """Compute the mean loss per hidden token, over all processes.

        Args:
            batch: Rows of sentences. Which tokens are hidden depends on the seed, the step and the sentences.

        Returns:
            The scalar to minimise, and `mlm_accuracy`. The loss is 0 if no token is hidden.
        """
        seen, hidden = self._masked(batch.tokens, batch.sentence_ids, step=self._batch_index)
        states = self.encoder.token_states(seen)[hidden]
        logits = self.head(states).float()
        targets = batch.tokens.input_ids[hidden]
        loss = F.cross_entropy(logits, targets, reduction="sum")
        right = (logits.detach().argmax(-1) == targets).sum()
        sums = torch.stack([loss.detach(), right.float(), torch.full_like(loss, len(hidden))])
        world = self.trainer.world_size if self._trainer is not None else 1
        if world > 1:
            # Processes may have hidden different numbers of tokens, and DDP takes the mean of their gradients.
            sums, loss = self.all_gather(sums).sum(dim=0), loss * world
        # With nothing hidden, which happens in tiny batches, the loss is 0 and so are its gradients.
        mean_loss, accuracy, _ = sums / sums[2].clamp(min=1)
        loss = loss / sums[2].clamp(min=1)
        return loss - loss.detach() + mean_loss, {"mlm_accuracy": accuracy}

    def output(self, batch: Batch) -> Float[Tensor, "batch outputs"]:
        """Encode the rows of a `MaskedPlan`, and predict the hidden tokens of its texts.

        Args:
            batch: Rows of the plan. A target above 0 marks a text with hidden tokens.

        Returns:
            (batch, 3 + dim): summed loss, correctly predicted tokens, hidden tokens. Then the embedding.
        """
        rows = batch.columns["text"]
        in_text = torch.zeros(len(batch.sentence_ids), device=rows.device)
        in_text[rows] = batch.tensors["targets"]
        seen, hidden = self._masked(batch.tokens, in_text.long(), step=EVALUATION_STEP, where=in_text > 0)
        states, embeddings = self.encoder.states_and_embeddings(seen)
        losses, right = self._guessed(states[hidden], batch.tokens.input_ids[hidden])
        sentences = batch.tokens.sentence_of_token[hidden]
        sums = torch.zeros(len(batch.tokens), 3, device=rows.device)
        sums.index_add_(0, sentences, torch.stack([losses, right, torch.ones_like(right)], dim=1))
        return torch.cat([sums[batch.tokens.inverse_permutation], embeddings.float()], dim=1)[rows]

    def _guessed(
        self, states: Tensor, targets: Tensor
    ) -> tuple[Float[Tensor, "some"], Float[Tensor, "some"]]:
        """Return the loss of each hidden token, and 1.0 if the likeliest token is correct."""
        losses, right = [], []
        for piece, piece_targets in zip(states.split(HEAD_PIECE), targets.split(HEAD_PIECE), strict=True):
            logits = self.head(piece).float()
            losses.append(F.cross_entropy(logits, piece_targets, reduction="none"))
            right.append((logits.argmax(-1) == piece_targets).float())
        return torch.cat(losses), torch.cat(right)

    def _masked(
        self, tokens: Tokens, numbers: Tensor, *, step: int, where: Bool[Tensor, "sentences"] | None = None
    ) -> tuple[Tokens, Int[Tensor, "hidden"]]:
        """Mask tokens for the encoder, and return the hidden positions. `where` limits them."""
        self.vocabulary = self.vocabulary.to(numbers.device)
        seen, hidden = self.masking(tokens, numbers, self.vocabulary, seed=self.job.seed, step=step)
        if where is not None:
            packed = torch.empty_like(where)
            packed[tokens.inverse_permutation] = where
            hidden &= packed[tokens.sentence_of_token]
            seen = torch.where(hidden, seen, tokens.input_ids)
        # How many there are is the one number that a step asks a GPU for.
        return replace(tokens, input_ids=seen), hidden.nonzero().squeeze(1)

    def plan(self, sets: Sequence[Examples], tasks: Sequence[TransferTask] = ()) -> MaskedPlan:
        return MaskedPlan(sets, tasks, trained=list(self.job.dataset), sides=self.encoder.sides)

    def measured(self, plan: MaskedPlan, outputs: np.ndarray, **options: Any) -> Evaluation:
        evaluation = super().measured(plan, outputs, **options)
        return replace(evaluation, scores=plan.text_scores(outputs) | evaluation.scores)
