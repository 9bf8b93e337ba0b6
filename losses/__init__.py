"""What is minimised: one file per loss, each a function of tensors and a class that declares what it needs.

`losses.loss` holds the declaration that data and models are matched by; numbers live in `conf/loss/`.
"""

from losses.angle import AnglE
from losses.arcface import ArcFace
from losses.bce import BinaryCrossEntropy
from losses.bilinear import Bilinear
from losses.ce import CrossEntropy
from losses.ce_mse import CrossEntropyError
from losses.circle import Circle
from losses.clustering import Clustering
from losses.contrastive import Contrastive
from losses.cosent import CoSENT
from losses.cosent_adaptive import CoSENTAdaptive
from losses.cosent_bce import CoSENTAndBCE
from losses.cosent_layers import CoSENTLayers
from losses.cosent_sampled import CoSENTSampled
from losses.cosent_softmax import CoSENTAndSoftmax
from losses.cosent_weighted import CoSENTWeighted
from losses.cosine import CosineSimilarity
from losses.huber import Huber
from losses.info_nce import InfoNCE
from losses.info_nce_extended import InfoNCEExtended
from losses.info_nce_in_batch import InfoNCEInBatch
from losses.info_nce_own import InfoNCEOwn
from losses.info_nce_pool import InfoNCEPool
from losses.loss import Loss, LossOutput
from losses.margin_ranking import MarginRanking
from losses.mse import SquaredError
from losses.nt_xent import NTXent
from losses.online_contrastive import OnlineContrastive
from losses.prototype import Prototype
from losses.quantile import Quantile
from losses.simcse import SimCSE
from losses.simcse_nt_xent import SimCSENTXent
from losses.softmax import SoftmaxClassifier
from losses.triplet import TripletMargin
from losses.triplet_online import TripletOnline

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
