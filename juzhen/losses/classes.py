"""Losses of classes: logits, or embeddings with a head, predict the class of a pair or of a text."""

import math
from typing import Annotated, ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn

from juzhen.core.aliases import RENAMED_IN_LOSSES, accept_renamed
from juzhen.core.errors import UserError
from juzhen.core.examples import Kind
from juzhen.core.schema import Among, Number
from juzhen.losses.arguments import Classes, Cosine, Count, Share, Temperature, Weight, checks_arguments
from juzhen.losses.loss import Contrast, Loss, LossOutput
from juzhen.losses.pairs import binary_cross_entropy
from juzhen.losses.scores import all_cosines, choice_accuracy, full_precision, row_cosine, sign_accuracy


@accept_renamed(RENAMED_IN_LOSSES)
@checks_arguments
def class_cross_entropy(
    logits: Float[Tensor, "batch classes"],
    classes: Float[Tensor, "batch"],
    *,
    label_smoothing: float = 0.0,
    focal_gamma: float = 0.0,
) -> Float[Tensor, ""]:
    """Compute the cross entropy of p = softmax(logits), with label smoothing and focal weights.

    loss = −(1/N) Σ_i Σ_c ỹ_ic (1 − p_ic)^γ log p_ic, with ỹ = (1 − ε) · onehot(y) + ε/K, K classes. For two classes
    and the difference of the logits it is `binary_cross_entropy`.

    Args:
        logits: One number per class, (batch, classes).
        classes: Class numbers as floats, (batch,).
        label_smoothing: ε.
        focal_gamma: γ.

    Returns:
        The scalar loss.

    Example:
        >>> class_cross_entropy(torch.tensor([[2.0, 0.0]]), torch.tensor([0.0]))
        tensor(0.1269)
        >>> class_cross_entropy(torch.tensor([[2.0, 0.0]]), torch.tensor([0.0]), focal_gamma=2.0)
        tensor(0.0018)
    """
    logits = full_precision(logits)
    one_hot = F.one_hot(classes.long(), logits.shape[1]).to(logits.dtype)
    soft = label_smoothing / logits.shape[1] + (1 - label_smoothing) * one_hot
    log_probability = F.log_softmax(logits, dim=-1)
    if focal_gamma:
        # 1 − p is the sum of the other probabilities; a power below 1 has no derivative at 0.
        remainders = (1 - log_probability.exp()).clamp(min=torch.finfo(logits.dtype).eps)
        log_probability = remainders**focal_gamma * log_probability
    return -(soft * log_probability).sum(dim=-1).mean()


class ClassLoss(Loss):
    """Base of losses over the class of each row. Logs the accuracy on the batch.

    Example:
        >>> class NearestAxis(ClassLoss):
        ...     def with_logs(self, first, second, classes):
        ...         return cross_entropy(first * second, classes), {}
        >>> NearestAxis()(torch.eye(2), torch.eye(2), torch.tensor([0.0, 1.0]))
        tensor(0.3133)
    """

    input_kinds: ClassVar[tuple[Kind, ...]] = (Kind.LABELLED_PAIR, Kind.NLI_PAIR)
    input_type = "embeddings"
    is_batchwise = False
    contrast = Contrast.CLASSES


@accept_renamed(RENAMED_IN_LOSSES)
class CrossEntropy(ClassLoss):
    """Cross entropy of the model's own class logits.

    See `class_cross_entropy`. For cross-encoders: two nodes, three nodes for NLI, or one node for each of the few
    grades of graded pairs (`grades` of the set). Defaults: torch.nn.CrossEntropyLoss.

    Inputs:
        | texts | label | row kind |
        |---|---|---|
        | two texts | 0 or 1 | labelled_pair |
        | premise, hypothesis | class | nli_pair |
        | two texts | grade | scored_pair |

    Relations:
        A bi-encoder has no class logits. `SoftmaxClassifier` and `Bilinear` bring a classifier of their own.

    Args:
        label_smoothing: ε, label smoothing.
        focal_gamma: γ of the focal loss. 0: the plain loss.

    Example:
        >>> CrossEntropy()(torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0.0, 1.0]))
        tensor(0.2201)
    """

    input_kinds = (Kind.LABELLED_PAIR, Kind.NLI_PAIR, Kind.SCORED_PAIR)
    input_type = "logits"
    choose_when = "a cross-encoder that must predict classes, such as those of NLI or grades from 0 to 5"

    label_smoothing: Share = 0.0
    focal_gamma: Weight = 0.0

    def with_logs(self, logits: Tensor, classes: Tensor) -> LossOutput:
        loss = class_cross_entropy(
            logits, classes, label_smoothing=self.label_smoothing, focal_gamma=self.focal_gamma
        )
        return loss, {"accuracy": choice_accuracy(logits, classes)}


