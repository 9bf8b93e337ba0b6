"""The running text that a finished run has learnt from, read again."""

from pathlib import Path

from juzhen.core.errors import UserError
from juzhen.core.examples import Kind
from juzhen.core.result import Result
from juzhen.data.loading import load_job_data
from juzhen.evaluation.settings import Settings


def texts_of_run(run: str | Path, *, data_dir: Path | None) -> dict[str, list[str]]:
    """Set → the texts that a finished run of model=mlm or model=crops has learnt from, its filter applied again.

    data_dir  where the sets lie; None: where the run read them

    Raises UserError where the run has learnt from pairs, and where the files hold other rows than they did.
    """
    told = Result.read(run)
    trained = {key: rows for key, rows in told.data.items() if key.startswith("train/")}
    if not trained or any(rows["kind"] != Kind.SENTENCE for rows in trained.values()):
        raise UserError(f"--run {run}: has learnt from no running text; for sets of pairs type --train <set>")
    try:
        job = Settings.of(told.config)
    except UserError as error:
        raise UserError(f"--run {run}: {error}; audit it with the version that has made it") from error
    job.data_dir = str(data_dir or job.data_dir)
    job.evaluation.transfer = []
    scored = {Kind(rows["kind"]) for key, rows in told.data.items() if not key.startswith("train/")}
    unscored = {kind: "" for kind in Kind if kind not in scored}
    read = load_job_data(job, dict.fromkeys(job.dataset, Kind.SENTENCE), unscored=unscored).train
    for name, examples in read.items():
        then = trained[f"train/{name}"]
        if (examples.fingerprint, len(examples)) != (then["fingerprint"], then["rows"]):
            raise UserError(
                f"--run {run}: {name} below {job.data_dir} holds other rows than the run has seen; point --data-dir at "
                "the same files"
            )
    return {name: examples.texts("text") for name, examples in read.items()}
