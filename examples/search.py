"""Semantic search: encode a corpus once, keep the embeddings, look for what means the same.

python examples/search.py
python examples/search.py "怎么请年假" --top 3
"""

import argparse
import sys

from juzhen import SentenceEncoder, load_ranking
from juzhen.cli.program import run_program
from juzhen.core.errors import require_number
from juzhen.encoders.embedding_cache import EmbeddingCache


def main() -> None:
    parser = argparse.ArgumentParser(description="Looks through the questions of demo_retrieval.")
    parser.add_argument("query", nargs="?", default="手机不想要了，可以退货吗")
    parser.add_argument("--top", type=int, default=5)
    parser.add_argument("--cache", default=".cache", help="where embeddings are kept")
    options = parser.parse_args()
    require_number("--top", options.top, 1)

    corpus = load_ranking("demo_retrieval", "test").corpus  # any list of texts will do
    encoder = SentenceEncoder.load("builtin/mini_zh")
    # Kept by the weights and the text: a second search encodes only the query, another encoder its own embeddings.
    embeddings = encoder.encode(corpus, cache=EmbeddingCache(options.cache))
    print(f"{options.query}  (among {len(corpus)} questions)")
    for hit in encoder.search(options.query, embeddings, top_k=options.top):
        print(f"  {hit.score:.3f}  {corpus[hit.corpus_id]}")


if __name__ == "__main__":
    sys.exit(run_program(main))
