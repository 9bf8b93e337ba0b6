"""Every loss once more, row by row, as its formula reads. Slow on purpose: no vectorisation, no sorting.

Arguments are float64 tensors; the loops go over their single elements, so that autograd gives gradients to
compare with.
"""

import torch


def dot(first, second):
    return sum(a * b for a, b in zip(first, second, strict=True))


def cosine(first, second):
    return dot(first, second) / (dot(first, first).sqrt() * dot(second, second).sqrt())


def euclidean(first, second):
    difference = [a - b for a, b in zip(first, second, strict=True)]
    return dot(difference, difference).sqrt()


def cosent(scores, targets, temperature):
    total = torch.ones((), dtype=scores.dtype) + 0 * scores.sum()
    for i in range(len(scores)):
        for j in range(len(scores)):
            if targets[i] > targets[j]:
                total = total + torch.exp((scores[j] - scores[i]) / temperature)
    return total.log()


def cosine_regression(scores, targets, low, high):
    total = 0
    for score, target in zip(scores, targets, strict=True):
        total = total + (score - (low + target * (high - low))) ** 2
    return total / len(scores)


def contrastive(scores, labels, margin):
    total = 0
    for score, label in zip(scores, labels, strict=True):
        distance = 1 - score
        if label == 1:
            total = total + 0.5 * distance**2
        elif distance < margin:
            total = total + 0.5 * (margin - distance) ** 2
    return total / len(scores) + 0 * scores.sum()


def online_contrastive(scores, labels, margin, reduction):
    positives = [1 - score for score, label in zip(scores, labels, strict=True) if label == 1]
    negatives = [1 - score for score, label in zip(scores, labels, strict=True) if label == 0]
    total = 0 * scores.sum()
    for distance in positives:
        if not negatives or distance > min(negatives):
            total = total + distance**2
    for distance in negatives:
        if (not positives or distance < max(positives)) and distance < margin:
            total = total + (margin - distance) ** 2
    return total if reduction == "sum" else total / len(scores)


def softmax(first, second, classes, weight, bias, *, use_difference, use_product):
    total = 0
    for u, v, label in zip(first, second, classes, strict=True):
        features = [*u, *v]
        features += [abs(a - b) for a, b in zip(u, v, strict=True)] if use_difference else []
        features += [a * b for a, b in zip(u, v, strict=True)] if use_product else []
        logits = [dot(features, row) + shift for row, shift in zip(weight, bias, strict=True)]
        total = total + sum(logit.exp() for logit in logits).log() - logits[int(label)]
    return total / len(first)


def info_nce(anchors, pools, anchor_texts, pool_texts, temperature, symmetric):
    """pools, pool_texts: the positives first, then one entry per column of explicit negatives."""
    count = len(anchors)
    pairs = {(anchor_texts[row], pool_texts[0][row]) for row in range(count)}
    total = 0
    for row in range(count):
        own = (cosine(anchors[row], pools[0][row]) / temperature).exp()
        denominator = own
        for column, (pool, texts) in enumerate(zip(pools, pool_texts, strict=True)):
            for other in range(count):
                is_own = column == 0 and other == row
                is_known = texts[other] == anchor_texts[row] or (anchor_texts[row], texts[other]) in pairs
                if not is_own and not is_known:
                    denominator = denominator + (cosine(anchors[row], pool[other]) / temperature).exp()
        total = total - (own / denominator).log()
        if symmetric:
            denominator = own
            for other in range(count):
                text, positive = anchor_texts[other], pool_texts[0][row]
                if other != row and text != positive and (text, positive) not in pairs:
                    denominator = denominator + (cosine(anchors[other], pools[0][row]) / temperature).exp()
            total = total - (own / denominator).log()
    return total / count / (2 if symmetric else 1)


def triplet(anchors, positives, negatives, margin, distance):
    """negatives: one entry per column."""
    measure = {"cosine": lambda a, b: 1 - cosine(a, b), "euclidean": euclidean}[distance]
    total = 0 * anchors.sum()
    for row in range(len(anchors)):
        for column in negatives:
            violation = margin + measure(anchors[row], positives[row]) - measure(anchors[row], column[row])
            if violation > 0:
                total = total + violation
    return total / (len(anchors) * len(negatives))
