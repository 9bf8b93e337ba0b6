"""Trains and evaluates: compose → check → per stage: fit, test, write a Result.

python train.py model=biencoder loss=cosent
python train.py --help
"""

import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from juzhen.cli.program import checking, loading, run_program

if TYPE_CHECKING:  # loaded when the program has begun, so that Ctrl-C ends it in words from the start
    from collections.abc import Collection

    from omegaconf import DictConfig

    from conf.job import JobConfig

CONFIGURATION = Path(__file__).resolve().parent / "conf"


def run_job(config: "DictConfig", *, is_checked: bool = False) -> None:
    """Train all stages of one composed configuration. Each stage continues from the weights before it.

    Args:
        config: The composed configuration.
        is_checked: `first_look` has already checked this job.
    """
    from omegaconf import OmegaConf

    from juzhen.core.machine import caches_below
    from juzhen.identity import key_of_settings
    from launch.job import deciding_settings, read_job
    from launch.run_folder import is_finished, remember_job, require_same_job

    job = read_job(config)
    require_same_job(config, job)
    if is_finished(job):
        from launch.console import show_finished  # other starts need not wait for it

        if show_finished(job):
            return
    if not is_checked:
        first_look(job)
    caches_below(job.cache_dir)
    with loading("torch"):  # only now, when the command line is known to be right
        from juzhen.evaluation.settings import require_device
        from launch.console import show_result
        from launch.curriculum import Curriculum
        from launch.run_folder import RunFolder

    require_device(job.hardware)
    settings = OmegaConf.to_container(config, resolve=True)
    deciding = deciding_settings(config)
    curriculum = Curriculum(job, settings, key_of_settings(deciding))
    with RunFolder(job.run_dir, resume=job.resume) as folder:
        if not folder.finished:
            if not folder.is_helper:
                remember_job(folder.path, deciding, job)
            curriculum.run(folder)
        if not folder.is_helper:
            show_result(folder.result(), folder=str(folder.path), earlier=folder.earlier_results())


def first_look(job: "JobConfig", *, unwritten: "Collection[str]" = ()) -> None:
    """Check a job before torch is loaded.

    Cheap checks come first: hardware, losses that do not suit sets, the encoder, files of data.
    `evaluation.devices` and `Curriculum` make the checks that need torch.

    Args:
        job: A typed job.
        unwritten: Names of sets whose files are not yet written.

    Raises:
        UserError: The first problem.
    """
    from dataclasses import replace

    from juzhen.core.machine import require_accelerator
    from juzhen.data.loading import look_at_data
    from juzhen.encoders.preflight import check_encoder_files
    from juzhen.models import settings_of
    from launch.job import plan_job
    from lightning_modules.loss_factory import chosen_losses

    model = settings_of(job.model)
    require_accelerator(job.hardware)
    if model.trains:
        for plan in plan_job(job):
            chosen_losses(plan.job)
        check_encoder_files(job.backbone, start=job.init_from)
    seen = job if model.trains else replace(job, dataset={})
    look_at_data(seen, unscored=model.unscored, unwritten=unwritten)


def main() -> None:
    from juzhen.cli.program import tell_about
    from juzhen.core.secrets import hide_in_logs

    if tell_about(sys.argv[1:], conf_dir=CONFIGURATION):
        return
    hide_in_logs()
    with ExitStack() as until_refused:
        with checking():  # what is loaded for it takes longer than the check itself
            from launch.check import check_command_line
            from launch.overrides import naming_keys
            from launch.run_folder import is_finished, require_same_job

            for write in (False, True):  # what data=FILE makes is written after all else was checked
                command = check_command_line(sys.argv[1:], conf_dir=CONFIGURATION, write=write)
                if command.is_run:
                    require_same_job(command.config, command.job)
                is_checked = command.is_run and not is_finished(command.job)
                if is_checked:
                    with naming_keys(command.config):
                        first_look(command.job, unwritten=command.unwritten)
                if not write:
                    until_refused.enter_context(command.removed_if_refused())
                if not command.unwritten:
                    break
        command.run(partial(run_job, is_checked=is_checked))


if __name__ == "__main__":
    sys.exit(run_program(main))
