"""docs/published.md: every published figure, and which row of a sweep gives one of its like, or why none does."""

from collections.abc import Iterable, Sequence

from juzhen.core.markup import markdown_table
from juzhen.report.comparison import spoken
from juzhen.report.figures import MEASURED, Published
from sweeps.producers import Job, Offer, giving, offers

HEAD = """# Published figures

Written by `juzhen published docs/published.md` from `juzhen/report/published`, which
says where each is from, and from what every row of `conf/sweep` and every file of `conf/experiment` composes to; a
test keeps it so. A job gives a figure when it learns from the same sets in the same order, read as the same kind, by
the same loss and with the same family of models, and scores the same split of the same set:
`juzhen compare runs` then sets the two side by side. A curriculum gives the figures of its earlier stages
too. Backbones and lengths of training may differ. Small jobs learn from less than the names of their sets say, by a
limit or because the files that the sets are described with hold less; `compare` says so beside each cell.
"""


def page(published: Sequence[Published], jobs: Iterable[Job]) -> str:
    """The page: measurements source by source, then claims, which nothing is compared with."""
    known = offers(jobs)
    measured = [one for one in published if one.standing == MEASURED]
    parts = [HEAD, _counts(measured, known)]
    for source in dict.fromkeys(one.source for one in measured):
        parts.append(_source(source, [one for one in measured if one.source == source], known))
    parts.append(
        "## Claims\n\nFor reading; `compare` shows the plain claims among them as goals, beside our best.\n"
    )
    claims = [one for one in published if one.standing != MEASURED]
    columns = ("source", "what", "figure", "standing", "named", "note")
    parts.append(markdown_table(columns, map(_claim, claims)) + "\n")
    return "\n".join(parts)


def reason(number: Published) -> str:
    if not number.dataset:
        return "an average, or a difference, that is no column here"
    if not number.trained_on:
        return "its training sets have no equal here"
    by = {"": "", "by_kind": " by the losses of their kinds"}.get(number.loss, f" by {number.loss}")
    return f"no row or experiment trains a {number.family} on {number.trained_on}{by} and scores this"


def _counts(measured: Sequence[Published], known: Sequence[Offer]) -> str:
    columns = ("source", "figures", "given by a job", "of these by small jobs alone", "by none")
    lines = []
    for source in dict.fromkeys(one.source for one in measured):
        found = [giving(one, known) for one in measured if one.source == source]
        small = sum(bool(one) and all(each.less for each in one) for one in found)
        none = sum(not one for one in found)
        lines.append((source, str(len(found)), str(len(found) - none), str(small), str(none)))
    return markdown_table(columns, lines, numbers=range(1, 5)) + "\n"


def _source(source: str, numbers: Sequence[Published], known: Sequence[Offer]) -> str:
    """One line for figures of a model of a table that the same jobs give."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for one in numbers:
        found = giving(one, known)
        whole, small = [each for each in found if not each.less], [each for each in found if each.less]
        told = (_spoken(whole) or ("" if small else reason(one)), _spoken(small))
        groups.setdefault((one.table, one.model, one.trained_on, *told), []).append(_figure(one))
    columns = ("table", "model", "trained on", "figures", "given by", "small")
    lines = [
        (table, model, f"`{trained}`" if trained else "", ", ".join(figures), whole, small)
        for (table, model, trained, whole, small), figures in groups.items()
    ]
    return f"## {source}\n\n{markdown_table(columns, lines)}\n"


def _figure(one: Published) -> str:
    metric = "" if one.metric == "spearman" else f" {one.metric}"
    return " ".join(filter(None, (one.dataset, f"{one.split}{metric}", f"{one.percent:.2f}")))


def _spoken(found: Sequence[Offer]) -> str:
    """Jobs, the rows of a sweep together: `sweep=simclue` v1, v2."""
    groups: dict[str, list[str]] = {}
    for one in found:
        groups.setdefault(one.job.group, []).append(one.job.row)
    return "; ".join(f"`{group}` {', '.join(filter(None, rows))}".strip() for group, rows in groups.items())


def _claim(one: Published) -> tuple[str, ...]:
    what = f"{one.table}: {one.model}, {one.metric}{f' on {one.dataset}' if one.dataset else ''}"
    return (one.source, what, spoken(one), one.standing, one.named, one.note)
