"""Losses of classes: logits, or embeddings with a head, shall tell the class of a pair or of a text."""

import math
from typing import Annotated, ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn

from juzhen.core.errors import UserError
from juzhen.core.examples import Kind
from juzhen.core.schema import Among, Number
from juzhen.losses.arguments import Cosine, Share, Temperature, Weight, checks_arguments
from juzhen.losses.loss import Contrast, Loss, LossOutput
from juzhen.losses.pairs import binary_cross_entropy
from juzhen.losses.scores import all_cosines, choice_accuracy, full_precision, row_cosine, sign_accuracy


@checks_arguments
def class_cross_entropy(
    logits: Float[Tensor, "batch classes"],
    classes: Float[Tensor, "batch"],
    *,
    smoothing: float = 0.0,
    focal_gamma: float = 0.0,
) -> Float[Tensor, ""]:
    """Mean cost of the class probabilities p = softmax(logits); `classes` holds class numbers, as floats.

    loss = −(1/N) Σ_i Σ_c ỹ_ic (1 − p_ic)^γ log p_ic, with ỹ = (1 − ε) · onehot(y) + ε/K, K classes. ε, γ as in
    `binary_cross_entropy`, to which it comes down for two classes and the logits' difference.
    """
    logits = full_precision(logits)
    one_hot = F.one_hot(classes.long(), logits.shape[1]).to(logits.dtype)
    soft = smoothing / logits.shape[1] + (1 - smoothing) * one_hot
    log_probability = F.log_softmax(logits, dim=-1)
    if focal_gamma:
        # 1 − p is the sum of the other probabilities; a power below 1 has no derivative at 0.
        remainders = (1 - log_probability.exp()).clamp(min=torch.finfo(logits.dtype).eps)
        log_probability = remainders**focal_gamma * log_probability
    return -(soft * log_probability).sum(dim=-1).mean()


class ClassLoss(Loss):
    """A loss of the class of each row; rows do not meet. Logs the accuracy on the batch."""

    input_kinds: ClassVar[tuple[Kind, ...]] = (Kind.LABELLED_PAIR, Kind.NLI_PAIR)
    input_type = "embeddings"
    is_batchwise = False
    contrast = Contrast.CLASSES


class CrossEntropy(ClassLoss):
    """`class_cross_entropy` of the model's own class logits: a two-node cross-encoder, three nodes for NLI, or
    one for each grade of graded pairs that have few (`grades` of the set).

    For a bi-encoder there are softmax and bilinear, whose classifiers are part of the loss.

    Defaults: the plain loss, as torch.nn.CrossEntropyLoss.
    """

    input_kinds = (Kind.LABELLED_PAIR, Kind.NLI_PAIR, Kind.SCORED_PAIR)
    input_type = "logits"
    choose_when = "a cross-encoder that shall tell classes, such as those of NLI or grades from 0 to 5"

    smoothing: Share = 0.0
    focal_gamma: Weight = 0.0

    def with_logs(self, logits: Tensor, classes: Tensor) -> LossOutput:
        loss = class_cross_entropy(logits, classes, smoothing=self.smoothing, focal_gamma=self.focal_gamma)
        return loss, {"accuracy": choice_accuracy(logits, classes)}


class HeadLoss(ClassLoss):
    """A loss with parameters of its own, which are trained and stored with the model; evaluation stays with cosines.

    dim, num_classes  size of an embedding and number of classes, given by model and data
    """

    has_parameters = True

    dim: int
    num_classes: int


def pair_features(
    first: Float[Tensor, "batch dim"],
    second: Float[Tensor, "batch dim"],
    *,
    use_difference: bool = True,
    use_product: bool = False,
) -> Float[Tensor, "batch features"]:
    """[u, v], then |u − v| and u·v, element by element, where wanted.

    (Reimers and Gurevych 2019, section 3)
    """
    first, second = full_precision(first), full_precision(second)
    parts = [first, second]
    parts += [(first - second).abs()] * use_difference
    parts += [first * second] * use_product
    return torch.cat(parts, dim=-1)


@checks_arguments
def cross_entropy(
    logits: Float[Tensor, "batch classes"], classes: Float[Tensor, "batch"], *, smoothing: float = 0.0
) -> Float[Tensor, ""]:
    """Mean of −log softmax(logits)[class]; `classes` holds class numbers, as floats.

    smoothing  ε, the share of the target that all classes have alike: `class_cross_entropy`
    """
    return F.cross_entropy(full_precision(logits), classes.long(), label_smoothing=smoothing)


