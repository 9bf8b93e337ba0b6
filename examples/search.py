"""Semantic search: encode a corpus once, keep the embeddings, look for what means the same.

python examples/search.py
python examples/search.py "怎么请年假" --top 3
"""

import argparse
from pathlib import Path

import numpy as np

from juzhen import SentenceEncoder, load_ranking


def main() -> None:
    parser = argparse.ArgumentParser(description="Looks through the questions of demo_retrieval.")
    parser.add_argument("query", nargs="?", default="手机不想要了，可以退货吗")
    parser.add_argument("--top", type=int, default=5)
    parser.add_argument("--kept", type=Path, default=Path("corpus.npy"), help="where the embeddings are kept")
    options = parser.parse_args()

    corpus = load_ranking("demo_retrieval", "test").corpus  # any list of texts will do
    encoder = SentenceEncoder.load("builtin/mini_zh")
    if not options.kept.exists():
        np.save(options.kept, encoder.encode(corpus))
    embeddings = np.load(options.kept)
    print(f"{options.query}  (among {len(corpus)} questions)")
    for hit in encoder.search(options.query, embeddings, top_k=options.top):
        print(f"  {hit.score:.3f}  {corpus[hit.document]}")


if __name__ == "__main__":
    main()
