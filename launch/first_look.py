"""What can be refused before torch is loaded: hardware, losses that do not suit sets, encoders, files of data."""

from dataclasses import replace

from omegaconf import DictConfig, OmegaConf

from conf.declared import declared
from conf.job import JobConfig
from juzhen.core.accelerator import require_accelerator
from juzhen.core.caches import require_cache
from juzhen.data.loading import Known, look_at_data
from juzhen.encoders.first_look import look_at_encoder
from launch.stages import plan_job
from lightning_modules.chosen_losses import chosen_losses


def first_look(typed: DictConfig) -> Known:
    """Raises UserError for the first thing that a typed job could not go on with; rows that were read on the way.

    Cheap questions come first. What only torch can answer is asked later: `evaluation.devices` and `Curriculum`.
    """
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
