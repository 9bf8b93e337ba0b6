"""`advise`: read the target, try sources within some minutes, and answer with data, a table and a page.

Trainings are made by `fit` and not by the suite: the library alone is installed by pip, and a training of some hundred
rows takes less time than the start of a job.
"""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t as student_t

from juzhen.advice.search import Curve, Difference, Search, Stages, expected_gain, stored_gains, trial_order
from juzhen.advice.target import (
    LEAST_ROWS,
    SHARE_FOR_READING,
    Reading,
    Target,
    TrainingSet,
    read_panel,
    read_search_target,
    read_sources,
    read_target,
)
from juzhen.advice.trials import OWN, Trials, passes
from juzhen.core.atomic_write import write_json, write_text
from juzhen.core.errors import UserError, command, require_number, setting
from juzhen.core.examples import JUDGED, Examples, Kind
from juzhen.core.file_guard import check_overwritable, require_outside
from juzhen.core.kinds import metric_title
from juzhen.core.paths import is_table
from juzhen.core.progress import tell
from juzhen.core.result import RESULT_FILE
from juzhen.core.text import counted, markdown_table, time_in_words
from juzhen.data.spec import Source
from juzhen.data.tables import TableReading
from juzhen.encoders.peer_options import takes_peer_options
from juzhen.encoders.resolve_path import ENCODER_FOLDER
from juzhen.evaluation.run import require_vectors

ANSWER_FILES = ("advice.json", "advice.md", "index.html")


@dataclass(frozen=True)
class Line:
    """One recipe of the answer.

    Args:
        recipe: Sources in order.
        rows: Rows of each.
        seeds: Trainings that the numbers are the mean of.
        score: That of the untrained encoder on all rows, plus the measured gain, in points.
        gain: Against the untrained encoder. That of the best recipe is corrected for having been chosen.
        behind: The best recipe minus this one, all intervals together at the 5 % level. None for the best.
        elsewhere: Mean change on the panel. None if it was not scored.
        worst: Set of the panel that loses most, and how much.
    """

    recipe: tuple[str, ...]
    rows: tuple[int, ...]
    seeds: int
    score: float
    gain: Difference
    behind: Difference | None
    elsewhere: Difference | None
    worst: tuple[str, float] | None


@dataclass(frozen=True)
class Answer:
    """Advice on training data.

    Args:
        target: Name, with the number of scored rows and the metric.
        statements: Sentences, the most important first.
        lines: Recipes, the best first.
        is_decided: Whether one recipe is clearly the best.
        command: Command that trains it.
        curve: Gain by more own rows.
        leaks: Source → rows that were left out because the target has them.
        left_out: Set → why it was not tried.
        seconds: Time that it took.
        folder: Where the runs are.
    """

    target: dict[str, Any]
    statements: list[str]
    lines: list[Line]
    is_decided: bool
    command: str
    curve: Curve | None
    leaks: dict[str, int]
    left_out: dict[str, str]
    seconds: float
    folder: str

    def __str__(self) -> str:
        word = "Train it" if self.lines[0].gain.low > 0 else "To try it, which is not proven to help"
        return "\n\n".join(["\n".join(self.statements), self.table(), f"{word}:\n{self.command}"])

    def table(self) -> str:
        """The recipes as a Markdown table.

        Returns:
            Markdown with one line for each recipe, in the order of `lines`.
        """
        head = ["train on", "rows", "seeds", "score", "gain over untrained", "behind the best", "other sets"]
        body = [
            (
                " → ".join(line.recipe) or "untrained",
                " + ".join(f"{count:,}" for count in line.rows) or "–",
                str(line.seeds),
                f"{line.score:.1f}",
                str(line.gain) if line.recipe else "–",
                "–" if line.behind is None else str(line.behind),
                "–" if line.elsewhere is None else str(line.elsewhere),
            )
            for line in self.lines
        ]
        return markdown_table(head, body, numbers=(2, 3))

    def write(self, folder: Path) -> list[Path]:
        """Write advice.json, advice.md and index.html.

        Args:
            folder: The folder of the runs.

        Returns:
            Paths of the files, in this order.
        """
        folder.mkdir(parents=True, exist_ok=True)
        paths = [folder / name for name in ANSWER_FILES]
        write_json(paths[0], json.loads(json.dumps(asdict(self), default=float)))
        title = f"What to train on for {self.target['name']}"
        body = "\n\n".join([f"# {title}", *self.statements, self.table(), f"```bash\n{self.command}\n```"])
        write_text(paths[1], f"{body}\n")
        write_text(paths[2], _html(title, self))
        return paths


