"""Every loss once more, row by row, as its formula reads. Slow on purpose: no vectorisation, no sorting.

Arguments are float64 tensors; the loops go over their single elements, so that autograd gives gradients to
compare with.
"""

import math

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


def cosent_extremes(scores, targets, count, temperature):
    rows = range(len(scores))
    top = sorted(rows, key=lambda i: (-float(targets[i]), scores[i].item()))[:count]
    bottom = sorted(rows, key=lambda i: (float(targets[i]), -scores[i].item()))[:count]
    total = torch.ones((), dtype=scores.dtype) + 0 * scores.sum()
    for i in top:
        for j in bottom:
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


def info_nce_own(anchors, positives, negatives, anchor_texts, positive_texts, negative_texts, temperature):
    """negatives, negative_texts: one entry per column."""
    total = 0
    for row in range(len(anchors)):
        own = (cosine(anchors[row], positives[row]) / temperature).exp()
        denominator = own
        for column, texts in zip(negatives, negative_texts, strict=True):
            if texts[row] not in (anchor_texts[row], positive_texts[row]):
                denominator = denominator + (cosine(anchors[row], column[row]) / temperature).exp()
        total = total - (own / denominator).log()
    return total / len(anchors)


def nt_xent(first, second, first_texts, second_texts, temperature):
    """Text k of the 2N is looked at from text i unless it is i, equal to i, or a partner of a text equal to i."""
    count = len(first)
    vectors, texts = [*first, *second], [*first_texts, *second_texts]
    partner = [(place + count) % (2 * count) for place in range(2 * count)]
    total = 0
    for i in range(2 * count):
        own = (cosine(vectors[i], vectors[partner[i]]) / temperature).exp()
        partners = [texts[partner[k]] for k in range(2 * count) if texts[k] == texts[i]]
        denominator = own
        for k in range(2 * count):
            if k not in (i, partner[i]) and texts[k] != texts[i] and texts[k] not in partners:
                denominator = denominator + (cosine(vectors[i], vectors[k]) / temperature).exp()
        total = total - (own / denominator).log()
    return total / (2 * count)


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


def triplet_adaptive(anchors, positives, negatives, margin, share):
    """With cosines, and a margin that is a share of the mean gap where that is more."""
    own = [cosine(a, p).item() for a, p in zip(anchors, positives, strict=True)]
    other = [cosine(a, n).item() for column in negatives for a, n in zip(anchors, column, strict=True)]
    gap = sum(own) / len(own) - sum(other) / len(other)
    return triplet(anchors, positives, negatives, max(margin, share * gap), "cosine")


def triplet_online(anchors, pools, anchor_texts, pool_texts, mining, margin, share):
    """pools, pool_texts: the positives first, then one entry per column of explicit negatives."""
    count = len(anchors)
    pairs = {(anchor_texts[row], pool_texts[0][row]) for row in range(count)}
    own = [cosine(anchors[row], pools[0][row]) for row in range(count)]
    others = []
    for row in range(count):
        found = []
        for column, (pool, texts) in enumerate(zip(pools, pool_texts, strict=True)):
            for other in range(count):
                is_own = column == 0 and other == row
                is_known = texts[other] == anchor_texts[row] or (anchor_texts[row], texts[other]) in pairs
                if not is_own and not is_known:
                    found.append(cosine(anchors[row], pool[other]))
        others.append(found)
    every = [score.item() for found in others for score in found]
    if every:
        margin = max(margin, share * (sum(own).item() / count - sum(every) / len(every)))
    total = 0 * anchors.sum()
    for row, found in enumerate(others):
        if not found:
            continue
        farther = [score for score in found if score < own[row]]
        if mining == "batch_hard":
            chosen = max(found)
        else:
            chosen = max(farther) if farther else min(found)
        if margin + chosen - own[row] > 0:
            total = total + margin + chosen - own[row]
    return total / count


def deviation(scores):
    mean = sum(scores) / len(scores)
    return (sum((score - mean) ** 2 for score in scores) / len(scores)).sqrt()


def cosent_weighted(scores, targets, temperature):
    total = torch.ones((), dtype=scores.dtype) + 0 * scores.sum()
    for i in range(len(scores)):
        for j in range(len(scores)):
            if targets[i] > targets[j]:
                gap = targets[i] - targets[j]
                total = total + gap * torch.exp((scores[j] - scores[i]) / temperature)
    return total.log()


def cosent_sampled(scores, targets, draws, temperature):
    """draws: one list of numbers of [0, 1) per row, for rows in order of target, then score."""
    order = sorted(range(len(scores)), key=lambda row: (targets[row], scores[row].item()))
    total = torch.ones((), dtype=scores.dtype) + 0 * scores.sum()
    for place, row in enumerate(order):
        lower = [other for other in order if targets[other] < targets[row]]
        if lower:
            for draw in draws[place]:
                drawn = scores[lower[int(draw * len(lower))]]
                weight = len(lower) / len(draws[place])
                total = total + weight * torch.exp((drawn - scores[row]) / temperature)
    return total.log()


def class_entropy(logits, classes, smoothing, focal_gamma):
    """logits: one list per row, one number per class. classes: class numbers, or shares of each class."""
    total = 0
    for row, label in zip(logits, classes, strict=True):
        shares = label if isinstance(label, list) else [float(c == int(label)) for c in range(len(row))]
        denominator = sum(logit.exp() for logit in row)
        for logit, share in zip(row, shares, strict=True):
            probability = logit.exp() / denominator
            soft = (1 - smoothing) * share + smoothing / len(row)
            total = total - soft * (1 - probability) ** focal_gamma * probability.log()
    return total / len(logits)


