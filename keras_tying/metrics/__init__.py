"""Metrics of language models, translations and word embeddings."""

from keras_tying.metrics.bleu import translation_scores
from keras_tying.metrics.neighbours import nearest_neighbours, unit_rows
from keras_tying.metrics.pair_correlation import pair_correlations
from keras_tying.metrics.perplexity import Perplexity
from keras_tying.metrics.subspace_distance import subspace_distance
from keras_tying.metrics.word_similarity import WordSimilarity, word_similarity

__all__ = [
    "Perplexity",
    "WordSimilarity",
    "nearest_neighbours",
    "pair_correlations",
    "subspace_distance",
    "translation_scores",
    "unit_rows",
    "word_similarity",
]
