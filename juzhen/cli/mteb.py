"""`juzhen mteb`: tasks of the package mteb on a run."""

from pathlib import Path
from typing import Annotated, Literal

from typer import Option

from juzhen.cli import options
from juzhen.core.errors import UserError, require_packages
from juzhen.core.file_guard import require_writable
from juzhen.core.machine import without_hub
from juzhen.core.paths import DATASETS
from juzhen.core.text import markdown_table


def mteb(
    encoder: options.Encoder,
    *,
    tasks: Annotated[
        list[str], Option(metavar="TASK…", help="names of mteb tasks: AFQMC LCQMC STSB T2Retrieval …")
    ],
    data_dir: options.DataDir = None,
    split: Annotated[
        Literal["dev", "test"] | None,
        Option(help="split of local files", show_default="dev, or test if there is no dev"),
    ] = None,
    truncate_dim: options.TruncateDim = None,
    batch_tokens: options.BatchTokens = options.BATCH_TOKENS,
    device: Annotated[str, Option(metavar="DEVICE", help="device, such as cuda:0")] = "cpu",
    out: Annotated[
        Path, Option(metavar="FOLDER", help="where to write results, in the format of mteb")
    ] = Path("mteb"),
) -> None:
    """Scores a run with the package mteb and the prompts of the run, and writes results in the format of mteb.

    AFQMC, ATEC, BQ, LCQMC, PAWSX, STSB, QBQTC, Ocnli, Cmnli and TNews are read from local files of the data sets if
    these exist. All others come from the hub. mteb.ResultCache reads the results. --truncate-dim is part of the model
    name, other settings are part of its revision. The splits of a task are in one file.

    juzhen mteb runs/NAME --tasks AFQMC LCQMC STSB --data-dir data
    """
    require_writable(out)
    names = list(dict.fromkeys(name for word in tasks for name in word.split(",") if name.strip()))
    if not names:
        raise UserError(f"--tasks {' '.join(tasks)}: no name of a task. Give one, such as STSB")
    require_packages("juzhen mteb", "mteb", extra="mteb")
    from juzhen.core.result import weights_digest
    from juzhen.data.rows import ConfiguredSets
    from juzhen.encoders.resolve_path import encoder_folder
    from juzhen.evaluation.mteb_tasks import RunEncoder, open_tasks, run_tasks

    folder = encoder_folder(encoder)
    sets = ConfiguredSets(DATASETS, options.data_folder(data_dir))
    opened = open_tasks(names, sets, split=split)
    sets.tell_dropped()
    without_hub()
    from juzhen.encoders.sentence_encoder import SentenceEncoder

    model = RunEncoder(
        SentenceEncoder.load(encoder, device=device),
        (folder.parent if folder.name == "encoder" else folder).name,
        weights_digest(folder),
        truncate_dim=truncate_dim,
        batch_tokens=batch_tokens,
    )
    rows = run_tasks(model, opened, out)
    table = [[row["task"], row["split"], row["measure"], f"{100 * row['score']:.2f}"] for row in rows]
    print(markdown_table(["task", "split", "measure", "×100"], table, numbers=[3]))
