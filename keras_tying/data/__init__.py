"""Data: text in, arrays out."""

from keras_tying.data.affiliation import affiliate
from keras_tying.data.alignment import align
from keras_tying.data.batching import Windows, windows
from keras_tying.data.bitext import Bitext
from keras_tying.data.corpora import SPLITS, Corpus, load_corpus, load_files
from keras_tying.data.joint_samples import JointSamples
from keras_tying.data.text import END_OF_SENTENCE, UNKNOWN, tokenize
from keras_tying.data.vocabulary import Vocabulary
from keras_tying.data.word_vectors import read_word_vectors

__all__ = [
    "END_OF_SENTENCE",
    "SPLITS",
    "UNKNOWN",
    "Bitext",
    "Corpus",
    "JointSamples",
    "Vocabulary",
    "Windows",
    "affiliate",
    "align",
    "load_corpus",
    "load_files",
    "read_word_vectors",
    "tokenize",
    "windows",
]
