"""Export of translation models."""

from pathlib import Path

import keras
import tensorflow as tf
import tensorflow_text

from keras_tying.backend.tensorflow.beam_search import search_in_graph
from keras_tying.checks import check_integer, check_number
from keras_tying.data import Subwords
from keras_tying.data.subwords import LONGEST_SENTENCE
from keras_tying.data.text import WHITESPACE
from keras_tying.export.saving import check_backend, module_of, trace, write_saved_model

BEAM_SIZE = 5
LENGTH_PENALTY = 1.0


def export_translator(
    model: keras.Model,
    subwords: Subwords,
    path: str | Path,
    beam_size: int = BEAM_SIZE,
    length_penalty: float = LENGTH_PENALTY,
    maximum_length: int = LONGEST_SENTENCE,
) -> None:
    """Writes a translation model as a SavedModel that needs only TensorFlow and tensorflow_text.

    The signatures `translate` and `serving_default` take `sentences` `string [B]`, for any batch size `B`. They return

    - `translations` `string [B]` and `scores` `float32 [B]`, log-probabilities divided by
      `length ** length_penalty`;
    - `n_best` `string [B, beam_size]` and `n_best_scores` `float32 [B, beam_size]`, best first.

    Tokenizer, beam search and detokenizer are in the graph. A sentence without words has the translation `""` and the
    score 0. Unknown characters are encoded as the unknown subword.

    Args:
        model: A trained `Translator`.
        subwords: Subwords of both languages.
        path: Folder of the SavedModel, for TensorFlow Serving `.../NAME/1`. An existing one is replaced.
        beam_size: Number of hypotheses per sentence.
        length_penalty: See `Translator.translate`.
        maximum_length: Maximum number of subwords per sentence. Longer sentences are truncated.

    Raises:
        ValueError: If model and subwords differ in size, or an argument is outside its range.
        RuntimeError: If the backend of Keras is not TensorFlow.
        FileExistsError: If `path` holds something other than a SavedModel.

    Example:

    >>> import tensorflow as tf, keras_tying as kt
    >>> subwords = kt.data.Subwords.learn(["a rose is a rose", "eine Rose ist eine Rose"] * 50, size=30)
    >>> model = kt.zoo.dl4mt(30, 30, embedding_size=4, units=4)
    >>> kt.export.export_translator(model, subwords, "exported/nmt/1")  # doctest: +SKIP
    >>> sorted(tf.saved_model.load("exported/nmt/1").signatures)  # doctest: +SKIP
    ['serving_default', 'translate']
    """
    check_backend()
    subwords.check_sizes(model.source_vocabulary_size, model.target_vocabulary_size)
    check_integer("beam_size", beam_size)
    check_integer("maximum_length", maximum_length)
    check_number("length_penalty", length_penalty)
    write_saved_model(ServedTranslator(model, subwords, beam_size, length_penalty, maximum_length), path)


class ServedTranslator:
    """Function of the signatures; see `export_translator`."""

    def __init__(
        self,
        model: keras.Model,
        subwords: Subwords,
        beam_size: int = BEAM_SIZE,
        length_penalty: float = LENGTH_PENALTY,
        maximum_length: int = LONGEST_SENTENCE,
    ):
        self.model = model
        self.end_id = subwords.end_id
        self.beam_size = beam_size
        self.length_penalty = length_penalty
        self.maximum_length = maximum_length
        self.tokenizer = tensorflow_text.SentencepieceTokenizer(subwords.model, out_type=tf.int32)

    def endpoints(self) -> dict:
        """Traced functions, by the name of the signature."""
        strings = tf.TensorSpec([None], tf.string)
        return trace({name: (self.translate, (strings,)) for name in ("serving_default", "translate")})

    def module(self) -> tf.Module:
        """The weights and tables that the functions use."""
        return module_of(self.model, self.tokenizer)

    def translate(self, sentences):
        sentences = tf.strings.regex_replace(sentences, WHITESPACE, " ")  # as `Subwords.encode`
        ids = self.tokenizer.tokenize(sentences)[:, : self.maximum_length]
        lengths = tf.cast(ids.row_lengths(), tf.int32)
        ends = tf.fill([ids.nrows(), 1], self.end_id)
        source = tf.concat([ids, tf.RaggedTensor.from_tensor(ends)], axis=1).to_tensor(-1)
        source = tf.reshape(source, [ids.nrows(), tf.maximum(tf.shape(source)[1], 1)])  # also for an empty batch
        words, scores = search_in_graph(
            self.model, source, 2 * (lengths + 1) + 10, self.beam_size, self.length_penalty, self.end_id
        )
        texts = tf.where(lengths[:, None] > 0, self._detokenized(words), "")
        scores = tf.where(lengths[:, None] > 0, scores, 0.0)
        return {"translations": texts[:, 0], "scores": scores[:, 0], "n_best": texts, "n_best_scores": scores}

    def _detokenized(self, words):
        """Converts ids `[B, K, L]` to texts `[B, K]`."""
        flat = tf.reshape(words, [-1, tf.shape(words)[2]])
        kept = tf.ragged.boolean_mask(flat, (flat >= 0) & (flat != self.end_id))
        return tf.reshape(self.tokenizer.detokenize(kept), [-1, self.beam_size])