def _answer_of(
    search: Search, reading: Reading, *, leaks: dict[str, int], left_out: dict[str, str], folder: Path | None
) -> Answer:
    """Read the answer off a search, however far it has come."""
    trials, target = search.trials, search.trials.target
    recipes = search.recipes
    best, contenders = recipes[0], search.contenders()
    behind = search.behind_best()
    lines = [_line(search, stages, behind.get(stages)) for stages in recipes]
    is_decided = len(contenders) == 1 < len(recipes)
    about = {"name": target.name, "metric": target.metric, "rows": target.num_scored}
    about |= {"dev_rows": target.num_dev, "kind": str(target.scored.kind), "encoder": trials.encoder}
    reused = f" ({trials.num_reused} runs of earlier calls)" if trials.num_reused else ""
    unit = "queries" if target.scored.kind in JUDGED else "rows"
    statements = [
        *_verdict(search, lines, contenders),
        *_of_own_rows(search, target),
        *_earlier(search),
        *_elsewhere(lines, best),
        *(
            f"Left out of {name}: {count:,} of the rows that were compared, because {target.name} has them too."
            for name, count in leaks.items()
            if count
        ),
        *_of_choice(search, target),
        f"{counted(len(trials.made) - 1, 'trainings')}{reused} in "
        f"{time_in_words(60 * search.minutes - search.left)}; "
        f"it ended because {search.stopped_by}. A score is {metric_title(target.metric)} in points: that of the "
        f"untrained encoder on {counted(target.num_scored, unit)}, plus the gain. An arrow: first one, then the other.",
    ]
    if search.not_tried:
        named = ", ".join(search.not_tried)
        statements.append(f"Not tried for want of time, as the least near: {named}. Give more --minutes.")
    return Answer(
        about,
        statements,
        lines,
        is_decided,
        command_of(best, target, trials.sources, trials.encoder, reading),
        search.curve,
        {name: count for name, count in leaks.items() if count},
        left_out,
        60 * search.minutes - search.left,
        str(folder or ""),
    )


def _line(search: Search, stages: Stages, behind: Difference | None) -> Line:
    changes = search.lost_elsewhere(stages) if stages else {}
    worst = min(changes.items(), key=lambda item: item[1], default=None)
    return Line(
        tuple(name for name, _ in stages),
        tuple(count for _, count in stages),
        len(search.seeds_of(stages)),
        search.untrained + search.gain(stages),
        search.compare(stages, ()) if behind else search.gain_of_best(),
        behind,
        _mean_change(list(changes.values())),
        worst,
    )


def _mean_change(changes: list[float]) -> Difference | None:
    """Mean over the sets of the panel, with a t interval over sets."""
    if len(changes) < 2:
        return None
    error = float(np.std(changes, ddof=1) / np.sqrt(len(changes)))
    half, mean = float(student_t.ppf(0.975, len(changes) - 1)) * error, float(np.mean(changes))
    return Difference(mean, mean - half, mean + half, error, 0.0)


def _verdict(search: Search, lines: list[Line], contenders: list[Stages]) -> list[str]:
    best = lines[0]
    name = _words(contenders[0])
    if len(lines) == 1:
        near = f" By its words {search.order[0]} is nearest." if search.order else ""
        return [f"Undecided: no training was made, because {search.stopped_by}.{near} Give more --minutes."]
    if not contenders[0]:
        what = "Undecided, since not all sources were tried" if search.not_tried else "Train on nothing"
        return [f"{what}: no training of these beats the untrained encoder ({best.score:.1f})."]
    gain = f"{name}: {best.gain} points over the untrained encoder"
    if len(contenders) == 1:
        return [f"Train on {gain}. It is better than each of the other {len(lines) - 1}, at the 5 % level."]
    others = contenders[1:]
    found = search.behind_best()[others[0]]
    rows, seeds = search.needed(found)
    more = int(float(f"{rows - search.trials.target.num_scored:.2g}"))
    study = f"{more:,} more scored rows, or {seeds} seeds a side," if more > 0 else f"{seeds} seeds a side"
    enough = "too small to matter" if abs(found.value) < 0.5 else f"{found} points"
    lead = "Best so far" if best.gain.low > 0 else "Undecided whether to train at all. Best so far"
    named = [_words(stages) for stages in others]
    listed = ", ".join(named[:4]) + (f" and {len(named) - 4} more" if len(named) > 4 else "")
    return [
        f"{lead}: {gain}.",
        f"Undecided against {listed}. The difference to the first of these is {enough}. About {study} would "
        "decide one of that size.",
    ]