class HeadLoss(ClassLoss):
    """Base of losses with trainable parameters, which are stored with the model. Evaluation still uses cosines.

    Args:
        dim: Size of an embedding, given by the model.
        num_classes: Number of classes, given by the data.

    Example:
        >>> SoftmaxClassifier(dim=4, num_classes=3).has_parameters
        True
    """

    has_parameters = True

    dim: Count
    num_classes: Classes


def pair_features(
    first: Float[Tensor, "batch dim"],
    second: Float[Tensor, "batch dim"],
    *,
    use_difference: bool = True,
    use_product: bool = False,
) -> Float[Tensor, "batch features"]:
    """Concatenate [u, v], then |u − v| and u ⊙ v when asked for (Reimers and Gurevych 2019, section 3).

    Args:
        first: u, (batch, dim).
        second: v, (batch, dim).
        use_difference: Add |u − v|.
        use_product: Add u ⊙ v.

    Returns:
        Features, (batch, features).

    Example:
        >>> pair_features(torch.ones(2, 4), torch.zeros(2, 4)).shape
        torch.Size([2, 12])
    """
    first, second = full_precision(first), full_precision(second)
    parts = [first, second]
    parts += [(first - second).abs()] * use_difference
    parts += [first * second] * use_product
    return torch.cat(parts, dim=-1)


@accept_renamed(RENAMED_IN_LOSSES)
@checks_arguments
def cross_entropy(
    logits: Float[Tensor, "batch classes"], classes: Float[Tensor, "batch"], *, label_smoothing: float = 0.0
) -> Float[Tensor, ""]:
    """Compute the mean of −log softmax(logits)[class].

    Args:
        logits: One number per class, (batch, classes).
        classes: Class numbers as floats, (batch,).
        label_smoothing: ε, the share of the target given to all classes alike, see `class_cross_entropy`.

    Returns:
        The scalar loss.

    Example:
        >>> cross_entropy(torch.tensor([[2.0, 0.0]]), torch.tensor([0.0]))
        tensor(0.1269)
    """
    return F.cross_entropy(full_precision(logits), classes.long(), label_smoothing=label_smoothing)


@accept_renamed(RENAMED_IN_LOSSES)
class SoftmaxClassifier(HeadLoss):
    """Softmax classifier of Sentence-BERT: cross entropy of a linear head over [u, v, |u − v|].

    See `cross_entropy` and `pair_features`. Defaults: the features that the paper found best, and no smoothing.

    Inputs:
        | texts | label | row kind |
        |---|---|---|
        | premise, hypothesis | class | nli_pair |
        | two texts | 0 or 1 | labelled_pair |

    Relations:
        `CoSENTAndSoftmax` adds a ranking term. `SoftmaxGraded` takes grades. `Bilinear` has another head.

    Args:
        dim: Size of an embedding, given by the model.
        num_classes: Number of classes, given by the data.
        use_difference: Add |u − v| to the features.
        use_product: Add u ⊙ v to the features.
        label_smoothing: Share of the target given to all classes alike (Szegedy et al. 2016, section 7,
            https://arxiv.org/abs/1512.00567).

    Example:
        >>> loss = SoftmaxClassifier(dim=4, num_classes=3)
        >>> loss(torch.ones(2, 4), torch.zeros(2, 4), torch.tensor([0.0, 2.0])).shape
        torch.Size([])
    """

    input_kinds = (Kind.NLI_PAIR, Kind.LABELLED_PAIR)
    paper = "Reimers and Gurevych 2019, https://arxiv.org/abs/1908.10084"
    choose_when = "NLI pairs, when their classes are all there is"

    use_difference: bool = True
    use_product: bool = False
    label_smoothing: Share = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.head = nn.Linear((2 + self.use_difference + self.use_product) * self.dim, self.num_classes)

    def logits(
        self, first: Float[Tensor, "batch dim"], second: Float[Tensor, "batch dim"]
    ) -> Float[Tensor, "batch classes"]:
        """One number per class of each pair.

        Args:
            first: Embeddings of the first texts.
            second: Embeddings of the second texts.

        Returns:
            Logits, (batch, classes).
        """
        shape = {"use_difference": self.use_difference, "use_product": self.use_product}
        return self.head(pair_features(first, second, **shape).to(self.head.weight.dtype))

    def with_logs(self, first: Tensor, second: Tensor, classes: Tensor) -> LossOutput:
        logits = self.logits(first, second)
        loss = cross_entropy(logits, classes, label_smoothing=self.label_smoothing)
        return loss, {"accuracy": choice_accuracy(logits, classes)}


