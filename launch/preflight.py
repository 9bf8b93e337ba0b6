"""Checks a command line in a moment, before torch is loaded: `check_command_line`.

Hydra composes the job again afterwards; the second composition is the price for words that help.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import yaml
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from juzhen.core.errors import UserError, nearest
from juzhen.core.opened import read_yaml, require_yaml
from juzhen.core.places import CONFIGURATION
from juzhen.core.processor import lacks_bf16, slow_bf16_warning
from juzhen.core.secrets import NO_SECRETS, place_of_secret
from launch.explain import ConfigError, chosen_files, explain_composition, place_of
from launch.hydra_internals import Hydra, opened
from launch.job import check_job, explained, typed_config
from launch.naming import register_resolvers
from launch.overrides import Groups, parse_flags, refuse_group_twice, refuse_repeats
from launch.own_hydra import check_hydra
from launch.run_folder import make_folder, take_folder
from launch.set_files import check_set_files
from launch.signatures import check_own_names
from launch.sweep_rows import WAITING, has_key, is_one_cell, key_of, parameters, rows, with_row
from launch.unread import why_unread
from launch.values import hardware_note
from launch.words import keys_set, lists_in_defaults, progress_of_check, several_values, stands_anyway


def check_command_line(
    arguments: Sequence[str],
    *,
    conf_dir: Path,
    makes_folder: bool = False,
    look: Callable[[DictConfig], None] = lambda job: None,
) -> list[str]:
    """Raises UserError for the first mistake in a program's arguments; each choice of a sweep is checked.

    Gives the words of a sweep that set keys which only some of its runs have (`launch.sweep_rows.handed_over`).

    What hardware=auto is here, and what is allowed but would take far longer than need be, is said on stderr.

    conf_dir      folder of the configuration tree
    makes_folder  where all is right, the folder that will be written to is made, before Hydra writes there
    look          is called before that with the typed job of a single run; what it raises ends the check
    """
    flags = parse_flags(arguments)
    if flags.experimental_rerun:
        raise UserError(
            "--experimental-rerun runs what a file of Hydra names; the command of a run is in its result.json, and "
            "type that again"
        )
    if flags.hydra_help or flags.shell_completion or flags.info:
        return []
    register_resolvers()
    folder = conf_dir.parent / flags.config_path if flags.config_path else conf_dir
    if not folder.is_dir():
        raise UserError(f"--config-path {flags.config_path}: there is no folder {folder}")
    with opened(folder, flags.config_dir) as hydra:
        groups = Groups(hydra.config_loader)
        check = _Check(hydra, groups, flags.config_name or "train", folder)
        check.look_at(flags.overrides)
        if flags.help:
            check.compose(flags.overrides)
            return []
        is_run = flags.cfg is None and not flags.multirun
        job = check.sweep(flags.overrides) if flags.multirun else check.single(flags.overrides, runs=is_run)
    for line in check.said:
        print(line, file=sys.stderr)
    if is_run:
        look(job)
    if makes_folder and flags.cfg is None:
        take_folder(Path(job.run_dir)) if is_run else make_folder(Path(job.output_dir))
    return check.waiting


def checked_job(lines: Sequence[str], *, conf_dir: Path, extra: str | None) -> DictConfig:
    """The typed job that a command line means, checked as `check_command_line` does; `extra` as its --config-dir."""
    register_resolvers()
    with opened(conf_dir, extra) as hydra:
        check = _Check(hydra, Groups(hydra.config_loader), "train", conf_dir)
        check.look_at(lines)
        return check.job(lines)


DEPTHS = ("*.yaml", "*/*.yaml", "*/*/*.yaml")
"""Where the files of a configuration tree lie."""


class _Check:
    """One command line against one configuration tree."""

    def __init__(self, hydra: Hydra, groups: Groups, name: str, folder: Path) -> None:
        self.hydra = hydra
        self.groups = groups
        self.name = name
        self.folder = folder
        places = [one.path or "" for one in hydra.config_loader.get_search_path().get_path()]
        added = [Path(place.removeprefix("file://")) for place in places if place.startswith("file://")]
        self.trees = [*(tree for tree in added if tree != folder.resolve()), folder]
        foreign = [tree for tree in self.trees if tree.resolve() != CONFIGURATION]
        for path in (one for tree in foreign for depth in DEPTHS for one in sorted(tree.glob(depth))):
            require_yaml(path)  # before Hydra, which would wait for a pipe
        self.said: dict[str, None] = {}
        self.waiting: list[str] = []
        self._nearest: dict[str, tuple[int, list[str]]] = {}
        self._common: dict[str, str | None] = {}
        """Word of all runs of a sweep → why none of those so far reads it; None: one does."""
        self._varied: set[str] = set()

    def look_at(self, lines: Sequence[str]) -> None:
        """Syntax, and the options chosen in every alternative of a sweep. Composes nothing."""
        refuse_group_twice([self.groups.parse(line) for line in lines], self.groups)
        for line in lines:
            key, _, value = line.partition("=")
            if place_of_secret({key.rpartition(".")[2]: value}):
                raise UserError(f"{key}: {NO_SECRETS}")
            for alternative in self.groups.alternatives(self.groups.parse(line)):
                override = self.groups.parse(alternative)
                self.groups.check_choice(override)
                if override.is_add() or override.is_force_add():
                    self.groups.check_addition(override)

    def single(self, lines: Sequence[str], *, runs: bool) -> DictConfig:
        """One job. `runs` is false when the configuration is only shown."""
        for line in lines:
            override = self.groups.parse(line)
            if runs and override.key_or_group == "hydra/sweeper":
                raise UserError(f"{line}: a sweeper makes several runs; add -m: train.py -m {line} …")
            if override.is_sweep_override():
                raise UserError(several_values(line))
            if runs and override.key_or_group == "sweep" and not override.is_delete():
                typed = {self.groups.parse(one).get_key_element().lstrip("+") for one in lines}
                if not is_one_cell(self.compose(lines), typed):
                    raise UserError(f"{line}: a sweep is several runs; add -m: train.py -m {line}")
        job = self.job(lines)
        self._refuse_unread(job, lines)
        return job

    def sweep(self, lines: Sequence[str]) -> DictConfig:
        """The first job of a sweep, and every other choice in its place: their product is not needed."""
        first = [self.groups.alternatives(self.groups.parse(line))[0] for line in lines]
        # sweep=<name> may bring choices of its own. Values may belong to what it chooses, so they wait.
        config = self.compose([line for line in first if self._brings_choices(line)])
        self._check_launcher(config)
        self.waiting = self._waiting(lines)
        typed = {self.groups.parse(line).get_key_element() for line in lines}  # these take precedence
        inherited = [f"{key}={value}" for key, value in parameters(config).items() if key not in typed]
        self.look_at(inherited)
        there = [line for line in lines if line not in self.waiting]
        choices = [self.groups.alternatives(self.groups.parse(line)) for line in [*inherited, *there]]
        base = [alternatives[0] for alternatives in choices]
        self._varied = {key_of(found[0]) for found in choices if len(found) > 1}
        self._common = dict.fromkeys((word for word in base if key_of(word) not in self._varied), "")
        listed = rows(config).values()
        others = [
            (alternative, [*base[:position], alternative, *base[position + 1 :]])
            for position, alternatives in enumerate(choices)
            for alternative in alternatives[1:]
        ]
        with progress_of_check(len(listed) + 1 + len(others)) as advance:
            for row in listed:
                self.look_at(row)
                self._cell(with_row(base, row, [key.lstrip("+") for key in typed]))
                advance()
            job = self._cell(base, is_run=not listed)
            advance()
            for alternative, changed in others:
                if self.waiting:
                    self._cell(changed, is_run=not listed)
                else:
                    self._other_choice(job, alternative, changed, is_run=not listed)
                advance()
        for word in set(lines) & set(self._common):
            if (reason := self._common[word]) and not stands_anyway(self.compose, word, base):
                raise UserError(f"{word}: not read by any run of this sweep: {reason}")
        for line in self.waiting:
            depth, words = self._nearest[line]
            if depth < len(key_of(line).split(".")):
                self.job([*words, line])  # says what is wrong with the key
        return job

    def _waiting(self, lines: Sequence[str]) -> list[str]:
        """Words for keys that Hydra will not find before it knows what each cell chooses."""
        overrides = [self.groups.parse(line) for line in lines]
        values = [
            line
            for line, one in zip(lines, overrides, strict=True)
            if not (self._brings_choices(line) or one.is_add() or one.is_force_add())
        ]
        if not values:
            return []
        whole = self.compose([line for line in lines if line not in values], run_mode=RunMode.MULTIRUN)
        if WAITING.rpartition(".")[2] not in whole.hydra.sweeper:
            return []
        return [line for line in values if not has_key(whole, line)]

    def _cell(self, words: Sequence[str], *, is_run: bool = True) -> DictConfig:
        """The job of one cell, with each choice of the words that wait which has its key there.

        is_run  false: the sweep has rows, and these words alone are none of its runs
        """
        alternatives = [self.groups.alternatives(self.groups.parse(line)) for line in self.waiting]
        config = self.compose(words) if self.waiting else DictConfig({})
        chosen = [line for line in self.waiting if has_key(config, line)]
        for line in self.waiting:
            parts = key_of(line).split(".")
            depth = sum(has_key(config, ".".join(parts[: end + 1])) for end in range(len(parts)))
            self._nearest[line] = max(
                self._nearest.get(line, (-1, [])), (depth, list(words)), key=lambda one: one[0]
            )
        of_cell = [found for line, found in zip(self.waiting, alternatives, strict=True) if line in chosen]
        job = self.job([*words, *(found[0] for found in of_cell)])
        if is_run:
            self._refuse_unread(job, words)
        for position, found in enumerate(of_cell):
            for other in found[1:]:
                first = [one[0] for one in of_cell]
                self.job([*words, *first[:position], other, *first[position + 1 :]])
        return job

    def _check_launcher(self, config: DictConfig) -> None:
        """Raises UserError where a sweep says of its launcher what none of ours can be told."""
        files = (self.folder / "hydra" / "launcher").glob("*.yaml")
        known = {str(key) for file in files for key in read_yaml(file)}
        for key in config.hydra.sweeper.get("launcher") or {}:
            if known and key not in known:
                raise UserError(
                    f"hydra.sweeper.launcher.{key}: no launcher has such a key; {nearest(key, known)}"
                )

    def _brings_choices(self, line: str) -> bool:
        override = self.groups.parse(line)
        return self.groups.is_group(override.key_or_group) or override.is_hydra_override()

    def _other_choice(self, job: DictConfig, alternative: str, lines: Sequence[str], *, is_run: bool) -> None:
        """Another option needs another composition; another value is put into the typed job: faster."""
        override = self.groups.parse(alternative)
        key, value = override.key_or_group, override.value()
        if self.groups.is_group(key) or override.is_hydra_override() or "${" in alternative:
            other = self.job(lines)
            if is_run:
                self._refuse_unread(other, lines)
            return
        before = OmegaConf.select(job, key)
        with self._placed(lines):
            with explained():
                OmegaConf.update(job, key, value, merge=False, force_add=True)
            self._judge(job)
            if is_run:
                self._refuse_unread(job, lines)
        OmegaConf.update(job, key, before, merge=False, force_add=True)

    def job(self, lines: Sequence[str]) -> DictConfig:
        """One composed and checked job, with types."""
        for file in chosen_files(self.folder, lines):
            for group, options in lists_in_defaults(file):
                refuse_repeats(
                    options, f"{file.relative_to(self.folder.parent)}: {group}=[{','.join(options)}]"
                )
        config = self.compose(lines)
        with self._placed(lines):
            check_set_files(config, self.trees)
            if note := hardware_note(config.hydra.runtime.choices):
                self.said[note] = None
            check_hydra(OmegaConf.to_container(config.hydra), lines)
            job = typed_config(config)
            self._judge(job)
        return job

    def _refuse_unread(self, job: DictConfig, words: Sequence[str]) -> None:
        """Raises UserError for a word that sets what the job does not read, unless it says what stands there anyway.

        What all runs of a sweep are given may be read by some of them alone.
        """
        plain = OmegaConf.to_container(job)
        for word in words:
            reasons = (why_unread(key, plain) for key in keys_set(self.groups, word))
            reason = next((one for one in reasons if one), None)
            if word in self._common:
                self._common[word] = reason if self._common[word] is not None else None
            elif reason and (key_of(word) in self._varied or not stands_anyway(self.compose, word, words)):
                raise UserError(f"{word}: not read by this job: {reason}")

    def _judge(self, job: DictConfig) -> None:
        check_job(job)
        check_own_names(job, self.trees)
        if job.hardware.accelerator == "cpu" and job.hardware.precision == "bf16-mixed" and lacks_bf16():
            warning = slow_bf16_warning("hardware.precision=bf16-mixed", "hardware=cpu")
            self.said[f"warning: {warning}"] = None

    def compose(self, lines: Sequence[str], *, run_mode: RunMode = RunMode.RUN) -> DictConfig:
        try:
            return self.hydra.compose_config(
                config_name=self.name,
                overrides=list(lines),
                run_mode=run_mode,
                from_shell=False,
                with_log_configuration=False,
            )
        except (HydraException, OmegaConfBaseException, yaml.YAMLError, ValueError) as error:
            with self._placed(lines):
                raise explain_composition(error, self.groups.names) from error

    @contextmanager
    def _placed(self, lines: Sequence[str]) -> Iterator[None]:
        """Adds to a mistake where it was written."""
        try:
            yield
        except ConfigError as mistake:
            place = place_of(mistake.key, str(mistake), lines, self.folder)
            raise UserError(f"{mistake}{place}") from mistake
