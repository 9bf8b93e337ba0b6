"""What each loss reads, and what it scored on one small budget, written into pages: python -m tools.loss_scores

Reads the runs of results/losses, made by sweep=losses, and conf/loss. docs/concepts/losses.md has places for each loss,
results/losses a table for each set. Texts between their markers are replaced.
"""

import argparse
import re
import sys
from collections.abc import Iterator

from juzhen.cli.program import run_program
from juzhen.core.atomic_write import write_text
from juzhen.core.examples import Kind
from juzhen.core.kinds import main_metric_keys
from juzhen.core.paths import ROOT
from juzhen.core.result import Result, Score
from lightning_modules.loss_factory import NEEDS, declared_loss
from tools.archives import unpacked
from tools.loss_table import FAMILIES, documented, losses_for, options

FOLDER = ROOT / "results" / "losses"
CONCEPTS = ROOT / "docs" / "concepts"
PAGES = (CONCEPTS / "losses.md", CONCEPTS / "losses.zh.md", FOLDER / "README.md")
PLACE = re.compile(r"(<!-- score:([\w-]+) -->).*?(<!-- /score -->)", re.DOTALL)
"""score:<loss> in a line · score:<set> around a table."""

FACTS = re.compile(r"(<!-- facts:(\w+) -->).*?(<!-- /facts -->)", re.DOTALL)
KINDS = {
    Kind.SCORED_PAIR: ("graded pairs", "带分数的句对"),
    Kind.LABELLED_PAIR: ("0/1 pairs", "0/1 句对"),
    Kind.NLI_PAIR: ("NLI pairs", "NLI 句对"),
    Kind.POSITIVE_PAIR: ("positive pairs", "正例对"),
    Kind.TRIPLET: ("triplets", "三元组"),
    Kind.SENTENCE: ("sentences", "句子"),
    Kind.LABELLED_TEXT: ("texts with a class", "带类别的文本"),
}
NEEDS_IN_CHINESE = {
    "scores": "每个句对一个分数",
    "cosines": "两个句向量的余弦",
    "logits": "每个类别一个 logit",
    "embeddings": "每个句子一个向量",
    "layers": "每一层的句向量",
    "teacher": "每个句子的教师向量",
    "lists": "每行每篇文档一个分数",
    "drawn_lists": "每行文档的分数，另抽其他行的文档",
    "guide": "一行各文本的引导模型向量",
}

Row = dict[str, Score]
COLUMNS = {"afqmc_retrieval": "afqmc_retrieval (NDCG@10)", "tnews": "tnews (accuracy)"}
"""What the columns of sets are called that Spearman's correlation does not speak for."""
BASELINES = {"lexical": "TF-IDF", "bm25": "BM25", "untrained": "untrained"}


def scores() -> Iterator[tuple[str, str, Row]]:
    """Set, loss or baseline, and by set the score that speaks for it, that of the row's own set first."""
    for path in sorted(unpacked().glob("losses/runs/*/result.json")):
        result = Result.read(path.parent)
        trained_on, _, name = str(result.config["sweep_row"]).partition("-")
        by_set = {
            of: score
            for (_, of, _), score in (
                (key.split("/"), result.scores[key]) for key in main_metric_keys(result.scores)
            )
            if score.value is not None
        }
        yield trained_on, name, {trained_on: by_set.pop(trained_on)} | by_set


def facts(name: str, *, in_chinese: bool) -> str:
    """What a loss reads, and its options with their values in conf/loss. Raises KeyError for an unknown loss."""
    loss = declared_loss(losses_for(options("model")["biencoder"])[name])
    kinds = [KINDS[kind][in_chinese] for kind in loss.input_kinds if kind in KINDS]
    numbers = [
        f"`{key}` {_value(values)}" for key, values in documented().get(name, {}).items() if " " not in key
    ]
    if in_chinese:
        listed = f"。*选项*：{'，'.join(numbers)}" if numbers else ""
        return f"*输入*：{'、'.join(kinds)}（{NEEDS_IN_CHINESE[loss.input_type]}）{listed}。"
    listed = f" *Options*: {', '.join(numbers)}." if numbers else ""
    return f"*Input*: {', '.join(kinds)} ({NEEDS[loss.input_type]}).{listed}"


def _value(values: dict[str, str]) -> str:
    """A value, or that of cosines and that of logits."""
    return " / ".join(dict.fromkeys(values[unit] for unit in FAMILIES if unit in values))


def filled(text: str, *, in_chinese: bool = False) -> str:
    """A page with every place that it has filled. Raises ValueError for a place of no loss and no set."""
    scored = list(scores())
    text = FACTS.sub(lambda place: f"{place[1]}{facts(place[2], in_chinese=in_chinese)}{place[3]}", text)

    def place(match: re.Match[str]) -> str:
        start, name, end = match.groups()
        of_loss = [
            f"{COLUMNS.get(trained_on, trained_on)} {shown(by_set[trained_on])}"
            for trained_on, loss, by_set in scored
            if loss == name
        ]
        of_set = {loss: by_set for trained_on, loss, by_set in scored if trained_on == name}
        if not of_loss and not of_set:
            raise ValueError(f"score:{name}: results/losses has neither such a loss nor such a set")
        return f"{start}{', '.join(of_loss) or table(name, of_set, scored)}{end}"

    return PLACE.sub(place, text)


def table(name: str, of_set: dict[str, Row], scored: list[tuple[str, str, Row]]) -> str:
    """The losses of a set, the best first, with every other set that all of them were scored on."""
    trained = [set(by_set) for loss, by_set in of_set.items() if loss not in BASELINES]
    columns = [name, *sorted(set.intersection(*trained) - {name})]
    elsewhere = {(column, loss): by_set[column] for column, loss, by_set in scored}
    table_lines = [
        "",
        "",
        f"| loss | {' | '.join(COLUMNS.get(column, column) for column in columns)} |",
        f"|---|{'--:|' * len(columns)}",
    ]
    for loss, by_set in sorted(of_set.items(), key=lambda row: -row[1][name].value):
        row = (by_set.get(column) or elsewhere.get((column, loss)) for column in columns)
        cells = " | ".join("–" if score is None else shown(score) for score in row)
        table_lines.append(f"| {BASELINES.get(loss, f'`{loss}`')} | {cells} |")
    return "\n".join([*table_lines, "", ""])


def shown(score: Score) -> str:
    """× 100, with its interval where it has one."""
    value, *interval = (
        f"{100 * part:.1f}" for part in (score.value, score.low, score.high) if part is not None
    )
    return f"{value} [{', '.join(interval)}]" if interval else value


def main() -> None:
    argparse.ArgumentParser("python -m tools.loss_scores", description=__doc__.splitlines()[0]).parse_args()
    for path in PAGES:
        text = filled(path.read_text(encoding="utf-8"), in_chinese=path.name.endswith(".zh.md"))
        write_text(path, text, in_own_folder=True)


if __name__ == "__main__":
    sys.exit(run_program(main))