@accept_renamed(RENAMED_IN_LOSSES)
class SoftmaxGraded(SoftmaxClassifier):
    """Softmax classifier with soft labels: a grade y stands for the probabilities [1 − y, y].

    `binary_cross_entropy` of the difference of the two logits that a linear head over `pair_features` gives, so that
    sigmoid(logit) = softmax(logits)[1]. Defaults: those of `SoftmaxClassifier`.

    Inputs:
        | texts | label | row kind |
        |---|---|---|
        | two texts | grade | scored_pair |
        | two texts | 0 or 1 | labelled_pair |

    Relations:
        `SoftmaxClassifier` for classes.

    Args:
        dim: Size of an embedding, given by the model.
        num_classes: Not used, always 2.
        use_difference: Add |u − v| to the features.
        use_product: Add u ⊙ v to the features.
        label_smoothing: Label smoothing.

    Example:
        >>> loss = SoftmaxGraded(dim=4, num_classes=2)
        >>> loss(torch.ones(2, 4), torch.zeros(2, 4), torch.tensor([0.0, 0.8])).shape
        torch.Size([])
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
        loss = binary_cross_entropy(logit, targets, label_smoothing=self.label_smoothing)
        return loss, {"mean_absolute_error": (logit.detach().sigmoid() - targets).abs().mean()}


class TextClassifier(HeadLoss):
    """Cross entropy of a linear head over one text: the usual fine-tuning classifier.

    See `cross_entropy`. The length of an embedding counts, unlike for prototypes.

    Inputs:
        | texts | label | row kind |
        |---|---|---|
        | one text | class | labelled_text |

    Relations:
        `Prototype` compares directions only, and makes better neighbours.

    Args:
        dim: Size of an embedding, given by the model.
        num_classes: Number of classes, given by the data.

    Example:
        >>> TextClassifier(dim=4, num_classes=3)(torch.ones(2, 4), torch.tensor([0.0, 2.0])).shape
        torch.Size([])
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
    """Compute û_iᵀ W_c v̂_i + b_c for each form c, with û, v̂ of length 1.

    Args:
        first: u, (batch, dim).
        second: v, (batch, dim).
        forms: W, (classes, dim, dim).
        shifts: b, (classes,).

    Returns:
        Logits, (batch, classes).

    Example:
        >>> bilinear_logits(torch.eye(2), torch.eye(2), torch.eye(2)[None], torch.zeros(1))
        tensor([[1.],
                [1.]])
    """
    first, second = F.normalize(full_precision(first), dim=-1), F.normalize(full_precision(second), dim=-1)
    return F.bilinear(first.to(forms.dtype), second.to(forms.dtype), forms, shifts)


