"""A finished run of the same command is shown again: in a second, without torch, and only over the same data."""

import os
from pathlib import Path

from omegaconf import DictConfig

from conf.job import JobConfig
from launch.data_record import require_same_data
from launch.run_folder import RunFolder


def is_finished(job: JobConfig | DictConfig) -> bool:
    """Nothing is left to do for a job, and nothing is to be done afresh."""
    return job.resume == "auto" and RunFolder.is_done(Path(job.run_dir))


def show_finished(job: JobConfig) -> bool:
    """Shows the result of a job that is finished; False where something is left to do, or all is to be done afresh.

    Raises UserError where the run was made from other data than the job would read now.
    """
    is_helper = int(os.environ.get("LOCAL_RANK", "0")) > 0
    if is_helper or not is_finished(job):
        return False
    from launch.console import show_result  # every start of the program would wait for it

    with RunFolder(job.run_dir, resume="auto") as folder:
        result = folder.result()
        require_same_data(folder.path, job)
        print(f"already finished ({result.finished_at}), shown again; resume=never trains anew")
        show_result(result, folder=str(folder.path))
    return True
