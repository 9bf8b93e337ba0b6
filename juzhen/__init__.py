"""Sentence embeddings for Chinese and English: encoders, losses, data, measures.

What is named here is loaded, and torch with it, when it is first asked for.
"""

import logging
from typing import TYPE_CHECKING

from juzhen.core.lazy import lazily

if TYPE_CHECKING:
    from juzhen.data.loading import load_ranking
    from juzhen.data.search_tables import read_search
    from juzhen.encoders.cross_encoder import CrossEncoder
    from juzhen.encoders.generative_reranker import GenerativeReranker
    from juzhen.encoders.multi_vector import MultiVectorEncoder
    from juzhen.encoders.quantized import quantize
    from juzhen.encoders.query_document import QueryDocumentEncoder
    from juzhen.encoders.sentence_encoder import PromptEncoder, SentenceEncoder
    from juzhen.encoders.sparse import SparseEncoder
    from juzhen.encoders.spec import AdapterConfig
    from juzhen.evaluation.run import evaluate
    from juzhen.evaluation.space import space
    from juzhen.merging.merge import merge
    from juzhen.mining.groups import clusters, communities, paraphrases
    from juzhen.mining.negatives import mine
    from juzhen.mining.options import MiningOptions
    from juzhen.training.fit import fit

__all__ = [
    "AdapterConfig",
    "CrossEncoder",
    "GenerativeReranker",
    "MiningOptions",
    "MultiVectorEncoder",
    "PromptEncoder",
    "QueryDocumentEncoder",
    "SentenceEncoder",
    "SparseEncoder",
    "clusters",
    "communities",
    "evaluate",
    "fit",
    "load_ranking",
    "merge",
    "mine",
    "paraphrases",
    "quantize",
    "read_search",
    "space",
]

HOMES = {
    "AdapterConfig": "encoders.spec",
    "CrossEncoder": "encoders.cross_encoder",
    "GenerativeReranker": "encoders.generative_reranker",
    "MiningOptions": "mining.options",
    "MultiVectorEncoder": "encoders.multi_vector",
    "PromptEncoder": "encoders.sentence_encoder",
    "QueryDocumentEncoder": "encoders.query_document",
    "SentenceEncoder": "encoders.sentence_encoder",
    "SparseEncoder": "encoders.sparse",
    "clusters": "mining.groups",
    "communities": "mining.groups",
    "evaluate": "evaluation.run",
    "fit": "training.fit",
    "load_ranking": "data.loading",
    "merge": "merging.merge",
    "mine": "mining.negatives",
    "paraphrases": "mining.groups",
    "read_search": "data.search_tables",
    "space": "evaluation.space",
    "quantize": "encoders.quantized",
}
"""Name → the module of this package that defines it."""

__getattr__ = lazily(__name__, HOMES)

# transformers loads torchao where it is installed, which tells each process of kernels that are not used here.
for _name in ("torchao", "torch.utils._pytree"):
    if not (_logger := logging.getLogger(_name)).level:
        _logger.setLevel(logging.ERROR)


def __dir__() -> list[str]:
    return __all__