class Bilinear(HeadLoss):
    """Cross entropy of learnt bilinear forms û_iᵀ W_c v̂_i + b_c.

    û and v̂ have length 1, so the length of an embedding does not matter. W starts small and random, so the two
    sentences have different roles from the start: uᵀWv is not vᵀWu. To use such a form in evaluation, make it part of
    the model: model.score=bilinear.

    Inputs:
        | texts | label | row kind |
        |---|---|---|
        | two texts | 0 or 1 | labelled_pair |
        | premise, hypothesis | class | nli_pair |

    Relations:
        `SoftmaxClassifier` has a linear head over [u, v, |u − v|].

    Args:
        dim: Size of an embedding, given by the model.
        num_classes: Number of classes, given by the data.
        objective: "ce": one form per class and a softmax over them. "bce": one form, whose logit is that of label 1.

    Raises:
        UserError: "bce" on more than two classes.

    Example:
        >>> Bilinear(dim=4, num_classes=3)(torch.ones(2, 4), torch.ones(2, 4), torch.tensor([0.0, 2.0])).shape
        torch.Size([])
    """

    choose_when = "0/1 or NLI pairs, to compare with softmax: a form of two vectors instead of a linear head"

    objective: Annotated[str, Among(OBJECTIVES)] = "ce"

    def __post_init__(self) -> None:
        super().__post_init__()
        is_binary = self.objective == "bce"
        if is_binary and self.num_classes != 2:
            raise UserError(
                f"objective=bce is for 0/1 pairs, and these have {self.num_classes} classes. Use objective=ce"
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
    """Compute the cross entropy of the class among the cosines with all prototypes.

    loss = −(1/N) Σ_i log [exp(cos(u_i, w_{y_i})/τ) / Σ_c exp(cos(u_i, w_c)/τ)]. (The normalized softmax of Zhai and Wu
    2019, https://arxiv.org/abs/1811.12649. Snell et al. 2017 use class means as prototypes.)

    Args:
        cosines: Cosine of each text with each prototype, (batch, classes).
        classes: Class numbers as floats, (batch,).
        temperature: τ, divides the cosines.

    Returns:
        The scalar loss.

    Example:
        >>> prototype_entropy(torch.tensor([[0.9, 0.1], [0.2, 0.8]]), torch.tensor([0.0, 1.0]), temperature=0.1)
        tensor(0.0014)
    """
    return F.cross_entropy(cosines / temperature, classes.long())


def directions(num_classes: int, dim: int) -> nn.Parameter:
    """Draw one random vector per class. Only its direction counts.

    Args:
        num_classes: Number of classes.
        dim: Size of a vector.

    Returns:
        The vectors, (num_classes, dim).

    Example:
        >>> directions(3, 8).shape
        torch.Size([3, 8])
    """
    return nn.Parameter(torch.randn(num_classes, dim) / dim**0.5)


class Prototype(HeadLoss):
    """Normalized softmax: one learnt prototype per class.

    See `prototype_entropy`. A text must have the direction of the prototype of its class. Default temperature: 0.07.
    Zhai and Wu have 0.05.

    Inputs:
        | texts | label | row kind |
        |---|---|---|
        | one text | class | labelled_text |

    Relations:
        `ArcFace` adds a margin. `SupCon` needs no prototypes.

    Args:
        dim: Size of an embedding, given by the model.
        num_classes: Number of classes, given by the data.
        temperature: Divides the cosines.

    Example:
        >>> Prototype(dim=4, num_classes=3)(torch.ones(2, 4), torch.tensor([0.0, 2.0])).shape
        torch.Size([])
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
        """The scalar, of the cosines of each text with all prototypes.

        Args:
            cosines: Cosine of each text with each prototype.
            classes: Class index of each text.

        Returns:
            The loss.
        """
        return prototype_entropy(cosines, classes, temperature=self.temperature)

    def with_logs(self, embeddings: Tensor, classes: Tensor) -> LossOutput:
        cosines = all_cosines(embeddings, self.prototypes)
        return self.cost(cosines, classes), {"accuracy": choice_accuracy(cosines, classes)}


SMALLEST_SINE_SQUARE = 1e-6
"""The root of sin² has no derivative at 0; below this angle of a thousandth it counts as constant."""


def with_margin(cosines: Float[Tensor, "batch"], *, margin: float) -> Float[Tensor, "batch"]:
    """Compute cos(θ + m) where θ + m ≤ π. Beyond, cos θ − m sin m, which keeps falling where cos(θ + m) would rise.

    The paper leaves the far side open. The straight line is that of its authors' code.

    Args:
        cosines: cos θ, (batch,).
        margin: m, an angle.

    Returns:
        Moved cosines, (batch,).

    Example:
        >>> with_margin(torch.tensor([1.0, 0.0, -1.0]), margin=0.5)
        tensor([ 0.8771, -0.4794, -1.2397])
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
    """Compute the cross entropy of the class among the cosines, after moving the own cosine by the margin.

    loss = −(1/N) Σ_i log [e^{cos(θ_i + m)/τ} / (e^{cos(θ_i + m)/τ} + Σ_{c ≠ y_i} e^{cos θ_ic/τ})], θ_i the angle
    between text i and the prototype of its class. (Deng et al. 2019, equation 3, https://arxiv.org/abs/1801.07698,
    whose scale s = 64 is τ = 1/64.)

    Args:
        cosines: Cosine of each text with each prototype, (batch, classes).
        classes: Class numbers as floats, (batch,).
        margin: m, an angle.
        temperature: τ, divides the cosines.

    Returns:
        The scalar loss.

    Example:
        >>> arcface(torch.tensor([[0.9, 0.1], [0.2, 0.8]]), torch.tensor([0.0, 1.0]), temperature=0.1)
        tensor(0.0595)
    """
    indices = classes.long().unsqueeze(1)
    moved = with_margin(cosines.gather(1, indices).squeeze(1), margin=margin)
    logits = cosines.scatter(1, indices, moved.unsqueeze(1)) / temperature
    return F.cross_entropy(logits, classes.long())


class ArcFace(Prototype):
    """ArcFace: prototypes with an angular margin that the own class must overcome.

    See `arcface`. Defaults: the margin and the scale of the paper. The accuracy is logged without the margin.

    Inputs:
        | texts | label | row kind |
        |---|---|---|
        | one text | class | labelled_text |

    Relations:
        `Prototype` at margin=0.

    Args:
        dim: Size of an embedding, given by the model.
        num_classes: Number of classes, given by the data.
        margin: m, an angle in [0, π].
        temperature: Divides the cosines.

    Example:
        >>> ArcFace(dim=4, num_classes=3)(torch.ones(2, 4), torch.tensor([0.0, 2.0])).shape
        torch.Size([])
    """

    paper = "Deng et al. 2019, https://arxiv.org/abs/1801.07698"
    choose_when = "texts with many classes that should form well separated cones"

    margin: Annotated[Number, Field(ge=0, le=math.pi)] = 0.5
    temperature: Temperature = 1 / 64

    def cost(
        self, cosines: Float[Tensor, "batch classes"], classes: Float[Tensor, "batch"]
    ) -> Float[Tensor, ""]:
        return arcface(cosines, classes, margin=self.margin, temperature=self.temperature)


def _class_centres(
    embeddings: Float[Tensor, "batch dim"], classes: Float[Tensor, "batch"]
) -> tuple[Float[Tensor, "classes dim"], Int[Tensor, "batch"]]:
    """Sum the unit embeddings of each class in the batch, and find each row's class among them."""
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
    """Compute the cosine distance of texts to their class centre, plus the closeness of the centres.

    loss = (1/N) Σ_i (1 − cos(u_i, c_{y_i})) + w · mean over classes k < l of max(0, cos(c_k, c_l) − m), where c_k is
    the mean direction of the batch's texts of class k. The second part is 0 in a batch of one class. Without the
    second part all texts in one point are a perfect solution, and training finds it. (The idea of pulling to centres
    is that of center loss, Wen et al. 2016, https://doi.org/10.1007/978-3-319-46478-7_31, which needs an additional
    classifier to keep classes apart.)

    Args:
        embeddings: Texts, (batch, dim).
        classes: Class numbers as floats, (batch,).
        separation_weight: w.
        separation_margin: m.

    Returns:
        The scalar loss.

    Example:
        >>> clustering(torch.eye(2), torch.tensor([0.0, 1.0]))
        tensor(0.)
        >>> clustering(torch.ones(2, 2), torch.tensor([0.0, 1.0]))
        tensor(1.0000)
    """
    centres, members = _class_centres(embeddings, classes)
    pull = (1 - row_cosine(embeddings, centres[members])).mean()
    above = torch.ones(len(centres), len(centres), dtype=torch.bool, device=centres.device).triu(1)
    closeness = (all_cosines(centres, centres) - separation_margin).relu()
    push = torch.where(above, closeness, 0).sum() / above.sum().clamp(min=1)
    return pull + separation_weight * push


class Clustering(ClassLoss):
    """Clustering loss: classes are clusters around the centres of the batch.

    See `clustering`. Defaults: both parts count alike, and centres are pushed to right angles. Logs the mean cosine of
    texts with their own centre.

    Inputs:
        | texts | label | row kind |
        |---|---|---|
        | one text | class | labelled_text |

    Relations:
        `SupCon` compares texts with texts.

    Args:
        separation_weight: Weight of the closeness of the centres.
        separation_margin: Cosine of two centres that costs nothing.

    Example:
        >>> Clustering()(torch.eye(4), torch.tensor([0.0, 0.0, 1.0, 1.0]))
        tensor(0.2929)
    """

    input_kinds = (Kind.LABELLED_TEXT,)
    is_batchwise = True
    paper = "Wen et al. 2016, https://doi.org/10.1007/978-3-319-46478-7_31"
    choose_when = "texts with classes that should be clustered, with several texts of a class in a batch"

    separation_weight: Weight = 1.0
    separation_margin: Cosine = 0.0

    def with_logs(self, embeddings: Tensor, classes: Tensor) -> LossOutput:
        weights = {"separation_weight": self.separation_weight, "separation_margin": self.separation_margin}
        with torch.no_grad():
            centres, members = _class_centres(embeddings, classes)
            cosine = row_cosine(embeddings, centres[members]).mean()
        return clustering(embeddings, classes, **weights), {"own_centre_cosine": cosine}
