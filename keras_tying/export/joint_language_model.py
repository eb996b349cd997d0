"""Export of joint language models."""

from pathlib import Path

import keras
import tensorflow as tf

from keras_tying.data import Vocabulary
from keras_tying.data.bitext import PAIR
from keras_tying.export.rows import first_of_each_row, for_rows, largest, option
from keras_tying.export.saving import check_backend, checked, module_of, trace, write_saved_model
from keras_tying.export.text import TextInGraph, split_at_whitespace

FAR = 2**40
"""A position beyond any sentence, and a distance beyond that of any link."""


def export_joint_language_model(
    model: keras.Model,
    source_vocabulary: Vocabulary,
    target_vocabulary: Vocabulary,
    path: str | Path,
    tokenization: str = "words",
) -> None:
    """Writes a joint language model as a SavedModel that needs only TensorFlow.

    All signatures take `source`, `alignment` and `history`, `string [B]`, for any batch size `B`:

    - `serving_default` and `log_probabilities` return `log_probabilities` `float32 [B, V]`, the natural logarithm
      of the probability of each next target word, in the order of the vocabulary.
    - `next_word` also takes `k` `int32`, a number or one of each row `[B]`. It returns `words` `string [B, k]` and
      `log_probabilities` `float32 [B, k]`, most probable first. With a `k` of each row, the width is the largest `k`;
      words beyond a row's own are empty, with the log-probability 0.

    `history` is the target words before the next word, and `alignment` has links `i-j`, as in training. The position
    `j` of the next word is the number of words in the history. Its source position is given by its own links, else by
    those of the nearest linked word (the right one if two are equally near), else it is the end of the source. The
    position of the target end is not known. To score the end of the sentence, link the next word to the position after
    the last source word, as ends are linked in training.

    Args:
        model: A trained `JointLanguageModel`.
        source_vocabulary: Vocabulary of the source language.
        target_vocabulary: Vocabulary of the target language.
        path: Folder of the SavedModel, for TensorFlow Serving `.../NAME/1`. An existing one is replaced.
        tokenization: Name of the tokenization of the training text, see `keras_tying.data.tokenize`.

    Raises:
        ValueError: If model and vocabularies differ in size.
        RuntimeError: If the backend of Keras is not TensorFlow.
        FileExistsError: If `path` holds something other than a SavedModel.

    Example:

    >>> import tensorflow as tf, keras_tying as kt
    >>> words = kt.data.Vocabulary(["the", "cat", "sat", "<unk>", "<eos>"])
    >>> model = kt.zoo.nnjm(5, 5)
    >>> kt.export.export_joint_language_model(model, words, words, "exported/nnjm/1")  # doctest: +SKIP
    >>> sorted(tf.saved_model.load("exported/nnjm/1").signatures)  # doctest: +SKIP
    ['log_probabilities', 'next_word', 'serving_default']
    """
    check_backend()
    if model.source_vocabulary_size:
        source_vocabulary.check_size(model.source_vocabulary_size, "source words")
    target_vocabulary.check_size(model.target_vocabulary_size, "target words")
    source, target = (TextInGraph(vocabulary, tokenization) for vocabulary in (source_vocabulary, target_vocabulary))
    write_saved_model(ServedJointLanguageModel(model, source, target), path)


