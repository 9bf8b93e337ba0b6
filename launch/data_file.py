"""`train.py data=faq.csv`: make a data set from a table, and rewrite the overrides to use it."""

from collections.abc import Sequence
from pathlib import Path

import yaml

from juzhen.core.errors import UserError, command, setting
from juzhen.core.paths import is_table
from launch.overrides import UNWRITTEN

DATA_WORD = "data="
BRING_LOSSES = ("loss", "experiment", "sweep")
"""Groups that choose a loss."""


def with_data_set(words: Sequence[str], *, config_dir: str | None = None, write: bool = True) -> list[str]:
    """Replace `data=FILE` or `dataset=FILE` by the set that is made from the file.

    The loss follows from the kind of the set unless one is chosen. The encoder is also scored before
    training. Other overrides are kept.

    Args:
        words: Overrides of a command line.
        config_dir: Folder for the description of the set, instead of conf of the clone.
        write: False: a new set is only described to Hydra in memory, to check or show a configuration.

    Returns:
        The overrides with the set.

    Raises:
        UserError: Two files, a word that contradicts the file, or a table that makes no set.
    """
    words = [
        DATA_WORD + word.removeprefix("dataset=")
        if word.startswith("dataset=") and is_table(word.strip("'\""))
        else word
        for word in words
    ]
    files = [word.removeprefix(DATA_WORD).strip("'\"") for word in words if word.startswith(DATA_WORD)]
    if not files:
        return [*words]
    file = Path(files[0]).expanduser()
    if len(files) > 1:
        raise UserError(
            f"data={files[1]}: one file for a job. Make sets of several by juzhen dataset, then dataset=[…]"
        )
    if file.is_dir() or any(sign in file.name for sign in "*?["):
        tables = sorted(file.iterdir()) if file.is_dir() else sorted(file.parent.glob(file.name))
        first = next((path for path in tables if path.is_file() and is_table(path.name)), "<file>")
        what = "is empty" if not files[0] else "a folder" if file.is_dir() else "a pattern"
        raise UserError(
            f"data={files[0]}: {what}. Give one table, {setting('data', first)}, or make sets by juzhen dataset"
        )
    if not file.suffix and not file.exists():
        raise UserError(f"data={file}: expected a file. A set of conf/dataset is chosen by dataset={file}")
    from juzhen.cli.dataset import set_of_file, training_words
    from juzhen.data.rows import set_name

    typed = dict(word.lstrip("+~").split("=", 1) for word in words if "=" in word)
    folder, tree = ((path and Path(path.strip("'\""))) for path in (typed.get("data_dir"), config_dir))
    if "dataset" in typed:
        raise UserError(
            f"data={file} dataset={typed['dataset']}: give one of the two. For both first make a set, "
            f"{command('juzhen', 'dataset', file)}, then type dataset=[{set_name(file)},…]"
        )
    name, kind, description = set_of_file(file, data_dir=folder, config_dir=tree, write=write)
    chosen = {*typed, *(("loss",) if typed.keys() & set(BRING_LOSSES) else ())}
    added = training_words(name, kind, model=typed.get("model", "biencoder"))
    if description:
        added = _with_stored(name, description, added)
    place = next(number for number, word in enumerate(words) if word.startswith(DATA_WORD))
    return [
        *words[:place],
        *(word for word in added if word.partition("=")[0] not in chosen),
        *words[place + 1 :],
    ]


def _with_stored(name: str, description: str, words: Sequence[str]) -> list[str]:
    """Register a set with Hydra in this process only, and return the overrides that choose it.

    Its option has a name that no file has. Hydra would treat a stored node with the name of a file as a
    schema.
    """
    from hydra.core.config_store import ConfigStore

    option = f"{name}{UNWRITTEN}"
    node = yaml.safe_load(description)
    ConfigStore.instance().store(option, node, group="dataset", package=f"dataset.{name}")
    keys = ("dataset", f"+dataset@evaluate.{name}")
    chosen = {setting(key, name): setting(key, option) for key in keys}
    return [chosen.get(word, word) for word in words]
