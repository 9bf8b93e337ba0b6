"""From a command line to a job: composed once, checked before torch is loaded, then handed to Hydra as it is."""

import argparse
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from conf.job import JobConfig
from juzhen.core.accelerator import found_hardware
from juzhen.core.aliases import setting_meant
from juzhen.core.errors import UserError, nearest
from juzhen.core.opened import read_text, read_yaml, require_yaml
from juzhen.core.places import CONFIGURATION
from juzhen.core.processor import lacks_bf16, slow_bf16_warning
from juzhen.core.progress import progress_bar
from juzhen.core.rooms import offered, offers
from juzhen.core.schema import ConfigError
from juzhen.core.secrets import NO_SECRETS, place_of_secret
from juzhen.identity import why_unread
from launch.explain import explain_composition, option_hint, place_of
from launch.hydra_internals import Hydra, opened, run_composed, show
from launch.job import read_job
from launch.keys import naming_keys
from launch.naming import register_resolvers
from launch.own_hydra import check_hydra
from launch.run_folder import make_folder, take_folder
from launch.sweep_rows import (
    WAITING,
    handed_over,
    has_key,
    is_one_cell,
    key_of,
    keys_of_sweep,
    num_known_parts,
    parameters,
    rows,
    with_row,
)
from launch.tree_files import check_own_names, check_set_files
from launch.words import Groups, as_typed, parse_flags, several_values, with_backbone, with_set_words

DEPTHS = ("*.yaml", "*/*.yaml", "*/*/*.yaml")
"""Where the files of a configuration tree lie."""


@dataclass(frozen=True)
class Command:
    """A checked command line.

    config  the composition of a single run, or of the first of a sweep; None where the line asks for neither
    job     what it means
    words   the words after the flags; of a sweep, as its sweeper takes them
    waiting those of them that set keys which only some of the runs have (`launch.sweep_rows.handed_over`)
    """

    hydra: Hydra
    flags: argparse.Namespace
    config_name: str
    words: Sequence[str]
    config: DictConfig | None = None
    job: JobConfig | None = None
    waiting: Sequence[str] = ()

    @property
    def is_run(self) -> bool:
        """A single run is to be computed."""
        flags = self.flags
        return not (flags.multirun or flags.cfg or flags.help or self.config is None)

    def run(self, task: Callable[[DictConfig], Any]) -> None:
        """Does what the command line asks for; `task` runs one composed job, as often as need be."""
        if self.is_run:
            take_folder(Path(self.job.run_dir))
            with naming_keys(self.config):
                run_composed(self.hydra, self.config, task)
        elif self.flags.multirun and self.job:
            make_folder(Path(self.job.output_dir))
            arguments = [*self.words, "hydra.mode=MULTIRUN"]
            self.hydra.multirun(config_name=self.config_name, task_function=task, overrides=arguments)
        else:
            show(self.hydra, self.flags, self.config_name)


def check_command_line(arguments: Sequence[str], *, conf_dir: Path) -> Command:
    """What a program's arguments ask for. Raises UserError for the first mistake; each choice of a sweep is checked.

    What hardware=auto is here, and what is allowed but would take far longer than need be, is said on stderr.
    """
    register_resolvers()
    flags = parse_flags(as_typed(arguments))
    # Nothing is written for who asks what there is.
    if flags.help or flags.hydra_help or flags.info or flags.shell_completion:
        flags.overrides = [word for word in flags.overrides if not word.startswith("data=")]
    words: Sequence[str] = flags.overrides
    for name in offers("job_words"):
        words = offered("job_words", name)(words, config_dir=flags.config_dir, write=not flags.cfg)
    folder = conf_dir.parent / flags.config_path if flags.config_path else conf_dir
    flags.overrides = with_backbone(with_set_words(words), trees=[folder, Path(flags.config_dir or folder)])
    name, overrides = flags.config_name or "train", flags.overrides
    with opened(folder, flags.config_dir) as hydra:
        if flags.hydra_help or flags.shell_completion or flags.info:
            return Command(hydra, flags, name, overrides)
        check = _Check(hydra, name, folder)
        check.look_at(overrides)
        if flags.help:
            check.compose(overrides)
            return Command(hydra, flags, name, overrides)
        config, job = (
            check.sweep(overrides) if flags.multirun else check.single(overrides, runs=flags.cfg is None)
        )
    for line in check.notes:
        print(line, file=sys.stderr)
    return Command(hydra, flags, name, handed_over(overrides, check.waiting), config, job, check.waiting)


