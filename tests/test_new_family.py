"""A new family of models is its class and one object: what evaluates, scores and saves the others takes it as it is."""

from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from juzhen.cli.main import main
from juzhen.encoders.collate import SentenceCollator
from juzhen.encoders.forward import pack
from juzhen.evaluation import evaluate
from juzhen.evaluation.run import cut_in_training
from juzhen.families.family import Family
from juzhen.families.registry import FAMILIES, PairScorer, family_of, find_family, open_encoder

TEXTS = ["今天天气很好", "今天是个好天气", "怎么还花呗"]
SIZE, DIM = 512, 16


class CharacterMeans(nn.Module):
    """The mean of a vector for each character."""

    family = "character_means"
    sides = np.zeros(4, dtype=np.int8)
    score_head = None
    dim = DIM

    def __init__(self) -> None:
        super().__init__()
        self.vectors = nn.EmbeddingBag(SIZE, DIM, mode="mean")

    def tokenize(self, texts):
        return [[ord(character) % SIZE for character in text] for text in texts]

    def forward(self, tokens):
        return self.vectors(tokens.input_ids, tokens.starts)[tokens.inverse_permutation]

    def score(self, pairs, **options):
        first, second = (self(pack(self.tokenize(texts))) for texts in zip(*pairs, strict=True))
        return torch.cosine_similarity(first, second).detach().numpy()


class CharacterFamily(Family):
    cuts = False

    def holds(self, folder):
        return (folder / "characters.pt").is_file()

    def load(self, source, **options):
        encoder = CharacterMeans()
        encoder.load_state_dict(torch.load(Path(source) / "characters.pt", weights_only=True))
        return encoder.eval()

    def save(self, encoder, folder, *, card):
        folder.mkdir()
        torch.save(encoder.state_dict(), folder / "characters.pt")
        return folder

    def collate(self, encoder, tokenize=None, **options):
        return SentenceCollator(encoder.tokenize, pack)

    def fitted(self, encoder, hardware):
        return nullcontext()


@pytest.fixture
def folder(monkeypatch, tmp_path):
    monkeypatch.setitem(FAMILIES, "character_means", CharacterFamily())
    torch.manual_seed(0)
    encoder = CharacterMeans()
    return family_of(encoder).save(encoder, tmp_path / "encoder", card={})


def test_it_is_found_evaluated_and_scored(folder):
    assert find_family(folder) is FAMILIES["character_means"]
    encoder = open_encoder(folder)
    found = evaluate(folder, ["demo_sts"])
    assert found.scores["test/demo_sts/spearman"].value > 0.3
    again = evaluate(encoder, ["demo_sts"])
    np.testing.assert_array_equal(found.per_row["test/demo_sts"], again.per_row["test/demo_sts"])
    scorer = PairScorer(folder)
    scores = scorer([TEXTS[0]] * 2, TEXTS[1:], batch_tokens=64, show_progress=False)
    assert scores[0] > scores[1]
    assert cut_in_training(encoder, None, {"demo_sts": None}) == {}


def test_a_verb_takes_it(folder, capsys):
    assert main(["score", str(folder), *TEXTS[:2]]) == 0
    near = float(capsys.readouterr().out)
    assert main(["score", str(folder), TEXTS[0], TEXTS[2]]) == 0
    assert near > float(capsys.readouterr().out)
    assert main(["export", str(folder), str(folder.parent / "out")]) == 2
    assert "not exported as a graph" in capsys.readouterr().err