def binary_entropy(logits, targets, smoothing=0.0, focal_gamma=0.0):
    """Two classes, the logit of the first being 0: the softmax over both is the sigmoid of the second."""
    rows = [[0 * logit, logit] for logit in logits]
    return class_entropy(rows, [[1 - target, target] for target in targets], smoothing, focal_gamma)


def sigmoid(score):
    return 1 / (1 + (-score).exp())


def squared_error(scores, targets, activation):
    total = 0
    for score, target in zip(scores, targets, strict=True):
        total = total + ((sigmoid(score) if activation == "sigmoid" else score) - target) ** 2
    return total / len(scores)


def huber(scores, targets, delta, activation):
    total = 0
    for score, target in zip(scores, targets, strict=True):
        error = abs((sigmoid(score) if activation == "sigmoid" else score) - target)
        total = total + (error**2 / 2 if error <= delta else delta * (error - delta / 2))
    return total / len(scores)


def pinball(scores, targets, quantile, activation):
    total = 0
    for score, target in zip(scores, targets, strict=True):
        error = target - (sigmoid(score) if activation == "sigmoid" else score)
        total = total + (quantile * error if error > 0 else (quantile - 1) * error)
    return total / len(scores)


def margin_ranking(scores, targets, margin):
    total, pairs = 0 * scores.sum(), 0
    for i in range(len(scores)):
        for j in range(len(scores)):
            if targets[i] > targets[j]:
                pairs += 1
                if scores[i] - scores[j] < margin:
                    total = total + margin - (scores[i] - scores[j])
    return total / max(pairs, 1)


def circle(scores, labels, goals, weighted, temperature):
    positive_goal, negative_goal = goals
    total = torch.ones((), dtype=scores.dtype) + 0 * scores.sum()
    for positive, its_label in zip(scores, labels, strict=True):
        for negative, other_label in zip(scores, labels, strict=True):
            if its_label == 1 and other_label == 0:
                pull = max(0.0, 2 - positive_goal - positive.item()) if weighted else 1.0
                push = max(0.0, negative.item() + negative_goal) if weighted else 1.0
                exponent = push * (negative - negative_goal) - pull * (positive - positive_goal)
                total = total + (exponent / temperature).exp()
    return total.log()


def prototypes(texts, directions, classes, temperature, margin=0.0):
    """With a margin (ArcFace) the angle to the own class is that much larger, up to a half turn."""
    logits = []
    for text, label in zip(texts, classes, strict=True):
        row = []
        for number, direction in enumerate(directions):
            value = cosine(text, direction)
            if margin and number == int(label):
                angle = value.acos()
                turned = (angle + margin).cos()
                value = turned if angle + margin < math.pi else value - margin * math.sin(margin)
            row.append(value / temperature)
        logits.append(row)
    return class_entropy(logits, classes, 0.0, 0.0)


def clustering(texts, classes, weight, margin):
    groups = {}
    for text, label in zip(texts, classes, strict=True):
        groups.setdefault(int(label), []).append([value / dot(text, text).sqrt() for value in text])
    centres = {label: [sum(values) for values in zip(*group, strict=True)] for label, group in groups.items()}
    pull = 0
    for text, label in zip(texts, classes, strict=True):
        pull = pull + 1 - cosine(text, centres[int(label)])
    push, pairs = 0, 0
    for one in centres:
        for other in centres:
            if one < other:
                pairs += 1
                closeness = cosine(centres[one], centres[other]) - margin
                push = push + (closeness if closeness > 0 else 0)
    return pull / len(texts) + weight * push / max(pairs, 1)


def bilinear_logits(first, second, forms, shifts):
    logits = []
    for u, v in zip(first, second, strict=True):
        lengths = dot(u, u).sqrt() * dot(v, v).sqrt()
        row = []
        for form, shift in zip(forms, shifts, strict=True):
            total = shift
            for a, line in zip(u, form, strict=True):
                for entry, b in zip(line, v, strict=True):
                    total = total + a * entry * b / lengths
            row.append(total)
        logits.append(row)
    return logits


def angle_scores(first, second):
    """By complex division of each component, as in the paper; the last component of an odd number is real."""
    scores = []
    for u, v in zip(first, second, strict=True):
        half = (len(u) + 1) // 2
        length = (dot(u, u) / dot(v, v)).sqrt()
        total = 0
        norm = dot(v, v)
        for k in range(half):
            a, c = u[k], v[k]
            b, d = (u[half + k], v[half + k]) if half + k < len(u) else (0 * a, 0 * c)
            real, imaginary = (a * c + b * d) / norm, (b * c - a * d) / norm
            total = total + (real + imaginary) / length
        scores.append(abs(total))
    return torch.stack(scores)


def batch_search(first, second, first_texts, second_texts, is_positive, temperature):
    """Each sentence of a positive pair looks for the other among all sentences of the batch."""
    sentences = [*zip(first, first_texts, strict=True), *zip(second, second_texts, strict=True)]
    count = len(first)
    rows = [row for row in range(count) if is_positive[row]]
    known = {(first_texts[row], second_texts[row]) for row in rows}
    known |= {(right, left) for left, right in known}
    total = 0 * first.sum()
    for place, partner in [(row, row + count) for row in rows] + [(row + count, row) for row in rows]:
        anchor, text = sentences[place]
        own = (cosine(anchor, sentences[partner][0]) / temperature).exp()
        denominator = own
        for other, (sentence, its_text) in enumerate(sentences):
            if other not in (place, partner) and its_text != text and (text, its_text) not in known:
                denominator = denominator + (cosine(anchor, sentence) / temperature).exp()
        total = total - (own / denominator).log()
    return total / max(2 * len(rows), 1)
