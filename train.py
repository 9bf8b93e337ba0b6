"""Trains and evaluates: compose → check the contract → per stage: fit, test, write a Result.

python train.py model=biencoder loss=cosent
python train.py --help
"""

import sys
from pathlib import Path

import hydra
from omegaconf import DictConfig, OmegaConf

from launch import check_command_line, run_cli, typed_config
from launch.naming import register_resolvers, run_key

CONFIGURATION = Path(__file__).resolve().parent / "conf"


def run_job(config: DictConfig) -> None:
    """All stages of one composed configuration, each going on from what the one before it has learnt."""
    # torch and Lightning are loaded only now, when the command line is known to be right
    from hydra.utils import get_class

    from callbacks.devices import require_device
    from datamodules.loading import load_job_data
    from datamodules.stages import plan_stages
    from launch.console import show_result
    from launch.run_folder import RunFolder
    from launch.stage_run import ENCODER_FOLDER, StageRun
    from lightning_modules.matching import match_losses

    key = run_key(OmegaConf.to_container(config, resolve=False))
    job = OmegaConf.to_object(typed_config(config))
    settings = OmegaConf.to_container(config, resolve=True)
    require_device(job.hardware)
    model = get_class(job.model["_target_"])
    if not model.trains:
        job.dataset = {}
    with RunFolder(job.run_dir, resume=job.resume) as folder:
        if not folder.finished:
            matches = match_losses(job)
            data = load_job_data(
                job, {name: match.kind for name, match in matches.items()}, scored=model.scored
            )
            encoder = model.load_encoder(job)
            run_stage = StageRun(job, data, matches, settings, key)
            stages = plan_stages(list(job.dataset), job.schedule)
            for stage in stages:
                stage_folder = folder.stage_folder(stage.index, len(stages), stage.name)
                if folder.is_done(stage_folder):
                    encoder = model.load_encoder(job, folder=stage_folder / ENCODER_FOLDER)
                else:
                    run_stage(stage, encoder, stage_folder)
        if not folder.is_helper:
            show_result(folder.result(), folder=str(folder.path))


@hydra.main(version_base="1.3", config_path=str(CONFIGURATION), config_name="train")
@run_cli  # here, so that Hydra does not speak before the error does
def compose_and_run(config: DictConfig) -> None:
    run_job(config)


@run_cli
def main() -> None:
    register_resolvers()
    check_command_line(sys.argv[1:], conf_dir=CONFIGURATION)
    compose_and_run()


if __name__ == "__main__":
    main()
