"""Train a sentence encoder from Python: rows, a loss, an optimizer and a plain loop. No configuration, no trainer.

python examples/train_encoder.py
"""

import argparse
from pathlib import Path

import torch

from juzhen import SentenceEncoder
from juzhen.core.examples import Examples
from juzhen.data.configured import configured_set
from juzhen.data.source import load_examples
from juzhen.encoders import save_encoder
from juzhen.evaluation import evaluate
from juzhen.losses import CoSENT


def rows_of(name: str, split: str) -> Examples:
    """The rows of a set of conf/dataset; its texts are stored once, and its columns are numbers into them."""
    rows = load_examples(
        configured_set(name), split, source="local", data_dir="data", on_bad_row="error", required=True
    )
    assert rows is not None
    return rows


def train(
    encoder: SentenceEncoder, rows: Examples, *, steps: int, batch_size: int = 32, seed: int = 0
) -> None:
    """CoSENT over the cosines of pairs; batches are drawn at random."""
    loss_of = CoSENT()
    optimizer = torch.optim.AdamW(encoder.parameters(), lr=5e-4)
    tokens = encoder.tokenize(rows.sentences)
    first, second = (torch.from_numpy(rows.columns[name]).long() for name in ("text_a", "text_b"))
    grades = torch.from_numpy(rows.targets)
    torch.manual_seed(seed)  # of the batches and of dropout
    encoder.train()
    for step in range(1, steps + 1):
        batch = torch.randperm(len(rows))[:batch_size]
        texts = torch.cat([first[batch], second[batch]])
        left, right = encoder(encoder.collate(tokens[texts.numpy()])).chunk(2)
        loss = loss_of(torch.cosine_similarity(left, right), grades[batch])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(encoder.parameters(), 1.0)
        optimizer.step()
        if step % 10 == 0:
            print(f"step {step:3d}  loss {loss.item():.3f}")
    encoder.eval()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument(
        "--out", type=Path, default=Path("trained_encoder"), help="where the encoder is saved"
    )
    options = parser.parse_args()

    encoder = SentenceEncoder.load("builtin/mini_zh")
    key = "dev/demo_sts/spearman"
    dev = rows_of("demo_sts", "dev")
    before = evaluate(encoder, [dev]).scores[key]
    train(encoder, rows_of("demo_sts", "train"), steps=options.steps)
    after = evaluate(encoder, [dev]).scores[key]
    for name, score in (("before", before), ("after", after)):
        print(f"{name:6s}  {key} {score.value:.3f} [{score.low:.3f}, {score.high:.3f}]")
    save_encoder(encoder, options.out, card={"name": "demo", "trained on": "demo_sts"})
    print(f"saved to {options.out}: SentenceEncoder.load({str(options.out)!r}) reads it")


if __name__ == "__main__":
    main()
