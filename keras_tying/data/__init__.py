"""Corpora, tokenization, vocabularies and batches."""

from keras_tying.data.affiliation import affiliate
from keras_tying.data.alignment import align
from keras_tying.data.batching import Windows, windows
from keras_tying.data.bitext import Bitext
from keras_tying.data.corpora import SPLITS, Corpus, load_corpus
from keras_tying.data.joint_samples import JointSamples
from keras_tying.data.pair_batches import PairBatches
from keras_tying.data.parallel import ParallelCorpus, load_parallel, parallel_files, zip_files
from keras_tying.data.prepared.aligned import PreparedAligned, PreparedSamples, prepare_aligned
from keras_tying.data.prepared.pairs import PreparedPairs, prepare_pairs
from keras_tying.data.prepared.text import PreparedCorpus, PreparedText, prepare_text
from keras_tying.data.sentence_pairs import SentencePairs, pad_sentences
from keras_tying.data.skip_gram import SkipGramBatches, ids_on_disk, word_counts
from keras_tying.data.subwords import Subwords, sentences_of
from keras_tying.data.text import END_OF_SENTENCE, TOKENIZATIONS, UNKNOWN, read_lines, tokenize
from keras_tying.data.vocabulary import Vocabulary
from keras_tying.data.word_vectors import load_word_vectors, save_word_vectors, vectors_for, without_special_words
from keras_tying.ids import PAD_ID

__all__ = [
    "END_OF_SENTENCE",
    "PAD_ID",
    "SPLITS",
    "TOKENIZATIONS",
    "UNKNOWN",
    "Bitext",
    "Corpus",
    "JointSamples",
    "PairBatches",
    "ParallelCorpus",
    "PreparedAligned",
    "PreparedCorpus",
    "PreparedPairs",
    "PreparedSamples",
    "PreparedText",
    "SentencePairs",
    "SkipGramBatches",
    "Subwords",
    "Vocabulary",
    "Windows",
    "affiliate",
    "align",
    "ids_on_disk",
    "load_corpus",
    "load_parallel",
    "load_word_vectors",
    "pad_sentences",
    "parallel_files",
    "prepare_aligned",
    "prepare_pairs",
    "prepare_text",
    "read_lines",
    "save_word_vectors",
    "sentences_of",
    "tokenize",
    "vectors_for",
    "windows",
    "without_special_words",
    "word_counts",
    "zip_files",
]
