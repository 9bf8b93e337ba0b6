"""From a command line to a job: composed once, checked before torch is loaded, passed to Hydra unchanged.

Hydra imports and calls every class that its node names. The command line may set these keys, because its user
may run anything. A file of a data set or a recipe may not, because Hydra would run its code before the job
begins.
"""

import argparse
import errno
import fcntl
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from conf.job import JobConfig
from juzhen.core.aliases import setting_meant
from juzhen.core.atomic_write import removed_if_refused
from juzhen.core.errors import UserError, nearest
from juzhen.core.file_guard import LIST
from juzhen.core.lazy_names import offered, offers
from juzhen.core.machine import found_hardware, lacks_bf16, slow_bf16_warning
from juzhen.core.paths import CONFIGURATION
from juzhen.core.progress import progress_bar
from juzhen.core.safe_open import read_text, read_yaml, require_yaml
from juzhen.core.schema import ConfigError
from juzhen.core.secrets import NO_SECRETS, place_of_secret
from juzhen.core.text import name_fault
from launch.hydra_internals import Hydra, opened, run_composed, run_sweep, show
from launch.job import read_job, register_resolvers, targets_of
from launch.overrides import (
    COMPOSITION_ERRORS,
    UNWRITTEN,
    Groups,
    UnknownKeyError,
    as_typed,
    explain_composition,
    naming_keys,
    option_hint,
    parse_flags,
    place_of,
    several_values,
    with_backbone,
    with_current_names,
    with_folders,
    with_set_words,
)
from launch.run_folder import JOB_FILE, RECORD_FILE, STAYS, take_folder
from launch.sweep_cells import (
    CheckedCell,
    cells_of,
    is_one_cell,
    key_of,
    keys_of_sweep,
    parameters,
    read_cell,
    rows,
    unread_words,
    words_of_key,
)

TARGETS = re.compile(
    r"hydra\._internal\.core_plugins\.\w+\.Basic(Launcher|Sweeper)"
    r"|hydra_plugins\.\w+\.\w+\.[A-Z]\w*(Launcher|Sweeper)"
)
"""Launchers and sweepers of Hydra, of its plugins and of juzhen. Nothing else is made from a name."""

HANDLERS = re.compile(
    r"logging\.(handlers\.)?\w+(Handler|Formatter)|colorlog\.ColoredFormatter|ext://sys\.std(out|err)"
)
"""What a description of loggers may name."""

LOG_FILE = "${hydra.runtime.output_dir}/${hydra.job.name}.log"

TYPED_ONLY = {
    "callbacks": ({},),
    "job.env_set": ({},),
    "run.dir": ("${run_dir}",),
    "sweep.dir": ("${output_dir}", "multirun/${now:%Y-%m-%d}/${now:%H-%M-%S}"),
    "sweep.subdir": ("${name}-${run_key:}", "${hydra.job.num}"),
}
"""Key → the values that files may give it: ours, and those of Hydra."""


def check_hydra(node: Mapping[str, Any], overrides: Sequence[str]) -> None:
    """Check that no file sets code or paths of Hydra. juzhen and the command line may set them.

    Args:
        node: The plain `hydra` node of a composed configuration, without resolved references.
        overrides: Overrides of the command line.

    Raises:
        ConfigError: Code or a path from a file.
    """
    typed = [re.split("[=@]", line.lstrip("+~"))[0].replace("/", ".") for line in overrides]
    for key, value in _leaves(node, "hydra"):
        name = key.rpartition(".")[2]
        if name == "_target_" and not TARGETS.fullmatch(str(value)):
            raise ConfigError(f"{key}={value}: expected a launcher or a sweeper of Hydra, and no other code")
        if re.match(r"hydra\.(job|hydra)_logging\.", key):
            is_code = name in ("()", "class", "factory") or str(value).startswith(("ext://", "cfg://"))
            is_foreign = is_code and not HANDLERS.fullmatch(str(value))
            if is_foreign or (name == "filename" and str(value) != LOG_FILE):
                expected = "a handler of Python's logging, and a file in the run's folder"
                raise ConfigError(f"{key}={value}: expected {expected}")
    for key, ours in TYPED_ONLY.items():
        chosen = _select(node, key)
        if chosen not in (*ours, None) and not any(word.startswith(f"hydra.{key}") for word in typed):
            raise ConfigError(f"hydra.{key}: a file sets this to {chosen}. Only the command line may")
    if _select(node, "output_subdir") not in (".hydra", None):
        raise ConfigError(
            "hydra.output_subdir: expected .hydra, by which the folder of a run is known, or null for none"
        )
    if fault := name_fault(str(_select(node, "job.name"))):
        raise ConfigError(f"hydra.job.name: expected a name of a file: {fault}")


