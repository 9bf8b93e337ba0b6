"""What users of sentence-transformers type, and the same here: run by a test, and shown on a page of the site."""

from typing import NamedTuple


class Program(NamedTuple):
    """Two programs that give the same.

    The last line of each is an expression, whose values are compared; the lines before it are statements.

    is_slow  it starts processes
    """

    theirs: str
    ours: str
    is_slow: bool = False

    @property
    def row(self) -> str:
        """Of the table on the page."""
        cells = ["<br>".join(f"`{line}`" for line in side.split("\n")) for side in (self.theirs, self.ours)]
        return f"| {' | '.join(cells)} |"


THEIRS = """
from sentence_transformers import CrossEncoder, SentenceTransformer, util
from sentence_transformers.evaluation import BinaryClassificationEvaluator, EmbeddingSimilarityEvaluator
model = SentenceTransformer(path, device="cpu")
"""

OURS = """
import numpy as np
from juzhen import CrossEncoder, SentenceEncoder, cluster, detect_communities, mine_paraphrases
from juzhen.metrics.correlation import pearson, spearman
from juzhen.metrics.threshold import average_precision
encoder = SentenceEncoder.load(path)
"""

TEXTS = """
texts = ["今天天气很好", "今天是个好天气", "怎么还花呗", "花呗如何还款", "手机号怎么换绑", "今天天气不错"]
queries, corpus = texts[:2], texts[2:]
pairs = [[texts[0], texts[1]], [texts[2], texts[3]], [texts[0], texts[4]], [texts[1], texts[2]]]
first, second = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
grades, labels = [0.9, 0.8, 0.1, 0.0], [1, 1, 0, 0]
"""

PROMPTS = 'prompts = {"query": "问：", "document": "答："}'

PROGRAMS = [
    Program(
        'SentenceTransformer(path, device="cpu").encode(texts)',
        'SentenceEncoder.load(path, device="cpu").encode(texts)',
    ),
    Program("model.encode(texts[0])", "encoder.encode(texts[0])"),
    Program("model.encode(texts, normalize_embeddings=True)", "encoder.encode(texts, normalize=True)"),
    Program("model.encode(texts, convert_to_tensor=True)", "encoder.encode(texts, convert_to_tensor=True)"),
    Program(
        "model.encode(texts, batch_size=32, show_progress_bar=True)",
        "encoder.encode(texts, batch_tokens=4096, show_progress=True)",
    ),
    Program(
        'model.encode(texts, device=["cpu", "cpu"])',
        'encoder.encode(texts, workers=["cpu", "cpu"])',
        is_slow=True,
    ),
    Program('model.encode(texts, prompt="问：")', 'encoder.encode(texts, prompt="问：")'),
    Program(
        f"model.{PROMPTS}\nmodel.encode_query(queries)", f"encoder.{PROMPTS}\nencoder.encode_query(queries)"
    ),
    Program(
        f"model.{PROMPTS}\nmodel.encode_document(corpus)",
        f"encoder.{PROMPTS}\nencoder.encode_document(corpus)",
    ),
    Program(
        f'model.{PROMPTS}\nmodel.encode(texts, prompt_name="query")',
        f'encoder.{PROMPTS}\nencoder.encode(texts, prompt_name="query")',
    ),
    Program(
        f'model.{PROMPTS}\nmodel.default_prompt_name = "query"\nmodel.encode(texts)',
        f'encoder.{PROMPTS}\nencoder.default_prompt_name = "query"\nencoder.encode(texts)',
    ),
    Program(
        "model.max_seq_length = 6\nmodel.encode(texts)",
        "encoder.max_length = 6\nencoder.encode(texts)",
    ),
    Program("model.max_seq_length", "encoder.max_length"),
    Program("model.encode(texts).shape[1]", "encoder.dim"),
    Program('model.tokenizer(texts)["input_ids"]', 'encoder.tokenizer(texts)["input_ids"]'),
    Program('model.to("cpu").device.type', 'encoder.to("cpu").device.type'),
    Program(
        "model.similarity(model.encode(queries), model.encode(corpus))", "encoder.similarity(queries, corpus)"
    ),
    Program(
        "vectors = model.encode(texts)\nmodel.similarity(vectors, vectors)",
        "vectors = encoder.encode(texts)\nencoder.similarity(vectors, vectors)",
    ),
    Program(
        "vectors = model.encode(texts)\nutil.cos_sim(vectors[0], vectors)[0]",
        "vectors = encoder.encode(texts)\nencoder.similarity(vectors[0], vectors)",
    ),
    Program(
        "model.similarity_pairwise(model.encode(first), model.encode(second))",
        "encoder.score(list(zip(first, second)))",
    ),
    Program(
        "util.semantic_search(model.encode(queries), model.encode(corpus), top_k=2)",
        "encoder.search(queries, corpus, top_k=2)",
    ),
    Program(
        "documents = model.encode(corpus)\nutil.semantic_search(model.encode(queries), documents)",
        "documents = encoder.encode(corpus)\nencoder.search(encoder.encode(queries), documents)",
    ),
    Program("util.paraphrase_mining(model, texts)", "mine_paraphrases(encoder.encode(texts))"),
    Program(
        "util.paraphrase_mining_embeddings(model.encode(texts), max_pairs=3)",
        "mine_paraphrases(encoder.encode(texts), max_pairs=3)",
    ),
    Program(
        "util.community_detection(model.encode(texts), threshold=0.6, min_community_size=2)",
        "detect_communities(encoder.encode(texts), min_score=0.6, min_size=2)",
    ),
    Program(
        "from sklearn.cluster import KMeans\nlen(set(KMeans(3).fit_predict(model.encode(texts)).tolist()))",
        "len(set(cluster(encoder.encode(texts), 3).tolist()))",
    ),
    Program(
        "model.save_pretrained(folder)\nSentenceTransformer(folder).encode(texts)",
        "encoder.save(folder)\nSentenceEncoder.load(folder).encode(texts)",
    ),
    Program(
        "model.save_pretrained(folder)\nSentenceTransformer(folder).encode(texts)",
        "encoder.save_pretrained(folder)\nSentenceEncoder.from_pretrained(folder).encode(texts)",
    ),
    Program("CrossEncoder(pair_path).predict(pairs)", "CrossEncoder.load(pair_path).score(pairs)"),
    Program(
        "CrossEncoder(pair_path).predict(pairs)", "CrossEncoder.from_pretrained(pair_path).predict(pairs)"
    ),
    Program(
        "CrossEncoder(pair_path).rank(texts[0], corpus, top_k=2)",
        "CrossEncoder.load(pair_path).rank(texts[0], corpus, top_k=2)",
    ),
    Program(
        "reader = CrossEncoder(pair_path)\nreader.save_pretrained(folder)\nCrossEncoder(folder).predict(pairs)",
        "reader = CrossEncoder.load(pair_path)\nreader.save(folder)\nCrossEncoder.load(folder).score(pairs)",
    ),
    Program(
        'EmbeddingSimilarityEvaluator(first, second, grades)(model)["spearman_cosine"]',
        "spearman(encoder.score(pairs), np.array(grades))",
    ),
    Program(
        'EmbeddingSimilarityEvaluator(first, second, grades)(model)["pearson_cosine"]',
        "pearson(encoder.score(pairs), np.array(grades))",
    ),
    Program(
        'BinaryClassificationEvaluator(first, second, labels)(model)["cosine_ap"]',
        "average_precision(encoder.score(pairs), np.array(labels))",
    ),
]


def table() -> str:
    """The rows of the page."""
    return "\n".join(program.row for program in PROGRAMS)
