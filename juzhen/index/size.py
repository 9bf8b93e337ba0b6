"""How large an index is, and what else can be said of it."""

from typing import Any

from juzhen.index.index import Index, bytes_per_vector
from juzhen.index.store import DATABASE


def facts_of(index: Index) -> dict[str, Any]:
    """Name → value, as people read it."""
    view = index.view()
    facts, folder = view.facts, index.folder
    assert folder is not None
    on_disk = sum(path.stat().st_size for path in folder.glob(f"{DATABASE}*"))
    derived = sum(path.stat().st_size for path in folder.glob("*-*.*"))
    split = facts.get("passages")
    passages = (
        {
            "documents": f"{index.store.num_documents():,}, of which these texts are passages",
            "passages": f"{split['chunk_tokens']:,} tokens at most, {split['overlap']:,} shared"
            f"{', pooled of one pass (late)' * split['late']}",
        }
        if split
        else {}
    )
    overlap = facts.get("chunk_overlap")
    long = (
        {} if overlap is None else {"long texts": f"the mean of their chunks, which share {overlap:,} tokens"}
    )
    return {
        "texts": f"{int(view.alive.sum()):,}",
        **passages,
        **long,
        "later": f"{len(view.numbers) - view.covered:,} of them not in the quick files yet, compared one by one",
        "kind": facts["kind"],
        "encoder": f"{facts['encoder']} ({facts['digest']})",
        "numbers": f"{facts['dim']:,} of an embedding",
        "prompt": facts["prompt_name"] or facts["prompt"] or "that for documents",
        "metadata": ", ".join(facts["fields"]) or "none",
        "modes": ", ".join(index.modes),
        "terms": f"{facts['tokens']}, folded by NFKC, lower case, simplified characters",
        "bytes per vector": f"{bytes_per_vector(view):,.0f} that are searched, {4 * facts['dim']:,} beside the text",
        "on disk": f"{(on_disk + derived) / 2**20:,.1f} MiB, {derived / 2**20:,.1f} of them the quick files",
    }