def _leaves(node: Any, key: str) -> Iterator[tuple[str, Any]]:
    if isinstance(node, Mapping):
        for name, value in node.items():
            yield from _leaves(value, f"{key}.{name}")
    elif isinstance(node, list | tuple):
        for value in node:
            yield from _leaves(value, key)
    else:
        yield key, node


def _select(node: Mapping[str, Any], key: str) -> Any:
    for name in key.split("."):
        node = node.get(name) if isinstance(node, Mapping) else None
    return node


HEADER = re.compile(r"\A(?:\s*#\s*@.*\n)*?\s*#\s*@package[ \t]+(\S+)[ \t]*(?:\n|\Z)")
"""The line before all others, as Hydra reads it."""


def check_set_file(option: str, trees: Sequence[Path]) -> None:
    """Check that the file of a chosen set can be read, and describes that set.

    Args:
        option: The option of the group `dataset`.
        trees: Configuration trees, in the order in which Hydra searches them.

    Raises:
        ConfigError: Another file, or a file under another name.
    """
    paths = list(dict.fromkeys((tree / "dataset" / f"{option}.yaml").resolve() for tree in trees))
    found = [path for path in paths if path.is_file()]
    if not found:
        odd = [file for each in paths for file in each.parent.glob(f"{each.stem}.*")]
        odd = [file for file in odd if file.suffix.lower() in (".yml", ".yaml")]
        odd += [file for tree in trees if (file := tree / f"{option}.yaml").is_file()]
        if odd:
            place = odd[0].parent if odd[0].parent.name == "dataset" else odd[0].parent / "dataset"
            raise ConfigError(f"{odd[0]}: not read. Move it to {place / paths[0].name}", "")
        return
    path = found[0]
    if len(found) > 1:
        raise ConfigError(f"{path} and {found[1]}: two data sets with one name. Rename one of them", "")
    if Path(option).is_absolute():
        raise ConfigError(
            f"dataset={option}: a path. Type --config-dir {path.parent.parent} dataset={path.stem}", ""
        )
    content = read_yaml(path)
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise ConfigError(f"{path}: describes no data set. Expected keys such as name, kind and layouts", "")
    if _package(path) != f"dataset.{path.stem}":
        mark = ", without a byte order mark before it" if read_text(path).startswith("\ufeff") else ""
        raise ConfigError(
            f"{path}: its first line must be '# @package dataset.{path.stem}'{mark}. Write it there", ""
        )


def _check_own_names(job: JobConfig, trees: Sequence[Path]) -> None:
    """Raises ConfigError for a model or a loss without a name, or with that of another class in one of `trees`.

    Keys, results and tables know it by its name.
    """
    for key, node in targets_of(job):
        if key.startswith("callbacks."):
            continue
        name, target, where = node.get("name"), node["_target_"], f"{key}.name"
        if not re.fullmatch(r"\w[\w-]*", str(name or "")):
            prefix = f"{where}={name}: not a name" if name else f"{where} is not set"
            example = f"{where}={target.rpartition('.')[2].lower()}"
            raise ConfigError(f"{prefix}. Give letters, digits, _ and -, for example {example}", where)
        for tree in trees:
            file = tree / ("model" if key == "model" else "loss") / f"{name}.yaml"
            class_name = _class_in(file)
            if class_name and class_name != target.rpartition(".")[2]:
                raise ConfigError(
                    f"{where}={name}: {file.relative_to(tree.parent)} is {class_name}, and this is {target}. "
                    f"Give it another name: {where}=<name>"
                )


