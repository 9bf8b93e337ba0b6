"""`juzhen export`: an encoder as one ONNX file."""

import shutil
import tempfile
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from juzhen.backends.names import BackendName
from juzhen.cli.options import Encoder
from juzhen.core.errors import UserError
from juzhen.core.network import without_hub
from juzhen.core.owned import require_ours
from juzhen.core.whole import whole_file, writing_to


def export(
    encoder: Encoder,
    file: Annotated[Path, Argument(metavar="FILE.onnx", help="file to write")],
    *,
    int8: Annotated[bool, Option("--int8", help="weights and states of matrix products in 8 bits")] = False,
) -> None:
    """Writes an encoder with its pooling as one ONNX file, and proves that it computes the same.

    It reads input_ids and attention_mask (int64, padded on the right) and gives embeddings; the proof is on sentences
    of several lengths. Where a run learnt a form that scores pairs, a second output has what the embedding of the other
    text is multiplied with.

    juzhen export runs/NAME encoder.onnx --int8
    """
    if file.suffix != ".onnx":
        raise UserError(f"{file}: expected a file that ends in .onnx")
    require_ours(file)
    without_hub()
    from juzhen.backends import require_packages
    from juzhen.families import find_family

    require_packages(BackendName.ONNX_INT8 if int8 else BackendName.ONNX)
    family = find_family(encoder)
    loaded = family.load(encoder)
    with tempfile.TemporaryDirectory() as folder:
        exported = family.export(loaded, Path(folder) / "encoder.onnx", quantised=int8)
        if len(list(Path(folder).iterdir())) > 1:
            raise UserError(f"{encoder}: more than 2 GB of weights, which one ONNX file cannot hold")
        with writing_to(file), exported.open("rb") as source, whole_file(file, "wb") as target:
            shutil.copyfileobj(source, target)
    print(f"{file}: {file.stat().st_size / 1e6:.1f} MB, computes what {encoder} does")
    if loaded.score_head is not None:
        print(
            "pairs are scored by uᵀWv: multiply the second output, firsts, of the one text with the first output, "
            "embeddings, of the other at length 1"
        )
    if loaded.prompt:
        print(f"put {loaded.prompt!r} before every text: the file begins behind the tokenizer")
