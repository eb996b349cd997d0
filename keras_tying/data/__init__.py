"""Data: text in, arrays out."""

from keras_tying.data.batching import Windows, windows
from keras_tying.data.corpora import SPLITS, Corpus, load_corpus, load_files
from keras_tying.data.text import END_OF_SENTENCE, UNKNOWN, tokenize
from keras_tying.data.vocabulary import Vocabulary

__all__ = [
    "END_OF_SENTENCE",
    "SPLITS",
    "UNKNOWN",
    "Corpus",
    "Vocabulary",
    "Windows",
    "load_corpus",
    "load_files",
    "tokenize",
    "windows",
]