def _package(path: Path) -> str | None:
    try:
        match = HEADER.match(read_text(path)[:2000])
    except (OSError, UnicodeDecodeError):
        return ""  # Hydra names what is wrong with the file, if it is chosen
    return match[1] if match else None


@cache
def _class_in(file: Path) -> str | None:
    """The class that a file of a model or a loss names. None without a file or a class."""
    content = yaml.safe_load(read_text(file)) if file.is_file() else None
    target = content.get("_target_") if isinstance(content, dict) else None
    return target.rpartition(".")[2] if isinstance(target, str) else None


DEPTHS = ("*.yaml", "*/*.yaml", "*/*/*.yaml")
"""Where the files of a configuration tree lie."""


@dataclass(frozen=True)
class Command:
    """A checked command line.

    Args:
        check: Check that composed it.
        flags: Flags of the command line, such as `--resume`.
        words: Overrides after the flags.
        config: Composition of a single run, or of a sweep. None for a command line without a run.
        job: Job of the single run, or of the first cell of a sweep.
        cells: The runs.
    """

    check: "Check"
    flags: argparse.Namespace
    words: Sequence[str]
    config: DictConfig | None = None
    job: JobConfig | None = None
    cells: Sequence[CheckedCell] = ()

    @property
    def is_run(self) -> bool:
        """True for a command line that computes a single run."""
        return self.config is not None and self.config.hydra.mode is not RunMode.MULTIRUN

    @property
    def unwritten(self) -> list[str]:
        """Names of the sets that the command line makes of tables, and that are not yet written."""
        return re.findall(rf"(\w+){UNWRITTEN}\b", " ".join(self.words if self.config else ()))

    @contextmanager
    def removed_if_refused(self) -> Iterator[None]:
        """Remove the run folder, and the set of `data=FILE`, if the block made them and then refuses the run.

        A run that has begun stays. So does a folder that another process works in.
        """
        made = [Path(self.job.run_dir)] if self.is_run else []
        for name in self.unwritten if made else ():
            described = {**self.job.evaluate, **self.job.dataset}[name]
            files = [Path(file) for file in described.layouts[described.layout].files.values()]
            files.append(Path(self.flags.config_dir or CONFIGURATION, "dataset", f"{name}.yaml"))
            made += [*files, *(file.parent / LIST for file in files)]
        with removed_if_refused(made, unless=lambda: _is_in_use(made[0])):
            yield

    def run(self, task: Callable[[DictConfig], Any]) -> None:
        """Execute the command line.

        Args:
            task: Function of a composed job. It is called once for each cell.
        """
        hydra = self.check.hydra
        if self.is_run:
            take_folder(Path(self.job.run_dir))
            with naming_keys(self.config):
                run_composed(hydra, self.config, task)
        elif self.config is not None:
            Path(self.job.output_dir).mkdir(parents=True, exist_ok=True)
            words = [word for word in self.words if not self.check.groups.parse(word).is_hydra_override()]
            run_sweep(hydra, self.config, task, words)
        else:
            with self.check.explained(self.words):
                show(hydra, self.flags, self.check.name)


