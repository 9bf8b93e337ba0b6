"""Clients of other people against `juzhen serve`: OpenAI, Cohere, LangChain, LlamaIndex.

pip install -e ".[serve,clients]" -c constraints.txt
python examples/clients.py                       # starts a server on the built-in encoder, and stops it
python examples/clients.py --url http://127.0.0.1:8000 --model mini_zh
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

import numpy as np

from juzhen.cli.program import run_program
from juzhen.core.errors import UserError

TEXTS = ["今天天气很好", "怎么退货", "A man is playing a guitar."]


def with_openai(url: str, model: str) -> list[list[float]]:
    from openai import OpenAI

    client = OpenAI(base_url=f"{url}/v1", api_key="none")
    return [row.embedding for row in client.embeddings.create(model=model, input=TEXTS).data]


def with_langchain(url: str, model: str) -> list[list[float]]:
    from langchain_openai import OpenAIEmbeddings

    # Without check_embedding_ctx_length=False it sends token numbers of OpenAI's models.
    embeddings = OpenAIEmbeddings(
        base_url=f"{url}/v1", api_key="none", model=model, check_embedding_ctx_length=False
    )
    return embeddings.embed_documents(TEXTS)


def with_llama_index(url: str, model: str) -> list[list[float]]:
    from llama_index.embeddings.openai_like import OpenAILikeEmbedding

    embeddings = OpenAILikeEmbedding(model_name=model, api_base=f"{url}/v1", api_key="none")
    return embeddings.get_text_embedding_batch(TEXTS)


def rerank_with_cohere(url: str, model: str) -> list[tuple[str, float]]:
    import cohere

    client = cohere.ClientV2(api_key="none", base_url=url)
    documents = ["东西想退掉怎么办", "什么时候发货"]
    reply = client.rerank(model=model, query="怎么退货", documents=documents, top_n=2)
    return [(documents[hit.index], hit.relevance_score) for hit in reply.results]


@contextmanager
def server() -> Iterator[str]:
    """The address of a server on the built-in encoder, while the block runs."""
    command = [sys.executable, "-m", "juzhen", "serve", "builtin/mini_zh", "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("{") and (address := json.loads(line).get("address")):
                break
            print(line, end="", file=sys.stderr)
        else:
            raise UserError("the server has not started. Read its lines above")
        yield address
    finally:
        process.terminate()
        process.communicate()


def run(url: str, model: str) -> None:
    clients = {"openai": with_openai, "langchain_openai": with_langchain, "llama_index": with_llama_index}
    vectors = {}
    for package, embed in clients.items():
        if find_spec(package) is None:
            print(f"{package}: not installed")
            continue
        try:
            vectors[package] = np.array(embed(url, model))
        except Exception as error:
            raise UserError(
                f"--url {url}: {package} got no embeddings ({error}). Start juzhen serve there"
            ) from error
        first = next(iter(vectors.values()))
        difference = np.abs(vectors[package] - first).max()
        print(f"{package}: {vectors[package].shape}, largest difference to the first client {difference:.1e}")
        assert difference < 1e-6
    if find_spec("cohere") is None:
        print("cohere: not installed")
    else:
        for document, score in rerank_with_cohere(url, model):
            print(f"cohere: {score:.3f} {document}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--url", help="of a server that runs already")
    parser.add_argument("--model", default="mini_zh", help="as /v1/models lists it")
    options = parser.parse_args()
    os.environ.setdefault("NO_PROXY", "127.0.0.1")
    if options.url:
        run(options.url.rstrip("/"), options.model)
    else:
        with server() as address:
            run(address, options.model)


if __name__ == "__main__":
    sys.exit(run_program(main))
