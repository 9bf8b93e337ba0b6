"""What is minimised: one file per loss, each a function of tensors and a class that declares what it needs.

`juzhen.losses.loss` holds the declaration that data and models are matched by; numbers live in `conf/loss/`.
"""

from juzhen.losses.angle import AnglE
from juzhen.losses.arcface import ArcFace
from juzhen.losses.bce import BinaryCrossEntropy
from juzhen.losses.bilinear import Bilinear
from juzhen.losses.ce import CrossEntropy
from juzhen.losses.ce_mse import CrossEntropyError
from juzhen.losses.circle import Circle
from juzhen.losses.clustering import Clustering
from juzhen.losses.contrastive import Contrastive
from juzhen.losses.cosent import CoSENT
from juzhen.losses.cosent_adaptive import CoSENTAdaptive
from juzhen.losses.cosent_bce import CoSENTAndBCE
from juzhen.losses.cosent_layers import CoSENTLayers
from juzhen.losses.cosent_sampled import CoSENTSampled
from juzhen.losses.cosent_softmax import CoSENTAndSoftmax
from juzhen.losses.cosent_weighted import CoSENTWeighted
from juzhen.losses.cosine import CosineSimilarity
from juzhen.losses.huber import Huber
from juzhen.losses.info_nce import InfoNCE
from juzhen.losses.info_nce_extended import InfoNCEExtended
from juzhen.losses.info_nce_in_batch import InfoNCEInBatch
from juzhen.losses.info_nce_own import InfoNCEOwn
from juzhen.losses.info_nce_pool import InfoNCEPool
from juzhen.losses.loss import Loss, LossOutput
from juzhen.losses.margin_ranking import MarginRanking
from juzhen.losses.mse import SquaredError
from juzhen.losses.nt_xent import NTXent
from juzhen.losses.online_contrastive import OnlineContrastive
from juzhen.losses.prototype import Prototype
from juzhen.losses.quantile import Quantile
from juzhen.losses.simcse import SimCSE
from juzhen.losses.simcse_nt_xent import SimCSENTXent
from juzhen.losses.softmax import SoftmaxClassifier
from juzhen.losses.triplet import TripletMargin
from juzhen.losses.triplet_online import TripletOnline

__all__ = [
    "AnglE",
    "ArcFace",
    "Bilinear",
    "BinaryCrossEntropy",
    "Circle",
    "Clustering",
    "CoSENT",
    "CoSENTAdaptive",
    "CoSENTAndBCE",
    "CoSENTAndSoftmax",
    "CoSENTLayers",
    "CoSENTSampled",
    "CoSENTWeighted",
    "Contrastive",
    "CosineSimilarity",
    "CrossEntropy",
    "CrossEntropyError",
    "Huber",
    "InfoNCE",
    "InfoNCEExtended",
    "InfoNCEInBatch",
    "InfoNCEOwn",
    "InfoNCEPool",
    "Loss",
    "LossOutput",
    "MarginRanking",
    "NTXent",
    "OnlineContrastive",
    "Prototype",
    "Quantile",
    "SimCSE",
    "SimCSENTXent",
    "SoftmaxClassifier",
    "SquaredError",
    "TripletMargin",
    "TripletOnline",
]
