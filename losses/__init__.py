"""What is minimised: one file per loss, each a function of tensors and a class that declares what it needs.

`losses.loss` holds the declaration that data and models are matched by; numbers live in `conf/loss/`.
"""

from losses.contrastive import Contrastive
from losses.cosent import CoSENT
from losses.cosine import CosineSimilarity
from losses.info_nce import InfoNCE
from losses.loss import Loss, LossOutput
from losses.online_contrastive import OnlineContrastive
from losses.softmax import SoftmaxClassifier
from losses.triplet import TripletMargin

__all__ = [
    "CoSENT",
    "Contrastive",
    "CosineSimilarity",
    "InfoNCE",
    "Loss",
    "LossOutput",
    "OnlineContrastive",
    "SoftmaxClassifier",
    "TripletMargin",
]