def checked_job(overrides: Sequence[str], *, conf_dir: Path, extra: str | None) -> JobConfig:
    """The job that a command line means; `extra` as its --config-dir."""
    arguments = [*overrides, *(["--config-dir", extra] if extra is not None else [])]
    job = check_command_line(arguments, conf_dir=conf_dir).job
    assert job is not None  # these words ask for a run
    return job


class _Check:
    """One command line against one configuration tree."""

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
        self.waiting: list[str] = []

    def look_at(self, overrides: Sequence[str]) -> None:
        """Syntax, and what Hydra would silently drop. Composes nothing."""
        self.groups.refuse_group_twice(overrides)
        for word in overrides:
            key, _, value = word.partition("=")
            if place_of_secret({key.rpartition(".")[2]: value}):
                raise UserError(f"{key}: {NO_SECRETS}")
            for choice in self.groups.alternatives(word):
                override = self.groups.parse(choice)
                value, first = override.value(), override.key_or_group.partition(".")[0].partition("/")[0]
                keys = [*self.groups.names, *(field.name for field in fields(JobConfig)), "hydra"]
                if choice.startswith("+") and first not in keys:
                    meant = setting_meant(override.key_or_group, word.partition("=")[2])
                    hint = f"type {meant}" if meant else nearest(first, keys)
                    raise UserError(f"{word}: there is no key or group {first}; {hint}")
                if (
                    override.is_delete()
                    or not (group := override.key_or_group)
                    or not self.groups.is_group(group)
                ):
                    continue
                if not isinstance(value, str | list | dict):
                    raise UserError(option_hint(group, str(value), self.groups.options(group)))
                chosen = value if isinstance(value, list) else []
                if repeated := sorted({str(option) for option in chosen if chosen.count(option) > 1}):
                    raise UserError(f"{choice}: {', '.join(repeated)} is repeated; a job takes each once")

    def single(self, overrides: Sequence[str], *, runs: bool) -> tuple[DictConfig, JobConfig]:
        """One job. `runs` is false when the configuration is only shown."""
        for word in overrides:
            override = self.groups.parse(word)
            if override.is_sweep_override():
                raise UserError(several_values(word))
            if runs and (override.key_or_group in ("sweep", "hydra/sweeper")) and not override.is_delete():
                typed = {self.groups.parse(each).get_key_element().lstrip("+") for each in overrides}
                if not is_one_cell(self.compose(overrides), typed):
                    raise UserError(f"{word}: a sweep is several runs; add -m: train.py -m {word}")
        config = self.compose(overrides)
        job, of_sweep = self.job(config, overrides), keys_of_sweep(config)
        for word, reason in self._unread(job, overrides).items():
            if reason and key_of(word) not in of_sweep and not self._stands_anyway(word, overrides):
                raise UserError(f"{word}: not read by this job: {reason}")
        return config, job

    def sweep(self, overrides: Sequence[str]) -> tuple[DictConfig, JobConfig]:
        """The first job of a sweep, and every other choice in its place: their product is not needed."""
        first = [self.groups.alternatives(word)[0] for word in overrides]
        # sweep=<name> may bring choices of its own. Values may belong to what it chooses, so they wait.
        config = self.compose([word for word in first if self._brings_choices(word)])
        self._check_launcher(config)
        self.waiting = self._waiting(overrides)
        typed = {self.groups.parse(word).get_key_element().lstrip("+") for word in overrides}
        inherited = [f"{key}={value}" for key, value in parameters(config).items() if key not in typed]
        self.look_at(inherited)
        choices = [
            self.groups.alternatives(word) for word in [*inherited, *overrides] if word not in self.waiting
        ]
        base = [alternatives[0] for alternatives in choices]
        listed = [with_row(base, row, typed) for row in rows(config).values()]
        for row in rows(config).values():
            self.look_at(row)
        alternates = [
            [*base[:position], choice, *base[position + 1 :]]
            for position, alternatives in enumerate(choices)
            for choice in alternatives[1:]
        ]
        config_of_base = self.compose(base)
        answer = self.job(config_of_base, base) if not self.waiting else None
        reasons: dict[str, list[tuple[str | None, list[str]]]] = {}
        taken: set[str] = set()
        for cell in _with_progress([*listed, base, *alternates]):
            waiting = [
                word for word in self.waiting if has_key(self._config_of(cell, base, config_of_base), word)
            ]
            taken |= {*waiting}
            for extra in self._choices_of(waiting):
                job = self.job(self._config_of([*cell, *extra], base, config_of_base), [*cell, *extra])
                answer = answer or job
                if cell in listed or not listed:
                    for word, reason in self._unread(job, cell).items():
                        reasons.setdefault(word, []).append((reason, cell))
        varied = {key_of(alternatives[0]) for alternatives in choices if len(alternatives) > 1}
        self._refuse_unread(reasons, varied, typed=overrides, base=base)
        cells = listed or [base, *alternates]
        for word in self.waiting:
            if word not in taken:  # the run that knows most of the key says what is wrong with it
                known = partial(self._num_known_parts, word, base, config_of_base)
                self.compose([*max(cells, key=known), self.groups.alternatives(word)[0]])
        return config_of_base, answer

    def _refuse_unread(
        self,
        reasons: Mapping[str, Sequence[tuple[str | None, list[str]]]],
        varied: Collection[str],
        *,
        typed: Collection[str],
        base: Sequence[str],
    ) -> None:
        """Raises UserError for a word that no run of a sweep reads; of words that vary, for one that its run does not.

        reasons  word → for each run why it does not read the word (None: it does), and the run's words
        varied   keys that have several values
        base     words of the first run; those that were not typed may be read by none
        """
        for word, answers in reasons.items():
            is_varied = key_of(word) in varied
            is_common = word in base and not is_varied
            if is_common and (word not in typed or not all(reason for reason, _ in answers)):
                continue  # some of the runs read it
            reason, cell = next(((reason, cell) for reason, cell in answers if reason), (None, base))
            if reason and (is_varied or not self._stands_anyway(word, cell)):
                readers = "any run of this sweep" if is_common else "this job"
                raise UserError(f"{word}: not read by {readers}: {reason}")

    def _choices_of(self, waiting: Sequence[str]) -> Iterator[list[str]]:
        """The first alternative of each, then every other in its place."""
        alternatives = [self.groups.alternatives(word) for word in waiting]
        first = [each[0] for each in alternatives]
        yield first
        for position, each in enumerate(alternatives):
            yield from ([*first[:position], choice, *first[position + 1 :]] for choice in each[1:])

    def _config_of(self, cell: Sequence[str], base: Sequence[str], config_of_base: DictConfig) -> DictConfig:
        """The composition of a cell. Where it differs by one plain value, that is put into the base's: faster."""
        changed = [word for word in cell if word not in base]
        if len(cell) == len(base) and len(changed) <= 1:
            if not changed:
                return config_of_base
            override = self.groups.parse(changed[0])
            if not self._brings_choices(changed[0]) and "${" not in changed[0]:
                config = deepcopy(config_of_base)
                OmegaConf.update(config, override.key_or_group, override.value(), merge=False, force_add=True)
                return config
        return self.compose(cell)

    def _num_known_parts(
        self, word: str, base: Sequence[str], config_of_base: DictConfig, cell: Sequence[str]
    ) -> int:
        return num_known_parts(self._config_of(cell, base, config_of_base), word)

    def _waiting(self, overrides: Sequence[str]) -> list[str]:
        """Words for keys that Hydra will not find before it knows what each cell chooses."""
        values = [
            word
            for word in overrides
            if not (self._brings_choices(word) or word.startswith("+") or self.groups.parse(word).is_delete())
        ]
        if not values:
            return []
        composed = self.compose([word for word in overrides if word not in values], run_mode=RunMode.MULTIRUN)
        if WAITING.rpartition(".")[2] not in composed.hydra.sweeper:
            return []
        return [word for word in values if not has_key(composed, word)]

    def _check_launcher(self, config: DictConfig) -> None:
        """Raises UserError where a sweep says of its launcher what none of ours can be told."""
        files = (self.folder / "hydra" / "launcher").glob("*.yaml")
        keys = {str(key) for file in files for key in read_yaml(file)}
        for key in config.hydra.sweeper.get("launcher") or {}:
            if keys and key not in keys:
                raise UserError(
                    f"hydra.sweeper.launcher.{key}: no launcher has such a key; {nearest(key, keys)}"
                )

    def _brings_choices(self, word: str) -> bool:
        override = self.groups.parse(word)
        return self.groups.is_group(override.key_or_group) or override.is_hydra_override()

    def job(self, config: DictConfig, overrides: Sequence[str]) -> JobConfig:
        """The checked job of a composition."""
        with self._placed(overrides):
            check_set_files(config, self.trees)
            if note := hardware_note(config.hydra.runtime.choices):
                self.notes[note] = None
            check_hydra(OmegaConf.to_container(config.hydra), overrides)
            job = read_job(config)
            check_own_names(job, self.trees)
        if config.hydra.runtime.choices.get("backbone") == "local":
            for option in self._options_of_path(job.backbone.path):
                self.notes[f"backbone={option} has the numbers that suit {job.backbone.path}"] = None
        if job.hardware.accelerator == "cpu" and job.hardware.precision == "bf16-mixed" and lacks_bf16():
            warning = slow_bf16_warning("hardware.precision=bf16-mixed", "hardware=cpu")
            self.notes[f"warning: {warning}"] = None
        return job

    def _options_of_path(self, path: str) -> list[str]:
        """Options of the group that describe the encoder of a path."""
        files = [file for tree in self.trees for file in sorted((tree / "backbone").glob("*.yaml"))]
        return [
            file.stem for file in files if re.search(rf"^path: {re.escape(path)}$", read_text(file), re.M)
        ]

    def _unread(self, job: JobConfig, overrides: Sequence[str]) -> dict[str, str | None]:
        """Word → why what it sets is not read by the job; None: it is."""
        plain = asdict(job)
        return {
            word: next(filter(None, (why_unread(key, plain) for key in self.groups.keys_set(word))), None)
            for word in overrides
        }

    def _stands_anyway(self, word: str, overrides: Sequence[str]) -> bool:
        """Whether the composition is the same without the word."""
        try:
            with_it, without = (
                OmegaConf.to_container(
                    OmegaConf.masked_copy(config, [key for key in config if key != "hydra"])
                )
                for config in (
                    self.compose(overrides),
                    self.compose([each for each in overrides if each != word]),
                )
            )
        except UserError:
            return False
        return with_it == without

    def compose(self, overrides: Sequence[str], *, run_mode: RunMode = RunMode.RUN) -> DictConfig:
        try:
            return self.hydra.compose_config(
                config_name=self.name,
                overrides=list(overrides),
                run_mode=run_mode,
                from_shell=False,
                with_log_configuration=False,
            )
        except (HydraException, OmegaConfBaseException, yaml.YAMLError, ValueError) as error:
            with self._placed(overrides):
                raise explain_composition(error, self.groups.names, self.groups.options, overrides) from error

    @contextmanager
    def _placed(self, overrides: Sequence[str]) -> Iterator[None]:
        """Adds to a mistake where it was written."""
        try:
            yield
        except ConfigError as mistake:
            origin = place_of(mistake.key, str(mistake), overrides, self.folder)
            raise UserError(f"{mistake}{origin}") from mistake


def _with_progress(cells: Sequence[list[str]]) -> Iterator[list[str]]:
    """A bar where a person looks on: every row and choice of a sweep is composed, and ten of them take seconds."""
    with progress_bar("checking the sweep", len(cells), shown=True) as advance:
        for cell in cells:
            yield cell
            advance(1)


def hardware_note(choices: Mapping[str, str]) -> str | None:
    """What hardware=auto is here; None where it is not among the choices of a composition.

    Raises ConfigError where the runs will be on machines that cannot be looked at.
    """
    if choices.get("hardware") != "auto":
        return None
    launcher = choices.get("hydra/launcher")
    if launcher in ("ray", "slurm"):
        raise ConfigError(
            f"hardware=auto looks at this machine, and hydra/launcher={launcher} runs on others; name what they have, "
            "as in hardware=cuda"
        )
    name, reason = found_hardware()
    return f"hardware=auto is hardware={name} here: {reason}"
