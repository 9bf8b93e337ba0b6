"""Reports as files, as Markdown too: one table per question, row: trained on, column: evaluated on."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from juzhen.core.markup import in_markdown
from juzhen.core.owned import require_ours
from juzhen.core.whole import write_text

EMPTY = "·"

Cell = dict[str, Any]
"""What a training set and an evaluation split share."""


def pairs_markdown(report: dict[str, Any]) -> str:
    """The tables of `audit_pairs`."""
    threshold = report["near_threshold"]
    return "\n\n".join(
        [
            "# Leaks between training sets and evaluation splits",
            "Row: trained on, column: evaluated on. Numbers are evaluation rows, and their share of the split. "
            f"{EMPTY} is none, – means that one of the two has no pairs, or that labels mean different things. "
            "Compared after NFKC, lower case and folding white space. Sets without any leak are left out of a table.",
            "## The same pair, in either order",
            _matrix(report, lambda cell: cell["exact_pairs"]),
            f"## The same pair, or both sentences near duplicates (Jaccard of character trigrams ≥ {threshold:g})",
            _matrix(report, _exact_or_near),
            "## One of the sentences at least",
            _matrix(report, lambda cell: cell["exact_sentences"]),
            "## The same pair with another label",
            _matrix(report, lambda cell: cell["other_label"]),
            "## Training rows that a filtered run leaves out",
            _matrix(
                report, lambda cell: cell["train_rows"], of=lambda cell: report["sets"][cell["train"]]["rows"]
            ),
            "## Within one set",
            _sets(report),
            f"Without a file, and so not looked at: {', '.join(report['absent']) or 'none'}.",
            *_examples(report),
        ]
    )


def text_markdown(report: dict[str, Any]) -> str:
    """The tables of `audit_text`."""
    texts = report["texts"]
    columns = [
        name for name in report["evaluation"] if any(name in text["by_evaluation"] for text in texts.values())
    ]
    summary = [
        [
            name,
            *(f"{text[key]:,}" for key in ("lines", "characters", "whole_lines", "leaky_lines")),
            _percent(text["leaky_lines"], text["lines"]) if text["leaky_lines"] else EMPTY,
        ]
        for name, text in texts.items()
    ]
    by_set = [
        [name, *(_lines_and_sentences(text["by_evaluation"].get(column)) for column in columns)]
        for name, text in texts.items()
        if text["by_evaluation"]
    ]
    quoted = [
        f"- {name}:{example['line']} {in_markdown(example['sentence'])}"
        for name, text in texts.items()
        for example in text.get("examples", ())
    ]
    return "\n\n".join(
        [
            "# Evaluation sentences in running text",
            "A line holds an evaluation sentence when it is nothing else, or when the sentence stands in it and has at "
            f"least {report['least_characters_inside_a_line']} characters (a Latin word or a number counts as two). "
            "Compared after NFKC, lower case and folding white space, without the punctuation around the sentence. "
            f"Looked for: {', '.join(report['evaluation'])}.",
            _table(["text", "lines", "characters", "nothing else", "leaky lines", "share"], summary),
            "## Lines (distinct sentences) by evaluation split",
            _table(["text", *columns], by_set) if by_set else "None.",
            *(["## Examples", "\n".join(quoted)] if quoted else []),
        ]
    )


def write_report(report: dict[str, Any], markdown: str, folder: Path, name: str) -> list[Path]:
    """Writes <name>.json and <name>.md into the folder and gives their paths."""
    texts = {f"{name}.json": json_text(report), f"{name}.md": markdown + "\n"}
    require_ours(*(folder / file for file in texts))
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in texts.items():
        write_text(folder / file, text)
    return [folder / file for file in texts]


def json_text(report: dict[str, Any]) -> str:
    """The report with one entry of a list per line, so that a change of one cell is a change of one line."""
    blocks = []
    for key, value in report.items():
        text, entries = json.dumps(value, ensure_ascii=False), []
        if isinstance(value, list):
            entries = [json.dumps(item, ensure_ascii=False) for item in value]
        elif isinstance(value, dict):
            entries = [
                f"{json.dumps(name)}: {json.dumps(item, ensure_ascii=False)}" for name, item in value.items()
            ]
        if entries:
            body = ",\n  ".join(entries)
            text = f"{text[0]}\n  {body}\n {text[-1]}"
        blocks.append(f" {json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(blocks) + "\n}\n"


def _matrix(
    report: dict[str, Any],
    value: Callable[[Cell], int | None],
    of: Callable[[Cell], int] = lambda cell: cell["rows"],
) -> str:
    cells = {(cell["train"], cell["evaluation"]): cell for cell in report["cells"]}
    leaky = {key for key, cell in cells.items() if value(cell)}
    rows = [name for name in report["train"] if any(train == name for train, _ in leaky)]
    columns = [name for name in report["evaluation"] if any(evaluation == name for _, evaluation in leaky)]
    if not leaky:
        return "None."
    body = [
        [row.removesuffix("/train"), *(_cell(cells.get((row, column)), value, of) for column in columns)]
        for row in rows
    ]
    return _table(["", *columns], body)


def _cell(cell: Cell | None, value: Callable[[Cell], int | None], of: Callable[[Cell], int]) -> str:
    if cell is None or (count := value(cell)) is None:
        return "–"
    return f"{count:,} ({_percent(count, of(cell))})" if count else EMPTY


def _percent(count: int, total: int) -> str:
    share = 100 * count / total
    return f"{share:.0f} %" if share >= 9.5 else f"{share:.1f} %" if share >= 0.05 else "<0.1 %"


def _exact_or_near(cell: Cell) -> int | None:
    """None where one of the sets has no pairs."""
    return None if cell["exact_pairs"] is None else cell["exact_pairs"] + cell["near_pairs"]


def _lines_and_sentences(entry: dict[str, int] | None) -> str:
    return f"{entry['lines']:,} ({entry['sentences']:,})" if entry else EMPTY


def _sets(report: dict[str, Any]) -> str:
    keys = ("rows", "faulty_rows", "repeated_rows", "contradictory_pairs", "contradictory_rows")
    body = [
        [name, *(f"{facts[key]:,}" if facts.get(key) is not None else "–" for key in keys)]
        for name, facts in report["sets"].items()
    ]
    columns = ("rows", "faulty rows", "rows repeating a pair", "pairs with several labels", "rows of these")
    return _table(["set", *columns], body)


def _examples(report: dict[str, Any]) -> list[str]:
    quoted = []
    for cell in report["cells"]:
        for example in cell.get("examples", ()):
            kind = "same" if example["is_exact"] else "near"
            quoted.append(
                f"- {cell['train']} → {cell['evaluation']}, {kind}: {in_markdown(str(example['train']))} | "
                f"{in_markdown(str(example['evaluation']))}"
            )
    for name, facts in report["sets"].items():
        quoted += [
            f"- {name}, several labels: {in_markdown(str(group))}" for group in facts.get("examples", ())
        ]
    return ["## Examples", "\n".join(quoted)] if quoted else []


def _table(header: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    rule = ["---"] + ["---:"] * (len(header) - 1)
    return "\n".join(f"| {' | '.join(map(in_markdown, row))} |" for row in [header, rule, *body])
