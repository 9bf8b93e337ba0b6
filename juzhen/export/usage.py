"""How another program opens an export: the code in its card, which tests run as it stands."""

from typing import Any

from juzhen.encoders.pair_encoder import PairEncoder
from juzhen.export.formats import Format

READ = """import json, pathlib
import numpy as np
{imports}
from tokenizers import Tokenizer

folder = pathlib.Path("<this folder>")
tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))  # cuts and pads
graph = {opened}
"""
OPENED = {
    "onnx": ("import onnxruntime", 'onnxruntime.InferenceSession(folder / "{graph}").run'),
    "openvino": ("import openvino", 'openvino.compile_model(folder / "{graph}")'),
}
TEXTS = """prompt = json.loads((folder / "export.json").read_text())["prompt"]
rows = tokenizer.encode_batch([prompt + text for text in ["今天天气很好", "今天是个好天气"]])
"""
PAIRS = """rows = tokenizer.encode_batch([("今天天气很好", "今天是个好天气")])
"""
INPUTS = """inputs = {{
    "input_ids": np.array([row.ids for row in rows]),
    "attention_mask": np.array([row.attention_mask for row in rows]),
}}
{types}{output} = {call}
"""
TYPES = 'inputs["token_type_ids"] = np.array([row.type_ids for row in rows])\n'
STATIC = """```python
from model2vec import StaticModel  # or: from sentence_transformers import SentenceTransformer

model = StaticModel.from_pretrained("<this folder>", force_download=False)
embeddings = model.encode(["今天天气很好", "今天是个好天气"])
```
"""
FIRSTS = """
These are the embeddings alone. A pair was trained to be scored by uᵀWv: multiply the second output, `firsts`, of the
one text with the first output, `embeddings`, of the other at length 1.
"""
BOTH = """
A score of this encoder is the mean of both orders of a pair: take the mean of the logits, the second output, of both.
"""


def usage(encoder: Any, format: Format) -> str:
    """Markdown: the program, and what has to be said beside it."""
    if format.extra is None:
        return STATIC
    scores = isinstance(encoder, PairEncoder)
    imports, opened = OPENED[format.extra]
    output = "scores" if scores else "embeddings"
    call = f'graph(["{output}"], inputs)[0]' if format.extra == "onnx" else f'graph(inputs)["{output}"]'
    types = TYPES if scores and encoder.segments else ""
    code = READ.format(imports=imports, opened=opened.format(graph=format.graph)) + (
        PAIRS if scores else TEXTS
    )
    code += INPUTS.format(types=types, output=output, call=call)
    note = BOTH if scores and encoder.symmetric else ""
    note = FIRSTS if not scores and encoder.score_head is not None else note
    return f"```python\n{code}```\n{note}"