def _is_in_use(folder: Path) -> bool:
    """True if a run folder holds more than its log and records, or another process works in it."""
    try:
        with (folder / ".lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno != errno.ENOENT
    return bool({entry.name for entry in folder.iterdir()} - {*STAYS, JOB_FILE, RECORD_FILE})


def check_command_line(arguments: Sequence[str], *, conf_dir: Path, write: bool = True) -> Command:
    """Parse and check a program's arguments. Each cell of a sweep is checked.

    Writes to stderr which hardware `hardware=auto` chose, and warns about settings that are needlessly slow.

    Args:
        arguments: Arguments of the program.
        conf_dir: Root of the configuration tree.
        write: Write the sets that are made of tables. False: see `Command.unwritten`.

    Returns:
        The command.

    Raises:
        UserError: The first mistake.
    """
    register_resolvers()
    flags = parse_flags(as_typed(arguments))
    shows = bool(flags.help or flags.hydra_help or flags.info or flags.shell_completion or flags.cfg)
    words: Sequence[str] = with_current_names(flags.overrides)
    if shows and not flags.cfg:  # nothing is written for who asks what there is
        words = [word for word in words if not word.startswith("data=")]
    for name in offers("job_words"):
        words = offered("job_words", name)(words, config_dir=flags.config_dir, write=write and not flags.cfg)
    extra = flags.config_dir
    if extra and not Path(extra).is_dir():
        if any(UNWRITTEN in word for word in words):
            extra = None  # the set will make it
        else:
            raise UserError(f"--config-dir={extra}: no such folder. Name the folder that holds dataset/")
    folder = conf_dir.parent / flags.config_path if flags.config_path else conf_dir
    words = with_folders(words, multirun=flags.multirun)
    words = with_backbone(with_set_words(words), trees=[folder, Path(extra or folder)])
    flags.overrides = words
    with opened(folder, extra) as hydra:
        check = Check(hydra, flags.config_name or "train", folder)
        if not (flags.hydra_help or flags.info or flags.shell_completion):
            check.look_at(words)
        if shows:
            return Command(check, flags, words)
        config, cells = check.sweep(words) if flags.multirun else check.single(words)
    for line in check.notes:
        print(line, file=sys.stderr)
    return Command(check, flags, words, config, cells[0].job, cells)


def checked_job(overrides: Sequence[str], *, conf_dir: Path, extra: str | None) -> JobConfig:
    """Compose, check and type the job of a command line.

    Args:
        overrides: Overrides of a single run.
        conf_dir: Root of the configuration tree.
        extra: Its --config-dir, as typed. None: no further folder.

    Returns:
        The job.

    Raises:
        UserError: The first mistake.
    """
    arguments = [*overrides, *(["--config-dir", extra] if extra is not None else [])]
    job = check_command_line(arguments, conf_dir=conf_dir).job
    assert job is not None  # these words ask for a run
    return job


class Check:
    """One command line against one configuration tree.

    Args:
        hydra: An open Hydra, see `launch.hydra_internals.opened`.
        name: Name of the configuration, such as train.
        folder: Root of the configuration tree.

    Attributes:
        trees: Configuration trees in the order in which Hydra searches them.
        notes: Lines for the user, each once.
    """

    def __init__(self, hydra: Hydra, name: str, folder: Path) -> None:
        self.hydra = hydra
        self.groups = Groups(hydra.config_loader)
        self.name = name
        self.folder = folder
        paths = [each.path or "" for each in hydra.config_loader.get_search_path().get_path()]
        added = [Path(path.removeprefix("file://")) for path in paths if path.startswith("file://")]
        self.trees = [*(tree for tree in added if tree != folder.resolve()), folder]
        foreign = [tree for tree in self.trees if tree.resolve() != CONFIGURATION]
        for path in (file for tree in foreign for depth in DEPTHS for file in sorted(tree.glob(depth))):
            require_yaml(path)  # before Hydra, which would wait for a pipe
        self.notes: dict[str, None] = {}
        self._top_keys = [*self.groups.names, *(field.name for field in fields(JobConfig)), "hydra"]

    def look_at(self, overrides: Sequence[str]) -> None:
        """Check the syntax, and refuse overrides that Hydra would silently drop. Composes nothing.

        Args:
            overrides: Words of a command line, or of a row of a sweep.

        Raises:
            UserError: The first mistake.
        """
        self.groups.refuse_group_twice(overrides)
        for word in overrides:
            key, _, value = word.partition("=")
            if place_of_secret({key.rpartition(".")[2]: value}):
                raise UserError(f"{key}: {NO_SECRETS}")
            for choice in self.groups.alternatives(word):
                override = self.groups.parse(choice)
                value, first = override.value(), override.key_or_group.partition(".")[0].partition("/")[0]
                keys = self._top_keys
                if choice.startswith("+") and first not in keys:
                    meant = setting_meant(override.key_or_group, word.partition("=")[2])
                    hint = f"Type {meant}" if meant else nearest(first, keys)
                    raise UserError(f"{word}: unknown key or group {first}. {hint}")
                if (
                    override.is_delete()
                    or not (group := override.key_or_group)
                    or not self.groups.is_group(group)
                ):
                    continue
                chosen = value if isinstance(value, list) else []
                if odd := [each for each in chosen or [value] if not isinstance(each, str | list | dict)]:
                    typed = "null" if odd[0] is None else str(odd[0])
                    raise UserError(option_hint(group, typed, self.groups.options(group)))
                for option in (value if isinstance(value, list) else [value]) if group == "dataset" else ():
                    check_set_file(str(option).removesuffix(".yaml"), self.trees)
                if repeated := sorted({str(option) for option in chosen if chosen.count(option) > 1}):
                    raise UserError(f"{choice}: {', '.join(repeated)} is repeated. A job takes each once")

    def single(self, words: Sequence[str]) -> tuple[DictConfig, list[CheckedCell]]:
        """Compose and check a single run.

        Args:
            words: Overrides of the command line.

        Returns:
            The composition, and its only cell. More cells if a file of the configuration asks for a sweep.

        Raises:
            UserError: The first mistake, such as several values without -m or a key that the job does not read.
        """
        overrides = {word: self.groups.parse(word) for word in words}
        for word, override in overrides.items():
            if override.is_sweep_override():
                raise UserError(several_values(word))
        with self.explained(words):
            config = self._compose(words)
        if config.hydra.mode is RunMode.MULTIRUN:  # a file of the configuration says so
            return self.sweep(words)
        typed = {key_of(word) for word in words}
        for word, override in overrides.items():
            asks_for_several = (
                override.key_or_group in ("sweep", "hydra/sweeper") and not override.is_delete()
            )
            if asks_for_several and not is_one_cell(config, typed):
                raise UserError(f"{word}: a sweep is several runs. Add -m: train.py -m {word}")
        with self._placed(words):
            job = read_job(config)
            self._look_at_job(config, job, words)
        of_sweep = keys_of_sweep(config)
        for word, refusal in unread_words(job, words, self.groups).items():
            if key_of(word) not in of_sweep:
                raise refusal
        return config, [CheckedCell(tuple(words), config, job, {})]

    def sweep(self, words: Sequence[str]) -> tuple[DictConfig, list[CheckedCell]]:
        """Compose and check a sweep with its cells.

        Args:
            words: Overrides of the command line.

        Returns:
            The composition of the whole sweep, and its cells. Of a search: cells at both ends of each range.

        Raises:
            UserError: The first mistake of any cell.
        """
        for word in words:
            if key_of(word) == "sweep" and self.groups.parse(word).is_sweep_override():
                raise UserError(f"{word}: expected one sweep. Type a command for each")
        config = self._known([*words, "hydra.mode=MULTIRUN"])
        self._check_launcher(config)
        loader = self.hydra.config_loader
        typed = [word for word in words if not self.groups.parse(word).is_hydra_override()]
        for each in (parameters(config), *rows(config).values()):
            self.look_at(each)
        asked, cells = cells_of(config, typed, self.groups), []
        # Every row and choice is composed, and ten of them take seconds.
        with progress_bar("checking the sweep", len(asked), shown=True) as advance:
            for each in asked:
                with self._placed(each):
                    cell = read_cell(loader, config, each, self.groups)
                    self._look_at_job(cell.config, cell.job, each)
                loader.cells[cell.words] = cell.config
                cells.append(cell)
                advance(1)
        fixed = {word for word in parameters(config) if not self.groups.parse(word).is_sweep_override()}
        for word in dict.fromkeys(word for each in asked for word in each if word not in fixed):
            refusals = [
                cell.unread.get(word) for cell, each in zip(cells, asked, strict=True) if word in each
            ]
            if all(refusals):  # of a key that no run has, the one that knows most of it says what is wrong
                with self._placed([word]):
                    raise max(refusals, key=lambda mistake: len(getattr(mistake, "key", "")))
        return config, cells

    def _known(self, words: Sequence[str]) -> DictConfig:
        """The composition of a sweep without words for keys that only some of its cells have."""
        try:
            with self.explained(words):
                return self._compose(words, run_mode=RunMode.MULTIRUN)
        except UnknownKeyError as mistake:
            unknown = words_of_key(mistake, words)
            is_hydra = any(self.groups.parse(word).is_hydra_override() for word in unknown)
            if not unknown or is_hydra or mistake.key.partition(".")[0] not in self._top_keys:
                raise
            return self._known([word for word in words if word not in unknown])

    def _check_launcher(self, config: DictConfig) -> None:
        """Raises UserError for a launcher key in a sweep that no launcher has."""
        files = (self.folder / "hydra" / "launcher").glob("*.yaml")
        keys = {str(key) for file in files for key in read_yaml(file)}
        for key in config.hydra.sweeper.get("launcher") or {}:
            if keys and key not in keys:
                raise UserError(
                    f"hydra.sweeper.launcher.{key}: no launcher has this key. {nearest(key, keys)}"
                )

    def _look_at_job(self, config: DictConfig, job: JobConfig, words: Sequence[str]) -> None:
        """Raises UserError for settings that files may not make, and collects notes for the user."""
        check_hydra(OmegaConf.to_container(config.hydra), words)
        _check_own_names(job, self.trees)
        if config.hydra.job.chdir:
            raise ConfigError(
                "hydra.job.chdir=true: paths of a job count from where it is started. Leave it out"
            )
        if note := _hardware_note(config.hydra.runtime.choices):
            self.notes[note] = None
        if config.hydra.runtime.choices.get("backbone") == "local":
            for option in self._options_of_path(job.backbone.path):
                self.notes[f"backbone={option} has the numbers that suit {job.backbone.path}"] = None
        if job.hardware.accelerator == "cpu" and job.hardware.precision == "bf16-mixed" and lacks_bf16():
            warning = slow_bf16_warning("hardware.precision=bf16-mixed", "hardware=cpu")
            self.notes[f"warning: {warning}"] = None

    def _options_of_path(self, path: str) -> list[str]:
        files = [file for tree in self.trees for file in sorted((tree / "backbone").glob("*.yaml"))]
        return [
            file.stem for file in files if re.search(rf"^path: {re.escape(path)}$", read_text(file), re.M)
        ]

    def _compose(self, words: Sequence[str], *, run_mode: RunMode = RunMode.RUN) -> DictConfig:
        loader = self.hydra.config_loader
        return loader.load_configuration(self.name, list(words), run_mode=run_mode, from_shell=False)

    @contextmanager
    def explained(self, words: Sequence[str]) -> Iterator[None]:
        """Turn errors of Hydra into ConfigError until the end of the block.

        Args:
            words: Overrides that are composed in the block. The message names the wrong one.
        """
        with self._placed(words):
            try:
                yield
            except COMPOSITION_ERRORS as error:
                raise explain_composition(error, self.groups, words) from error

    @contextmanager
    def _placed(self, words: Sequence[str]) -> Iterator[None]:
        """Adds to a mistake where it was written."""
        try:
            yield
        except ConfigError as mistake:
            mistake.args = (f"{mistake}{place_of(mistake.key, str(mistake), words, self.trees)}",)
            raise


def _hardware_note(choices: Mapping[str, str]) -> str | None:
    """Describe the choice of hardware=auto on this machine. None without that setting.

    Raises ConfigError where the runs will be on machines that cannot be looked at.
    """
    if choices.get("hardware") != "auto":
        return None
    launcher = choices.get("hydra/launcher")
    if launcher in ("ray", "slurm"):
        raise ConfigError(
            f"hardware=auto looks at this machine, and hydra/launcher={launcher} runs on others. Name their hardware, "
            "as in hardware=cuda"
        )
    name, reason = found_hardware()
    return f"hardware=auto is hardware={name} here: {reason}"
