"""Rows that are read before torch is loaded: what is wrong with files is told in a second or two.

Small files are read whole and handed on. Of large ones it is only seen that they are there: there are things that may
still be refused, and to read them takes longer than to load torch.
"""

from collections.abc import Mapping
from dataclasses import asdict

from conf.job import DatasetConfig, JobConfig, Source
from juzhen.core.examples import Kind
from juzhen.data.files import files_of
from juzhen.data.hub import require_hub
from juzhen.data.loading import Known, load_split, require_evaluation, unscored_reasons

READ_AT_ONCE_BYTES = 4 * 2**20
"""Of files as they lie on the disk, all together; some 200,000 packed pairs, which take a second or two."""


def look_at_data(job: JobConfig, *, unscored: Mapping[Kind, str] | None) -> Known:
    """The rows that can be read soon. Raises the UserError that reading a job's sets would raise, as far as they tell.

    unscored  kinds that the model is not evaluated on, and why; None: nobody knows, and evaluation sets are left alone
    """
    known: Known = {}
    room = READ_AT_ONCE_BYTES
    evaluated = {**job.evaluate, **job.dataset}
    wanted = [(config, "train", True) for config in job.dataset.values()]
    wanted += [
        (config, split, False)
        for config in evaluated.values()
        if unscored is not None and Kind(config.kind) not in unscored
        for split in job.evaluation.splits
    ]
    is_evaluated = False
    for config, split, required in wanted:
        size = _size(job, config, split)
        if size is None or size <= room:
            known[config.name, split] = load_split(job, config, split, required=required)
            room -= size or 0
        is_evaluated |= not required and known.get((config.name, split), True) is not None
    if unscored is not None:
        has_some = is_evaluated or bool(job.evaluation.transfer)
        require_evaluation(job, unscored_reasons(job, unscored), has_some=has_some)
    return known


def _size(job: JobConfig, config: DatasetConfig, split: str) -> int | None:
    """Bytes that a split takes up on the disk; None where it is not there, which reading it will say."""
    source = config.source or job.source
    if source == Source.HUB:
        if config.hub is None or split not in config.hub.splits:
            return None
        require_hub(config.name, config.hub.id)
        return READ_AT_ONCE_BYTES + 1
    files = files_of(asdict(config), split, source=source, data_dir=job.data_dir)
    return None if files is None else sum(file.stat().st_size for file in files)