class ServedJointLanguageModel:
    """Functions of the signatures; see `export_joint_language_model`."""

    def __init__(self, model: keras.Model, source: TextInGraph, target: TextInGraph):
        self.model = model
        self.source = source
        self.target = target

    def endpoints(self) -> dict:
        """Traced functions, by the name of the signature."""
        inputs = tuple(tf.TensorSpec([None], tf.string, name) for name in ("source", "alignment", "history"))
        return trace(
            {
                "serving_default": (self.log_probabilities, inputs),
                "log_probabilities": (self.log_probabilities, inputs),
                "next_word": (self.next_word, (*inputs, option(tf.int32, "k"))),
            }
        )

    def module(self) -> tf.Module:
        """The weights and tables that the functions use."""
        return module_of(self.model, self.source, self.target)

    def log_probabilities(self, source, alignment, history):
        hidden = self.model.hidden_states(self._inputs(source, alignment, history), training=False)
        return {"log_probabilities": tf.nn.log_softmax(tf.cast(self.model.scores(hidden), tf.float32))}

    def next_word(self, source, alignment, history, k):
        k = checked(for_rows(k, source, "k"), k >= 1, "k must be at least 1")
        scores = self.log_probabilities(source, alignment, history)["log_probabilities"]
        best = tf.math.top_k(scores, tf.minimum(largest(k), self.model.target_vocabulary_size))
        return {
            "words": first_of_each_row(self.target.decode(best.indices), k, ""),
            "log_probabilities": first_of_each_row(best.values, k, 0.0),
        }

    def _inputs(self, source, alignment, history):
        """Inputs of the model, by name."""
        texts = source, alignment, history
        alike = tf.equal([tf.size(each) for each in texts], tf.size(history))
        source, alignment, history = (
            checked(each, alike, "source, alignment and history must have a text for each row") for each in texts
        )
        links = parsed_links(alignment)
        history_ids = self.target.encode(history)
        length = self.model.order - 1
        padded = tf.concat([tf.fill([history_ids.nrows(), length], self._end(self.target)), history_ids], axis=1)
        inputs = {"history": tf.cast(padded[:, -length:].to_tensor(shape=[None, length]), tf.int32)}
        if not self.model.source_vocabulary_size:
            return inputs
        source_ids = self.source.encode(source)
        ends = tf.fill([source_ids.nrows(), 1], self._end(self.source))
        source_ids = tf.concat([source_ids, ends], axis=1)
        if self.model.window:
            position = affiliated(links, source_ids.row_lengths(), history_ids.row_lengths())
            inputs["window"] = self._window(source_ids, position)
        if self.model.global_context:
            shape = [None, self.model.sentence_length]
            inputs["sentence"] = tf.cast(source_ids.to_tensor(-1, shape=shape), tf.int32)
        return inputs

    def _window(self, source_ids, position):
        reach = self.model.window // 2
        positions = position[:, None] + tf.range(-reach, reach + 1, dtype=tf.int64)
        dense = source_ids.to_tensor(self._end(self.source))
        last = tf.cast(tf.shape(dense)[1], tf.int64) - 1
        words = tf.gather(dense, tf.clip_by_value(positions, 0, last), batch_dims=1)
        inside = (positions >= 0) & (positions <= last)
        return tf.cast(tf.where(inside, words, self._end(self.source)), tf.int32)

    def _end(self, text):
        return tf.constant(text.end_id, tf.int64)


def parsed_links(alignment):
    """Source and target positions, `int64 [B, (M), 2]`, of links `i-j`, `string [B]`."""
    links = split_at_whitespace(alignment)
    well_formed = tf.strings.regex_full_match(links.flat_values, PAIR.pattern)
    pairs = checked(links.flat_values, well_formed, "alignment must be links such as 0-0 1-2")
    numbers = tf.strings.split(pairs, "-").to_tensor("0", shape=[None, 2])
    return links.with_flat_values(tf.strings.to_number(numbers, tf.int64))


def affiliated(links, source_lengths, word):
    """Source position of one target word per sentence pair.

    Args:
        links: See `parsed_links`.
        source_lengths: Lengths of the source sentences, including ends, `int64 [B]`.
        word: Positions of the target words, `int64 [B]`.

    Returns:
        Source positions, `int64 [B]`.
    """
    source, target = (links.with_flat_values(links.flat_values[:, side]).to_tensor(FAR) for side in (0, 1))  # [B, M]
    real = target < FAR
    within = tf.reduce_all(~real | (source < source_lengths[:, None]))
    source = checked(source, within, "a link points beyond the end of its source sentence")
    distance = target - word[:, None]
    key = tf.where(real, 2 * tf.abs(distance) + tf.cast(distance < 0, tf.int64), FAR)  # right before left
    nearest = tf.reduce_min(tf.concat([key, tf.fill([tf.shape(key)[0], 1], tf.constant(FAR, tf.int64))], 1), 1)
    candidates = tf.sort(tf.where(real & (key == nearest[:, None]), source, FAR), axis=1)
    before = tf.concat([tf.fill([tf.shape(candidates)[0], 1], tf.constant(-1, tf.int64)), candidates[:, :-1]], 1)
    distinct = (candidates != before) & (candidates < FAR)
    count = tf.reduce_sum(tf.cast(distinct, tf.int64), 1, keepdims=True)
    middle = distinct & (tf.cumsum(tf.cast(distinct, tf.int64), 1) - 1 == (count - 1) // 2)
    chosen = tf.reduce_sum(tf.where(middle, candidates, 0), 1)
    return tf.where(count[:, 0] > 0, chosen, source_lengths - 1)
