"""Trains and evaluates: compose → check the contract → per stage: fit, test, write a Result.

python train.py model=biencoder loss=cosent
python train.py --help
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from juzhen.cli.program import announce, checking, loading, run_program

if TYPE_CHECKING:  # loaded when the program has begun, so that Ctrl-C ends it in words from the start
    from omegaconf import DictConfig

    from conf.job import JobConfig
    from juzhen.data.loading import Known

CONFIGURATION = Path(__file__).resolve().parent / "conf"


def run_job(config: "DictConfig", *, known: "Known | None" = None) -> None:
    """All stages of one composed configuration, each going on from what the one before it has learnt.

    known  rows that a first look at this job has read; None: it is still to be looked at
    """
    from omegaconf import OmegaConf

    from juzhen.core.caches import caches_below
    from launch import typed_config
    from launch.data_record import show_finished
    from launch.naming import run_key

    typed = typed_config(config)
    if show_finished(OmegaConf.to_object(typed)):
        return
    known = first_look(typed) if known is None else known
    caches_below(config.cache_dir)
    with loading("torch"):  # only now, when the command line is known to be right
        from juzhen.evaluation.devices import require_device
        from launch.console import show_result
        from launch.curriculum import Curriculum
        from launch.run_folder import RunFolder

    key = run_key(config)
    curriculum = Curriculum(typed, OmegaConf.to_container(config, resolve=True), key, known=known)
    job = curriculum.job
    require_device(job.hardware)
    with RunFolder(job.run_dir, resume=job.resume) as folder:
        if not folder.finished:
            curriculum.run(folder)
        if not folder.is_helper:
            show_result(folder.result(), folder=str(folder.path))


def first_look(typed: "DictConfig") -> "Known":
    """Raises UserError for the first thing that a typed job could not go on with; rows that were read on the way.

    Cheap questions come first: hardware, losses that do not suit sets, the encoder, files of data. What only torch can
    answer is asked later: `evaluation.devices` and `Curriculum`.
    """
    from dataclasses import replace

    from omegaconf import OmegaConf

    from conf.declared import declared
    from juzhen.core.accelerator import require_accelerator
    from juzhen.core.caches import require_cache
    from juzhen.data.loading import look_at_data
    from juzhen.encoders.first_look import look_at_encoder
    from launch.stages import plan_job
    from lightning_modules.chosen_losses import chosen_losses

    job: JobConfig = OmegaConf.to_object(typed)
    model = declared(job.model["_target_"])
    learns = model.trains is not False
    require_accelerator(job.hardware)
    require_cache(job.cache_dir)
    if learns:
        for plan in plan_job(typed):
            chosen_losses(OmegaConf.to_object(plan.job))
        look_at_encoder(job.backbone, start=job.init_from)
    return look_at_data(job if learns else replace(job, dataset={}), unscored=model.unscored)


def _checked() -> "Known | None":
    """Checks the command line; rows that a first look at a single run has read, None where nothing will be trained."""
    from launch import check_command_line
    from launch.data_record import is_finished
    from launch.keys import naming_keys
    from launch.naming import register_resolvers
    from launch.sweep_rows import handed_over
    from launch.typed_words import as_typed

    known: Known | None = None

    def look(job: "DictConfig") -> None:
        nonlocal known
        with naming_keys(job):
            known = None if is_finished(job) else first_look(job)

    register_resolvers()
    sys.argv[1:] = as_typed(sys.argv[1:])
    waiting = check_command_line(sys.argv[1:], conf_dir=CONFIGURATION, makes_folder=True, look=look)
    sys.argv[1:] = handed_over(sys.argv[1:], waiting)
    return known


def main() -> None:
    from juzhen.cli.about import tell_about

    if tell_about(sys.argv[1:], conf_dir=CONFIGURATION):
        return
    with checking():  # what is loaded for it takes longer than the check itself
        known = _checked()
    if known is not None:
        announce("torch")  # the job is composed once more before that

    import hydra

    from launch import run_cli
    from launch.keys import naming_keys

    @hydra.main(version_base="1.3", config_path=str(CONFIGURATION), config_name="train")
    @run_cli  # here, so that Hydra does not speak before the error does
    def compose_and_run(config: "DictConfig") -> None:
        with naming_keys(config):
            run_job(config, known=known)

    run_cli(compose_and_run)()


if __name__ == "__main__":
    sys.exit(run_program(main))
