"""Train a sentence encoder from Python: rows, a loss, `juzhen.fit`. No configuration, no trainer.

python examples/train_encoder.py
"""

import argparse
import sys
from pathlib import Path

from juzhen import SentenceEncoder, fit
from juzhen.cli.program import run_program
from juzhen.data.rows import as_examples
from juzhen.encoders import save_encoder
from juzhen.evaluation import evaluate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=float, default=0.4)
    parser.add_argument(
        "--out", type=Path, default=Path("trained_encoder"), help="where the encoder is saved"
    )
    options = parser.parse_args()

    encoder = SentenceEncoder.load("builtin/mini_zh")
    rows, dev = as_examples("demo_sts"), as_examples("demo_sts", split="dev")
    key = "dev/demo_sts/spearman"
    before = evaluate(encoder, [dev]).scores[key]
    fit(encoder, rows, loss="cosent", epochs=options.epochs, batch_size=32, learning_rate=5e-4)
    after = evaluate(encoder, [dev]).scores[key]
    for name, score in (("before", before), ("after", after)):
        print(f"{name:6s}  {key} {score.value:.3f} [{score.low:.3f}, {score.high:.3f}]")
    save_encoder(encoder, options.out, card={"name": "demo", "trained on": "demo_sts"})
    print(f"saved to {options.out}: SentenceEncoder.load({str(options.out)!r}) reads it")


if __name__ == "__main__":
    sys.exit(run_program(main))
