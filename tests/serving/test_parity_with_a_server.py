"""`juzhen verify --with`: a server gives the vectors of the encoder, and one behind another prompt does not."""

from juzhen import SentenceEncoder
from juzhen.export.backend_comparison import compare_backends

TEXTS = ["今天天气很好", "怎么退货", "A dog runs", "[SEP] 你好", "我们去公园散步" * 9]


def test_a_server_is_compared(prompted_folder, address):
    encoder = SentenceEncoder.load(prompted_folder)
    texts = [text for text in TEXTS if len(text) < encoder.max_length - 2]
    (way,) = compare_backends(encoder, texts, beside=[address], only=())
    assert way.differing == 0
    assert way.largest < 1e-6
    encoder.default_prompt_name = "query"
    (way,) = compare_backends(encoder, texts, beside=[f"{address}/v1"], only=())
    assert way.differing == len(texts)
    assert way.text == texts[0]
    assert way.reason == "prompt: none stands before it"
