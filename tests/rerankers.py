"""Tiny random language models that answer about pairs, with a tokenizer of bytes as Qwen has it."""

import json
from functools import cache
from pathlib import Path

import decoders
import torch
from tokenizers import AddedToken, Regex, Tokenizer, models, pre_tokenizers, trainers
from tokenizers import decoders as decoding
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast

from juzhen.families.answers.prompt import CHAT, chat_template

TURNS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
"""Where Qwen's tokenizers part a text."""
WORDS = [
    "yes no <Query>: <Document>: <Instruct>: a dog runs",
    "今天天气很好 怎么退货",
    "the answer is !\n\n",
    "no yes",
]

PAIRS = [
    ("a dog", "x y"),
    ("今天 天气!", "b z ."),
    ("怎么退货\n", "\n 如何退款 "),
    ("his", "the dog runs " * 60),
    ("the dog runs " * 60, "a b"),
    ("a", "it is 7 . 今"),
    ("<d>:", "<|im_end|> yes"),
]


JOB = (
    "model=reranker",
    "model.true_answer=a",
    "model.false_answer=b",
    "'model.template=\"{instruction}? {query} > {document}\"'".strip("'"),
    "model.instruction=go",
    "backbone.initialize=pretrained",
    "backbone.max_length=48",
)
"""Overrides of a run on a model that `write` gives with by_bytes=False."""


def write(family: str, folder: Path, *, tied: bool = True, by_bytes: bool = True, **settings: object) -> Path:
    """A whole causal model and its tokenizer; by_bytes: with yes, no and marks of turns."""
    decoders.write(family, folder, ends="none")
    if by_bytes:
        tokenizer = byte_tokenizer()
        tokenizer.save_pretrained(folder)
        settings |= {"vocab_size": len(tokenizer), "pad_token_id": 0, "bos_token_id": None, "eos_token_id": 0}
    config = AutoConfig.from_pretrained(
        folder, tie_word_embeddings=tied, **{"max_position_embeddings": 512} | settings
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(config)
    (folder / "model.safetensors").unlink()
    model.save_pretrained(folder)
    return folder


@cache
def _trained() -> str:
    content = Tokenizer(models.BPE())
    content.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    content.decoder = decoding.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        show_progress=False,
        special_tokens=[AddedToken(token, special=True) for token in TURNS],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    content.train_from_iterator(WORDS * 4, trainer)
    return content.to_str()


def byte_tokenizer() -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(_trained()),
        pad_token=TURNS[0],
        eos_token=TURNS[0],
        model_max_length=256,
    )


def theirs(folder: Path, out: Path, *, text: str = CHAT, instruction: str | None = "judge it", answers=None):
    """A CrossEncoder of sentence-transformers with a LogitScore over the model, saved to `out`."""
    from sentence_transformers import CrossEncoder
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.cross_encoder.modules import LogitScore

    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = chat_template(text)
    tokenizer.save_pretrained(folder)
    numbers = answers or [tokenizer.get_vocab()[token] for token in ("yes", "no")]
    parts = [Transformer(str(folder), transformer_task="text-generation"), LogitScore(*numbers)]
    prompts = {} if instruction is None else {"prompts": {"web": instruction}, "default_prompt_name": "web"}
    model = CrossEncoder(modules=parts, device="cpu", activation_fn=torch.nn.Identity(), **prompts)
    model.save(str(out))
    return model


def answer_folder(folder: Path, **changes: object) -> dict:
    """Changes entries of sentence_bert_config.json; gives what it holds then."""
    path = folder / "sentence_bert_config.json"
    settings = json.loads(path.read_text()) | changes
    path.write_text(json.dumps(settings))
    return settings
