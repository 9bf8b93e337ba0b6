"""What type checkers see; `juzhen/__init__.py` loads each name when it is first asked for."""

from juzhen.advice.advise import advise as advise
from juzhen.data.loading import load_ranking as load_ranking
from juzhen.data.search_tables import read_search as read_search
from juzhen.encoders.backbone_config import AdapterConfig as AdapterConfig
from juzhen.encoders.cross_encoder import CrossEncoder as CrossEncoder
from juzhen.encoders.search import quantize as quantize
from juzhen.encoders.sentence_encoder import PromptEncoder as PromptEncoder
from juzhen.encoders.sentence_encoder import SentenceEncoder as SentenceEncoder
from juzhen.evaluation.run import evaluate as evaluate
from juzhen.evaluation.space import analyze_embeddings as analyze_embeddings
from juzhen.families.answers.encoder import GenerativeReranker as GenerativeReranker
from juzhen.families.late.encoder import MultiVectorEncoder as MultiVectorEncoder
from juzhen.families.late.encoder import QueryDocumentEncoder as QueryDocumentEncoder
from juzhen.families.sparse.encoder import SparseEncoder as SparseEncoder
from juzhen.merging.merge import merge as merge
from juzhen.mining import MiningOptions as MiningOptions
from juzhen.mining.groups import cluster as cluster
from juzhen.mining.groups import detect_communities as detect_communities
from juzhen.mining.groups import mine_paraphrases as mine_paraphrases
from juzhen.mining.negatives import mine as mine
from juzhen.training.fit import fit as fit