def _of_choice(search: Search, target: Target) -> list[str]:
    """Say which rows chose the best recipe, and how its gain is corrected for that."""
    best = search.recipes[0]
    if not best or len(search.recipes) < 3:
        return []
    dev, scored = target.num_dev, len(target.scored)
    rows = f"{scored:,} rows"
    if dev < scored:
        rows = f"{counted(scored, 'rows')} (recipes with own rows on {dev:,}, which they have not seen)"
    return [
        f"The best of {len(search.recipes) - 1} recipes was chosen on {rows}, which also measure its gain. The gain is "
        f"therefore corrected for the choice. Uncorrected it is {search.compare(best, ())}."
    ]


def _of_own_rows(search: Search, target: Target) -> list[str]:
    curve = search.curve
    if curve is None or target.own is None:
        return []
    slope = curve.per_doubling
    points = ((search.untrained + search.gain(((OWN, rows),)), rows) for rows in curve.rows)
    told = f"Own rows alone: {', '.join(f'{score:.1f} with {rows:,}' for score, rows in points)}. "
    told += f"Twice the rows are predicted to bring {slope} points"
    told += "." if slope.is_clear else ", which is undecided."
    whole: Stages = ((OWN, curve.rows[-1]),)
    better = [stages for stages in search.recipes if OWN in dict(stages) and stages != whole]
    if better and search.seeds_of(whole):
        found = search.compare(better[0], whole)
        verdict = "helps" if found.low > 0 else "hurts" if found.high < 0 else "is undecided"
        told += f" To train on {_words(better[0][:-1])} before them {verdict}: {found}."
    return [told]


def _earlier(search: Search) -> list[str]:
    """Describe the shipped gains. They only decide the order of trials."""
    known = {name: expected_gain(name, search.trials.target.name) for name in search.order}
    known = {name: gain for name, gain in known.items() if np.isfinite(gain)}
    best = sorted(known, key=lambda name: -known[name])[:3]
    if not best:
        return []
    told = ", ".join(f"{name} {known[name]:+.1f}" for name in best)
    columns = stored_gains().columns
    on = "it" if search.trials.target.name in columns else f"{len(columns)} other sets on average"
    return [
        f"Predicted, not measured here: earlier trainings of the built-in encoder gained most on {on} from {told}."
    ]


def _elsewhere(lines: list[Line], best: Stages) -> list[str]:
    line = lines[0]
    if line.elsewhere is None or line.worst is None:
        return []
    name, change = line.worst
    return [f"On other sets it changes {line.elsewhere} points on average; worst {name} {change:+.1f}."]


def _words(stages: Stages) -> str:
    return " → ".join(f"{name} ({counted(count, 'rows')})" for name, count in stages) or "nothing"


