"""Two stages: an encoder finds candidates, a cross-encoder that reads query and document together puts them in order.

    python examples/rerank.py

The cross-encoder is trained here for less than a minute, so it shows the way and not what cross-encoders can do.
"""

import argparse
import sys

import numpy as np
import torch
import torch.nn.functional as F

from juzhen import CrossEncoder, SentenceEncoder, load_ranking
from juzhen.cli.program import run_program
from juzhen.core.errors import require_number
from juzhen.data.rankings import RankingSet


def train(reader: CrossEncoder, questions: RankingSet, *, steps: int, batch_size: int = 8) -> None:
    """Cross-entropy over a query's answer, a known wrong document, and two that are drawn."""
    optimizer = torch.optim.AdamW(reader.parameters(), lr=5e-4)
    draw = np.random.default_rng(0)
    torch.manual_seed(0)  # of dropout
    reader.train()
    for step in range(1, steps + 1):
        queries, documents = [], []
        for query in draw.choice(len(questions.queries), batch_size, replace=False):
            known = questions.irrelevant[query] if questions.irrelevant is not None else []
            wrong = [*known[:1], *draw.integers(len(questions.corpus), size=3)][:3]
            queries += [questions.queries[query]] * 4
            documents += [questions.corpus[one] for one in (next(iter(questions.relevant[query])), *wrong)]
        tokenize = reader.inner.tokenize
        logits = reader(reader.join(tokenize(queries), tokenize(documents))).view(batch_size, 4)
        loss = F.cross_entropy(logits, torch.zeros(batch_size, dtype=torch.long))  # the answer stands first
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(reader.parameters(), 1.0)
        optimizer.step()
        if step % 20 == 0:
            print(f"step {step:3d}  loss {loss.item():.3f}")
    reader.eval()


def reciprocal_rank(found: list[int], right: set[int]) -> float:
    return next((1 / place for place, one in enumerate(found, start=1) if one in right), 0.0)


def main() -> None:
    parser = argparse.ArgumentParser(description="Trains a reranker and measures both stages.")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--queries", type=int, default=50, help="how many queries are measured")
    options = parser.parse_args()
    require_number("--steps", options.steps, 1)
    require_number("--queries", options.queries, 1)

    encoder = SentenceEncoder.load("builtin/mini_zh")
    inner = SentenceEncoder.load("builtin/mini_zh")
    reader = CrossEncoder(inner, outputs=1, segments=True, symmetric=False, seed=0)
    train(reader, load_ranking("demo_retrieval", "train"), steps=options.steps)

    questions = load_ranking("demo_retrieval", "dev")
    embeddings = encoder.encode(questions.corpus)
    ranks: dict[str, list[float]] = {"encoder alone": [], "with reranker": []}
    for number, query in enumerate(questions.queries[: options.queries]):
        right = set(questions.relevant[number])
        found = [hit.corpus_id for hit in encoder.search(query, embeddings, top_k=11)]
        hits = [one for one in found if questions.corpus[one] != query]
        best = [hit.corpus_id for hit in reader.rank(query, questions.corpus, among=hits[:10])]
        ranks["encoder alone"].append(reciprocal_rank(hits[:10], right))
        ranks["with reranker"].append(reciprocal_rank(best, right))
    for name, values in ranks.items():
        print(f"{name}  MRR@10 {np.mean(values):.3f} over {len(values)} queries")


if __name__ == "__main__":
    sys.exit(run_program(main))
