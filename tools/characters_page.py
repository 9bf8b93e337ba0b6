"""Encoders and the two Chinese scripts, as a page: python -m tools.characters_page [ENCODER …] --data-dir DATA

With encoders it computes their part of results/characters/scores.json anew, which needs OpenCC and the data sets.
Without them it writes the page alone, from that file.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from juzhen.cli.program import run_program
from juzhen.core.atomic_write import write_json, write_text
from juzhen.core.paths import ROOT
from juzhen.core.text import markdown_table

FOLDER = ROOT / "results" / "characters"
SETS = ("csts", "lcqmc", "bq", "afqmc", "xiaobu")
FORMS = {
    "traditional": "s2t",
    "Taiwan": "s2tw",
    "Hong Kong": "s2hk",
    "Taiwan, words": "s2twp",
}
"""Form of a text → the configuration of OpenCC that writes it."""


def measure(path: str, data_dir: str, rows: int) -> dict[str, Any]:
    """What an encoder makes of the first rows of each dev split, as they are and in other forms."""
    from opencc import OpenCC

    from juzhen.encoders.sentence_encoder import SentenceEncoder

    encoder = SentenceEncoder.load(path)
    forms = {name: OpenCC(config).convert for name, config in FORMS.items()}
    sets = {name: _measure_set(encoder, *_pairs(name, data_dir, rows), forms) for name in SETS}
    return {"rows": rows, "sets": sets}


def _pairs(name: str, data_dir: str, rows: int) -> tuple[list[str], list[str], np.ndarray]:
    from juzhen.data.source import load_named

    examples = load_named(name, "dev", data_dir=data_dir, on_bad_row="error")
    first = examples.select(np.arange(min(rows, len(examples))))
    one, other = list(first.columns)[:2]
    return first.texts(one), first.texts(other), np.asarray(first.targets)


def _measure_set(
    encoder: Any,
    first: Sequence[str],
    second: Sequence[str],
    targets: np.ndarray,
    forms: dict[str, Callable[[str], str]],
) -> dict[str, Any]:
    from juzhen.encoders.pooling import unit
    from juzhen.metrics.correlation import spearman

    texts = [*first, *second]
    ids = encoder.tokenize(texts)
    vectors = unit(encoder.encode(texts, show_progress=False))

    def correlation(values: np.ndarray) -> float:
        scores = np.einsum("rd,rd->r", values[: len(first)], values[len(first) :])
        return round(100 * float(spearman(scores, targets)), 2)

    unknown = encoder.tokenizer.unk_token_id
    found: dict[str, Any] = {
        "unknown": round(100 * float(np.mean([unknown in row for row in ids])), 2),
        "spearman": correlation(vectors),
    }
    for name, convert in forms.items():
        others = [convert(text) for text in texts]
        changed = [row for row, text in enumerate(texts) if others[row] != text]
        new = encoder.tokenize(others)
        written = unit(encoder.encode(others, show_progress=False))
        cosines = np.einsum("rd,rd->r", vectors, written)[changed]
        found[name] = {
            "changed": round(100 * len(changed) / len(texts), 2),
            "unknown": round(100 * float(np.mean([unknown in row for row in new])), 2),
            "equal": round(100 * float(np.mean([np.array_equal(ids[row], new[row]) for row in changed])), 2),
            "cosine": round(float(cosines.mean()), 4),
            "least_cosine": round(float(cosines.min()), 4),
            "spearman": correlation(written),
        }
    return found


MEASURES = {
    "texts changed %": ("changed", ".1f"),
    "unknown %": ("unknown", ".1f"),
    "equal tokens %": ("equal", ".1f"),
    "cosine": ("cosine", ".3f"),
    "least cosine": ("least_cosine", ".3f"),
    "Spearman": ("spearman", ".1f"),
}
"""Column of the page → what `measure` calls it, and its format."""


def page(measured: dict[str, dict[str, Any]]) -> str:
    """The page of results, from what `measure` found of each encoder."""
    parts = []
    for encoder, one in measured.items():
        body = []
        for name, found in one["sets"].items():
            for form in ("as it is", *FORMS):
                numbers = found.get(form, found)
                cells = [
                    f"{numbers[key]:{digits}}" if key in numbers else "" for key, digits in MEASURES.values()
                ]
                body.append(["" if form in FORMS else name, form, *cells])
        table = markdown_table(["set", "form", *MEASURES], body)
        parts.append(f"## {encoder}: {one['rows']:,} pairs of each set\n\n{table}")
    return f"{INTRODUCTION}\n" + "\n\n".join(parts) + "\n"


INTRODUCTION = """# Scripts and characters, measured

The first pairs of each dev split, and their conversion by OpenCC: traditional characters (s2t), those of Taiwan
and of Hong Kong (s2tw, s2hk), and Taiwan's own words (s2twp: 软件 → 軟體).

- Unknown: texts with an unknown piece.
- Equal tokens: of the changed texts, the share whose token numbers stay.
- Cosine: of a changed text with the original, the mean and the least.
- Spearman × 100: of cosine and label.

[What it means](../../docs/concepts/characters.md).

```bash
python -m tools.characters_page builtin/mini_zh@1 builtin/mini_zh@2 --data-dir data
python -m tools.characters_page e5_small_zh --data-dir data --rows 150
```
"""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "encoders", nargs="*", help="folders, or built-in encoders; none: write the page alone"
    )
    parser.add_argument("--data-dir", default="data")
    parser.add_argument("--rows", type=int, default=1000, help="pairs of each set")
    options = parser.parse_args(arguments)
    path = FOLDER / "scores.json"
    found = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    for encoder in options.encoders:
        name = encoder.removeprefix("builtin/").rpartition("/")[2]
        found[name] = measure(encoder, options.data_dir, options.rows)
        FOLDER.mkdir(parents=True, exist_ok=True)
        write_json(path, found, indent=1)
    write_text(FOLDER / "README.md", page(found))


if __name__ == "__main__":
    sys.exit(run_program(main))