def command_of(
    stages: Stages, target: Target, sources: dict[str, TrainingSet], encoder: str, reading: Reading
) -> str:
    """Return the command that trains a recipe: of the suite, after the files have become sets.

    Args:
        stages: (source, rows) of each stage. () gives the command that encodes.
        target: Set to be scored on.
        sources: Name → training set.
        encoder: Folder or built-in name of the initial encoder.
        reading: Options with which files and sets were read.

    Returns:
        Commands, joined by `&&`.
    """
    if not stages:
        return command("juzhen", "encode", encoder, "texts.txt")
    names, words, tables = list[str](), list[str](), list[str]()
    for source, count in stages:
        training_set = sources[source]
        place, name = training_set.place, target.name if source == OWN else source
        if place is not None:
            of_file = training_set.rows.name
            name = of_file if of_file.isascii() else f"set_{len(names) + 1}"  # train.py has keys in ASCII
            options = training_set.made_by or (*("--name", name) * (name != of_file), *reading.options)
            tables.append(command("juzhen", "dataset", name if training_set.made_by else place, *options))
        names.append(name)
        if source != OWN or place is None:
            words.append(f"++dataset.{name}.limit={count}")  # a description may lack the key
        if training_set.config is not None and training_set.config.kind == Kind.NLI_PAIR:
            words.append(f"++dataset.{name}.convert_to=triplet")
        rounds = passes(source, count)
        words.append(f"+schedule.stages.{name}.training.duration='{rounds} epoch{'s' * (rounds > 1)}'")
    is_built_in = encoder.startswith("builtin/mini_zh")
    path = encoder_of_run if (encoder_of_run := Path(encoder, ENCODER_FOLDER)).is_dir() else encoder
    start = ["backbone=mini_zh"] if is_built_in else ["backbone=local", setting("backbone.path", path)]
    sets = (sources[source] for source, _ in stages)
    if any(one.place is None and one.config and one.config.source != Source.BUILTIN for one in sets):
        start.append(setting("data_dir", reading.data_dir))
    tree = () if reading.config_dir is None else ("--config-dir", reading.config_dir)
    begin = command(
        "python", "train.py", *tree, setting("dataset", names), "schedule=serial", "loss=by_kind", *start
    )
    return " && ".join([*tables, f"{begin} {' '.join(words)} training.batch_size=32"])


def _html(title: str, answer: Answer) -> str:
    """A page without scripts, which opens offline."""
    rows = [line.strip("|").split("|") for line in answer.table().splitlines()]
    cells = "".join(
        f"<tr>{''.join(f'<{tag}>{escape(cell.strip())}</{tag}>' for cell in row)}</tr>"
        for tag, row in [("th", rows[0]), *(("td", row) for row in rows[2:])]
    )
    told = "".join(f"<p>{escape(sentence)}</p>" for sentence in answer.statements)
    style = "body{font:16px/1.5 system-ui;max-width:70em;margin:2em auto;padding:0 1em}"
    style += "td,th{padding:.3em .8em;text-align:left}tr:nth-child(even){background:#8881}"
    style += "div{overflow-x:auto}pre{white-space:pre-wrap;overflow-wrap:anywhere}"
    viewport = '<meta name="viewport" content="width=device-width,initial-scale=1">'
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8">{viewport}<title>{escape(title)}</title>'
        f"<style>{style}</style><h1>{escape(title)}</h1>{told}<div><table>{cells}</table></div>"
        f"<pre>{escape(answer.command)}</pre></html>\n"
    )


