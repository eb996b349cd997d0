"""BLEU and chrF of translations, as sacrebleu computes them."""

from collections.abc import Sequence
from typing import Any


def translation_scores(translations: Sequence[str], references: Sequence[str]) -> dict[str, Any]:
    """Scores of a text's translations, each from 0 to 100, with the signatures that say how they came about.

    Args:
        translations: A sentence each.
        references: One for each of them.

    Returns:
        `bleu`, `chrf`, `bleu_signature` and `chrf_signature`.

    Raises:
        ValueError: If there are not as many of one as of the other, or none.

    Example:

    >>> scores = translation_scores(["ein Haus am See ."], ["ein Haus am See ."])
    >>> round(scores["bleu"], 1), round(scores["chrf"], 1)
    (100.0, 100.0)

    Reference:
        Post, A Call for Clarity in Reporting BLEU Scores.
    """
    if len(translations) != len(references) or not translations:
        raise ValueError(
            f"Expected a reference for each translation. Received: {len(translations)} translations, "
            f"{len(references)} references."
        )
    from sacrebleu.metrics import BLEU, CHRF

    scores: dict[str, Any] = {}
    for name, metric in (("bleu", BLEU()), ("chrf", CHRF())):
        scores[name] = metric.corpus_score(list(translations), [list(references)]).score
        scores[f"{name}_signature"] = str(metric.get_signature())
    return scores