class SoftmaxClassifier(HeadLoss):
    """`cross_entropy` of a linear head over `pair_features`.

    smoothing  share of the target given to all classes alike (Szegedy et al. 2016, section 7,
               https://arxiv.org/abs/1512.00567)

    Defaults: [u, v, |u − v|], the form that the paper found best, and no smoothing.
    """

    input_kinds = (Kind.NLI_PAIR, Kind.LABELLED_PAIR)
    paper = "Reimers and Gurevych 2019, https://arxiv.org/abs/1908.10084"
    choose_when = "NLI pairs, when their classes are all there is"

    use_difference: bool = True
    use_product: bool = False
    smoothing: Share = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.head = nn.Linear((2 + self.use_difference + self.use_product) * self.dim, self.num_classes)

    def logits(
        self, first: Float[Tensor, "batch dim"], second: Float[Tensor, "batch dim"]
    ) -> Float[Tensor, "batch classes"]:
        """One number per class of each pair."""
        shape = {"use_difference": self.use_difference, "use_product": self.use_product}
        return self.head(pair_features(first, second, **shape).to(self.head.weight.dtype))

    def with_logs(self, first: Tensor, second: Tensor, classes: Tensor) -> LossOutput:
        logits = self.logits(first, second)
        loss = cross_entropy(logits, classes, smoothing=self.smoothing)
        return loss, {"accuracy": choice_accuracy(logits, classes)}


class SoftmaxGraded(SoftmaxClassifier):
    """`binary_cross_entropy` of a linear head over `pair_features`, held to grades: soft labels of two classes.

    The logit is the difference of the two that the head gives, so that sigmoid(logit) = softmax(logits)[1], and the
    grade y in [0, 1] stands for the probabilities [1 − y, y].

    Defaults: those of `SoftmaxClassifier`.
    """

    input_kinds = (Kind.SCORED_PAIR, Kind.LABELLED_PAIR)
    contrast = Contrast.VALUES
    choose_when = "graded pairs, to compare a classifier that learns from soft labels with losses of cosines"

    def __post_init__(self) -> None:
        self.num_classes = 2  # graded pairs count none
        super().__post_init__()

    def with_logs(self, first: Tensor, second: Tensor, targets: Tensor) -> LossOutput:
        logits = self.logits(first, second)
        logit = full_precision(logits[:, 1]) - full_precision(logits[:, 0])
        loss = binary_cross_entropy(logit, targets, smoothing=self.smoothing)
        return loss, {"mean_absolute_error": (logit.detach().sigmoid() - targets).abs().mean()}


