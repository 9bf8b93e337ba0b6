"""Check that an embedding does not depend on the batch: it equals that of transformers for the text alone."""

import inspect
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from juzhen.core.errors import UserError
from juzhen.encoders.backbone import evaluating, is_proved, without_cache
from juzhen.encoders.folder_settings import ANOTHER, naming
from juzhen.encoders.pooled_encoder import PooledEncoder
from juzhen.encoders.pooling import POOLINGS

TEXTS = (
    "我",
    "今天天气很好",
    "A dog.",
    "Two dogs run through the tall grass near a river, and a third one sleeps.",
)

MOST_DIFFERENCE = 1e-4
"""Largest relative difference of the states of a token. Rounding is a hundredth of it."""


@torch.no_grad()
def layers_alone(encoder: PooledEncoder, text: str) -> tuple[Float[Tensor, "tokens dim"], ...]:
    """States of one text as computed by transformers from the outputs of the tokenizer.

    Args:
        encoder: The encoder. Its prompt is put before the text.
        text: Text that is truncated at `max_length`.

    Returns:
        The last layer, preceded by the first one if the pooling reads it.
    """
    inputs = encoder.tokenizer(
        encoder.prompted([text]), truncation=True, max_length=encoder.max_length, return_tensors="pt"
    )
    taken = inspect.signature(encoder.backbone.forward).parameters
    needs_first = POOLINGS[encoder.pooling].reads_first_layer
    options = {"output_hidden_states": needs_first} | without_cache(encoder.backbone)
    output = encoder.backbone(**{name: values for name, values in inputs.items() if name in taken}, **options)
    last = output.last_hidden_state[0]
    return (output.hidden_states[1][0], last) if needs_first and len(output.hidden_states) > 2 else (last,)


@torch.no_grad()
def embedding_alone(encoder: PooledEncoder, text: str) -> Float[Tensor, "dim"]:
    """Embedding pooled from the states of `layers_alone`.

    Args:
        encoder: The encoder. Its prompt is put before the text.
        text: Text that is truncated at `max_length`.

    Returns:
        The embedding, computed without other texts in the batch.
    """
    tokens = encoder.collate(encoder.tokenize([text]))
    return encoder.pooled(layers_alone(encoder, text), tokens)[0]


@torch.no_grad()
def _states_together(encoder: PooledEncoder, texts: Sequence[str]) -> list[Float[Tensor, "tokens dim"]]:
    """Last states of each text, computed in one batch."""
    tokens = encoder.collate(encoder.tokenize(texts))
    states = encoder.token_states(tokens).split(tokens.lengths.tolist())
    return [states[number] for number in tokens.inverse_permutation.tolist()]


def check_batch_invariance(encoder: PooledEncoder) -> None:
    """Check that states of a text do not depend on the batch. Architectures covered by tests are skipped.

    Args:
        encoder: The encoder.

    Raises:
        UserError: The states differ, are not finite, or the architecture does not read plain text.
    """
    config = encoder.backbone.config
    if is_proved(config):
        return
    family = config.model_type
    if getattr(config, "attention_type", None) == "block_sparse":
        raise UserError(
            f"{family}: its sparse attention depends on the longest text of a batch. Set "
            '"attention_type": "original_full" in config.json, or choose another encoder'
        )
    with (
        evaluating(encoder),
        naming(f"{family}: this architecture does not read texts as an encoder of sentences does", ANOTHER),
        torch.random.fork_rng(devices=[]),
    ):
        texts = [text for text in TEXTS if encoder.tokenizer(text)["input_ids"]]  # some know no 我
        alone = [layers_alone(encoder, text)[-1] for text in texts]
        if {values.shape[1:] for values in alone} != {(config.hidden_size,)}:
            raise UserError(
                f"{family}: its states do not have the {config.hidden_size} numbers of its config.json"
            )
        pairs = zip(_states_together(encoder, texts), alone, strict=True)
        tiny = torch.finfo(torch.float32).tiny
        apart = torch.stack([((a - b).norm(dim=-1) / b.norm(dim=-1).clamp(min=tiny)).max() for a, b in pairs])
    if not apart.isfinite().all():
        raise UserError(f"{family}: its states hold NaN or infinity. Replace the weights.")
    if apart.max() > MOST_DIFFERENCE:
        raise UserError(
            f"{family}: a text gets other vectors in a batch with longer texts (difference "
            f"{apart.max():.2g} of their length). Choose another encoder"
        )


@torch.no_grad()
def layers_that_add_up(encoder: PooledEncoder) -> int | None:
    """Number of layers whose last states equal `last_hidden_state`. None if they differ.

    Some models normalize their last states once more.

    Args:
        encoder: The encoder.

    Returns:
        Number of layers above the token table, or None.
    """
    with evaluating(encoder):
        ids = torch.tensor([encoder.tokenizer(TEXTS[-1])["input_ids"][: encoder.max_length]])
        output = encoder.backbone(input_ids=ids.to(encoder.device), output_hidden_states=True)
    states = output.hidden_states
    return len(states) - 1 if torch.equal(states[-1], output.last_hidden_state) else None
