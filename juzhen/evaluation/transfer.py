"""Transfer tasks: what a classifier gets out of the embeddings of a finished encoder, which is not changed."""

from collections.abc import Mapping

import numpy as np

from juzhen.core.errors import UserError
from juzhen.core.examples import CLASSIFIED_KINDS, Examples, too_few
from juzhen.data.loading import cut
from juzhen.data.probe import TransferTask
from juzhen.encoders import SentenceEncoder
from juzhen.metrics.transfer import Features, TransferScore, classify, combined


def transfer(
    encoder: SentenceEncoder,
    splits: Mapping[str, Examples | None],
    *,
    batch_tokens: int,
    seed: int,
    limit: int | None,
) -> TransferScore:
    """What `juzhen.metrics.transfer.classify` makes of the embeddings.

    splits  train, dev and test; None where there is no file
    limit   at most this many rows of each split, drawn with the seed
    """
    given_splits = {
        name: cut(examples, limit, seed) for name, examples in splits.items() if examples is not None
    }
    if not given_splits:
        raise UserError("no split has a file; type --data-dir <folder that holds the data sets>")
    task = TransferTask(next(iter(given_splits.values())).name, given_splits)
    if task.kind not in CLASSIFIED_KINDS:
        raise UserError(
            f"{task.name}: its rows are {task.kind}s; transfer needs 0/1 pairs or NLI pairs, such as mrpc, qqp or "
            "snli, or texts with a class, such as tnews"
        )
    labels = task.labels
    if why := too_few(labels):
        raise UserError(f"{task.name}: {why}. Give rows of two classes or more")
    data = {
        name: (_features(encoder, examples, batch_tokens), labels[name])
        for name, examples in given_splits.items()
    }
    return classify(data, seed=seed)


def _features(encoder: SentenceEncoder, examples: Examples, batch_tokens: int) -> Features:
    texts = [text for column in examples.columns for text in examples.texts(column)]
    embeddings = encoder.encode(texts, batch_tokens=batch_tokens)
    return combined(np.split(embeddings, len(examples.columns)), examples.kind)