class TextClassifier(HeadLoss):
    """`cross_entropy` of a linear head over one text: the classifier that fine-tuning puts on an encoder.

    The length of an embedding counts, unlike for prototypes.
    """

    input_kinds = (Kind.LABELLED_TEXT,)
    choose_when = (
        "texts with classes, when the classes are all that matters; prototypes make better neighbours"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.head = nn.Linear(self.dim, self.num_classes)

    def with_logs(self, embeddings: Tensor, classes: Tensor) -> LossOutput:
        logits = self.head(embeddings.to(self.head.weight.dtype))
        return cross_entropy(logits, classes), {"accuracy": choice_accuracy(logits, classes)}


OBJECTIVES = ("bce", "ce")


def bilinear_logits(
    first: Float[Tensor, "batch dim"],
    second: Float[Tensor, "batch dim"],
    forms: Float[Tensor, "classes dim dim"],
    shifts: Float[Tensor, "classes"],
) -> Float[Tensor, "batch classes"]:
    """One logit per form: û_iᵀ W_c v̂_i + b_c, with û, v̂ of length 1, so that long embeddings say no more."""
    first, second = F.normalize(full_precision(first), dim=-1), F.normalize(full_precision(second), dim=-1)
    return F.bilinear(first.to(forms.dtype), second.to(forms.dtype), forms, shifts)


class Bilinear(HeadLoss):
    """Cross entropy of `bilinear_logits`: a learnt form uᵀWv tells whether, or how, two sentences belong together.

    objective  bce: one form, whose logit is that of label 1 (0/1 pairs) · ce: one form per class, softmax over them

    W starts small and random, so both sentences are told apart from the start: uᵀWv is not vᵀWu. A form that
    evaluation uses is a part of the model and not of a loss: model.score=bilinear. Raises UserError for bce on more
    than two classes.

    Default: one form per class.
    """

    choose_when = "0/1 or NLI pairs, to compare with softmax: a form of two vectors instead of a linear head"

    objective: Annotated[str, Among(OBJECTIVES)] = "ce"

    def __post_init__(self) -> None:
        super().__post_init__()
        is_binary = self.objective == "bce"
        if is_binary and self.num_classes != 2:
            raise UserError(
                f"objective=bce is for 0/1 pairs, and these have {self.num_classes} classes; use objective=ce"
            )
        self.head = nn.Bilinear(self.dim, self.dim, 1 if is_binary else self.num_classes)

    def with_logs(self, first: Tensor, second: Tensor, classes: Tensor) -> LossOutput:
        logits = bilinear_logits(first, second, self.head.weight, self.head.bias)
        if self.objective == "ce":
            return cross_entropy(logits, classes), {"accuracy": choice_accuracy(logits, classes)}
        (logits,) = logits.unbind(dim=-1)
        return binary_cross_entropy(logits, classes), {"accuracy": sign_accuracy(logits, classes)}


@checks_arguments
def prototype_entropy(
    cosines: Float[Tensor, "batch classes"], classes: Float[Tensor, "batch"], *, temperature: float = 0.05
) -> Float[Tensor, ""]:
    """Cross entropy of the class among the cosines with all prototypes.

    loss = −(1/N) Σ_i log [exp(cos(u_i, w_{y_i})/τ) / Σ_c exp(cos(u_i, w_c)/τ)]. (The normalized softmax of Zhai and Wu
    2019, https://arxiv.org/abs/1811.12649; prototypes that are class means are those of Snell et al. 2017)
    """
    return F.cross_entropy(cosines / temperature, classes.long())


def directions(num_classes: int, dim: int) -> nn.Parameter:
    """One random vector per class; only its direction counts."""
    return nn.Parameter(torch.randn(num_classes, dim) / dim**0.5)


class Prototype(HeadLoss):
    """`prototype_entropy` of texts and one learnt prototype per class: a text shall point along that of its class.

    Default: a temperature of 0.07; Zhai and Wu have 0.05.
    """

    input_kinds = (Kind.LABELLED_TEXT,)
    paper = "Zhai and Wu 2019, https://arxiv.org/abs/1811.12649"
    choose_when = "texts with classes: the first to try"

    temperature: Temperature = 0.07

    def __post_init__(self) -> None:
        super().__post_init__()
        self.prototypes = directions(self.num_classes, self.dim)

    def cost(
        self, cosines: Float[Tensor, "batch classes"], classes: Float[Tensor, "batch"]
    ) -> Float[Tensor, ""]:
        """The scalar, of the cosines of each text with all prototypes."""
        return prototype_entropy(cosines, classes, temperature=self.temperature)

    def with_logs(self, embeddings: Tensor, classes: Tensor) -> LossOutput:
        cosines = all_cosines(embeddings, self.prototypes)
        return self.cost(cosines, classes), {"accuracy": choice_accuracy(cosines, classes)}


SMALLEST_SINE_SQUARE = 1e-6
"""The root of sin² has no derivative at 0; below this angle of a thousandth it counts as constant."""


def with_margin(cosines: Float[Tensor, "batch"], *, margin: float) -> Float[Tensor, "batch"]:
    """cos(θ + m) where θ + m ≤ π; beyond, cos θ − m sin m, which goes on falling where cos(θ + m) would rise.

    The paper leaves the far side open; the straight line is that of its authors' code.
    """
    sines = (1 - cosines.square()).clamp(min=SMALLEST_SINE_SQUARE).sqrt()
    turned = cosines * math.cos(margin) - sines * math.sin(margin)
    return torch.where(cosines > -math.cos(margin), turned, cosines - margin * math.sin(margin))


@checks_arguments
def arcface(
    cosines: Float[Tensor, "batch classes"],
    classes: Float[Tensor, "batch"],
    *,
    margin: float = 0.5,
    temperature: float = 1 / 64,
) -> Float[Tensor, ""]:
    """Cross entropy of the class among the cosines, its own cosine moved away by the margin first.

    loss = −(1/N) Σ_i log [e^{cos(θ_i + m)/τ} / (e^{cos(θ_i + m)/τ} + Σ_{c ≠ y_i} e^{cos θ_ic/τ})], θ_i the angle
    between text i and the prototype of its class. (Deng et al. 2019, equation 3, https://arxiv.org/abs/1801.07698;
    their scale s = 64 is τ = 1/64.)
    """
    indices = classes.long().unsqueeze(1)
    moved = with_margin(cosines.gather(1, indices).squeeze(1), margin=margin)
    logits = cosines.scatter(1, indices, moved.unsqueeze(1)) / temperature
    return F.cross_entropy(logits, classes.long())


class ArcFace(Prototype):
    """`arcface` of texts and one prototype per class; its margin is an angle that the own class has to make up for.

    Defaults: the margin and the scale of the paper. The accuracy is logged without the margin.
    """

    paper = "Deng et al. 2019, https://arxiv.org/abs/1801.07698"
    choose_when = "texts with many classes that shall lie in well separated cones"

    margin: Annotated[Number, Field(ge=0, le=math.pi)] = 0.5
    temperature: Temperature = 1 / 64

    def cost(
        self, cosines: Float[Tensor, "batch classes"], classes: Float[Tensor, "batch"]
    ) -> Float[Tensor, ""]:
        return arcface(cosines, classes, margin=self.margin, temperature=self.temperature)


def centres_of(
    embeddings: Float[Tensor, "batch dim"], classes: Float[Tensor, "batch"]
) -> tuple[Float[Tensor, "classes dim"], Int[Tensor, "batch"]]:
    """Sum of the unit embeddings of each class that the batch has, and for each row which of them is its own."""
    present, members = torch.unique(classes, return_inverse=True)
    unit = F.normalize(full_precision(embeddings), dim=-1)
    return unit.new_zeros(len(present), unit.shape[1]).index_add(0, members, unit), members


@checks_arguments
def clustering(
    embeddings: Float[Tensor, "batch dim"],
    classes: Float[Tensor, "batch"],
    *,
    separation_weight: float = 1.0,
    separation_margin: float = 0.0,
) -> Float[Tensor, ""]:
    """Cosine distance of texts to the centre of their class, and closeness of the centres to each other.

    loss = (1/N) Σ_i (1 − cos(u_i, c_{y_i})) + w · mean over classes k < l of max(0, cos(c_k, c_l) − m), where c_k is
    the mean direction of the batch's texts of class k; the second part is 0 in a batch of one class.

    Without the second part all texts in one point are a perfect solution, and one that training finds. (The idea of
    pulling to centres is that of center loss, Wen et al. 2016, https://doi.org/10.1007/978-3-319-46478-7_31, which
    relies on a classifier beside it to keep classes apart.)
    """
    centres, members = centres_of(embeddings, classes)
    pull = (1 - row_cosine(embeddings, centres[members])).mean()
    above = torch.ones(len(centres), len(centres), dtype=torch.bool, device=centres.device).triu(1)
    closeness = (all_cosines(centres, centres) - separation_margin).relu()
    push = torch.where(above, closeness, 0).sum() / above.sum().clamp(min=1)
    return pull + separation_weight * push


class Clustering(ClassLoss):
    """`clustering` of labelled texts: classes are clusters, centres those of the batch.

    Defaults: both parts count alike, and centres shall be at right angles.

    Logs the mean cosine of texts with their own centre.
    """

    input_kinds = (Kind.LABELLED_TEXT,)
    is_batchwise = True
    paper = "Wen et al. 2016, https://doi.org/10.1007/978-3-319-46478-7_31"
    choose_when = "texts with classes that shall be clustered, with several texts of a class in a batch"

    separation_weight: Weight = 1.0
    separation_margin: Cosine = 0.0

    def with_logs(self, embeddings: Tensor, classes: Tensor) -> LossOutput:
        weights = {"separation_weight": self.separation_weight, "separation_margin": self.separation_margin}
        with torch.no_grad():
            centres, members = centres_of(embeddings, classes)
            cosine = row_cosine(embeddings, centres[members]).mean()
        return clustering(embeddings, classes, **weights), {"own_centre_cosine": cosine}