@takes_peer_options
def advise(
    target: str | Path,
    *,
    corpus: str | Path | None = None,
    answers: str | Path | None = None,
    encoder: str = "builtin/mini_zh",
    minutes: float = 15.0,
    sources: Sequence[str] | None = None,
    data_dir: str | Path = "data",
    config_dir: Path | None = None,
    table: TableReading | None = None,
    out: Path | None = None,
    learning_rate: float | None = None,
    seed: int = 42,
    report: Callable[[str], None] | None = None,
) -> Answer:
    """Find out which data to train on for a target, by small trainings within some minutes.

    Each training begins with the same encoder and is scored on the same rows. Rows of a source that the target has too
    are left out before. Every statement of the answer has a 95 % interval, or names the rows and seeds that
    it needs.

    Args:
        target: A table of pairs with labels, of positive pairs, or of triplets. Or the name of a set. With `corpus` a
            table of queries.
        corpus: Table of documents, which the queries are searched in.
        answers: Table of the documents that answer each query. None: a column of the queries names them.
        encoder: Folder, run or built-in name.
        minutes: Time limit in minutes. Ctrl-C ends it earlier, with the answer so far.
        sources: Names of sets and further files. None: every set with a training file in the target's
            language.
        data_dir: Folder of the sets.
        config_dir: A further folder of dataset/ files.
        table: Options of the files. None: detected, and faulty rows are left out.
        out: Runs, advice.json, advice.md and index.html are written here. None: nothing is written.
        learning_rate: Peak learning rate. None: chosen by the size of the encoder.
        seed: Of splits, rows and batches.
        report: Called with a line after each training. None: lines go to stderr.

    Returns:
        The answer. It prints as sentences and a table.

    Raises:
        UserError: A target that cannot be read or scored, or that is a source, or no source.

    Example:
        >>> print(advise("faq.csv", sources=["lcqmc", "bq"], minutes=10))  # doctest: +SKIP
    """
    require_number("learning_rate", learning_rate, 0, 1, open_low=True, optional=True)
    places = [Path(each).expanduser().resolve() for each in (target, *(sources or ()))]
    for source, place in zip(sources or (), places[1:], strict=True):
        if place == places[0]:
            raise UserError(f"sources={source}: is the target, whose own rows are tried anyway. Leave it out")
        if places.count(place) > 1:
            raise UserError(f"sources={source}: is named twice. Name it once")
    if out is not None:
        require_outside(out / "runs")
        if (out / RESULT_FILE).exists():  # of another computer, without the marker of a run
            raise UserError(f"out={out}: holds a run. Choose another folder")
        check_overwritable(*(out / name for name in ANSWER_FILES))
    require_vectors(encoder)  # all sources are read before it is loaded
    require_number("minutes", minutes, 0, open_low=True)
    say, begun = report or tell, time.monotonic()
    reading = Reading(
        Path(data_dir),
        config_dir,
        table or TableReading(on_bad_row="drop"),
        seed,
        deadline=begun + SHARE_FOR_READING * 60 * minutes,
        report=say,
    )
    if corpus is None and not any(map(is_table, [str(target), *(sources or ())])):
        reading.table.require_unread(str(target))
    if corpus is None and answers is not None:
        raise UserError("answers: needs the documents. Type corpus=<their table>")
    if corpus is None:
        read = read_target(str(target), reading)
    else:
        tables = {"queries": target, "corpus": corpus} | ({"answers": answers} if answers else {})
        read = read_search_target({part: Path(table) for part, table in tables.items()}, reading)
        reading.table = replace(reading.table, columns={})  # of the search, not of sources
    found, left_out = read_sources(sources, read, reading)
    _require_different_rows(read.scored, str(target))
    own = f", {len(read.own.rows):,} to train on" if read.own is not None else ""
    unit = "queries" if read.scored.kind in JUDGED else f"{read.scored.kind.replace('_', ' ')}s"
    say(f"{read.name}: {read.num_scored:,} {unit} are scored{own}")
    say(f"sources: {', '.join(f'{source.name} ({source.total:,})' for source in found) or 'own rows alone'}")
    for name, why in left_out.items():
        say(f"{name} is left out: {why}")
    seconds = time.monotonic() - begun
    say(f"read in {time_in_words(seconds)}; {time_in_words(max(60 * minutes - seconds, 0))} left")
    leaks = {source.name: source.leaky for source in found}
    for name, count in leaks.items():
        if count:
            say(f"{name}: {counted(count, 'rows')} left out, which the target has too")
    trials = Trials(
        str(encoder), read, found, folder=out and out / "runs", learning_rate=learning_rate, seed=seed
    )
    order = trial_order(found, read, trials.base)
    trials.panel = read_panel(read, [trials.sources[name] for name in order], reading)
    search = Search(trials, order, minutes=minutes, seeds=(seed, seed + 1, seed + 2), report=say, begun=begun)
    search.run()
    answer = _answer_of(search, reading, leaks=leaks, left_out=left_out, folder=out)
    if out is not None:
        answer.write(out)
    return answer


def _require_different_rows(rows: Examples, word: str) -> None:
    """Raise UserError for rows by which no encoder is better than another."""
    if rows.kind in JUDGED:
        return
    different = len(np.unique(np.stack(list(rows.columns.values())), axis=1).T)
    if different < LEAST_ROWS:
        raise UserError(
            f"{word}: too few different rows ({different} of {len(rows):,}) to compare trainings. Give at least "
            f"{LEAST_ROWS}"
        )
    if rows.targets is not None and len(np.unique(rows.targets)) < 2:
        raise UserError(
            f"{word}: its gold value is {rows.targets[0]:g} in every row, so nothing can be compared. Give rows with "
            "different ones"
        )
