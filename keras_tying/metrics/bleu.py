"""BLEU and chrF of translations, computed by sacrebleu."""

from collections.abc import Sequence
from typing import Any


def translation_scores(translations: Sequence[str], references: Sequence[str]) -> dict[str, Any]:
    """BLEU and chrF of translations, from 0 to 100, with the signatures of sacrebleu.

    Args:
        translations: Translated sentences.
        references: One reference per translation.

    Returns:
        `bleu`, `chrf`, `bleu_signature` and `chrf_signature`.

    Raises:
        ValueError: If the numbers of translations and references differ, or there are none.

    Example:

    >>> import keras_tying as kt
    >>> scores = kt.metrics.translation_scores(["ein Haus am See ."], ["ein Haus am See ."])
    >>> round(scores["bleu"], 1), round(scores["chrf"], 1)
    (100.0, 100.0)

    Reference:
        Post, A Call for Clarity in Reporting BLEU Scores.
    """
    if len(translations) != len(references) or not translations:
        raise ValueError(
            f"Expected one reference per translation. Received: {len(translations)} translations, "
            f"{len(references)} references."
        )
    from sacrebleu.metrics import BLEU, CHRF

    scores: dict[str, Any] = {}
    for name, metric in (("bleu", BLEU()), ("chrf", CHRF())):
        scores[name] = metric.corpus_score(list(translations), [list(references)]).score
        scores[f"{name}_signature"] = str(metric.get_signature())
    return scores
