"""Copies of a model: with other words, tied, untied, without LoRA, in another precision. They train on where it was."""

import json
import math
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import h5py

from keras_tying.models.embedding_changes import tied, untied, with_words, without_lora, words_of_rows, words_of_size
from keras_tying.models.precision import with_precision
from keras_tying.models.serialization import SHARED

ARGUMENTS = ("embedding", "source_embedding", "output_embedding", "context_embedding")
"""Arguments of models that take an embedding layer."""

KINDS = "fiV"
"""Kinds of dtypes that weights have in files: floats, quantized integers, and bfloat16, which h5py does not know."""


class ChangedCopies:
    """Mixin for a model of embedding layers: its changed copies."""

    def embedding_arguments(self):
        """The layers that embed and score words, by the names in `ARGUMENTS`, each once."""
        config = self.get_config()  # type: ignore[attr-defined]  # a mixin has none
        return {name: getattr(self, name) for name in ARGUMENTS if config.get(name) and SHARED not in config[name]}

    def embedding_configs(self, config):
        """The configurations of these layers in `config`, that of the model: a list for each argument it has.

        The list has one for each place that describes the layer.
        """
        return {name: [config[name]["config"]] for name in self.embedding_arguments() if config[name]}

    def _with_embeddings(self):
        """The model, or one that computes the same and has embedding layers where it has others. Raises ValueError."""
        return self

    def resized(self, vocabulary_size=None, *, source_vocabulary_size=None):
        """A copy of the model with fewer or more words. New words start at the mean of all words.

        Keras cannot change the shape of a variable, so this and the methods `with_rows`, `tied_copy`, `untied_copy`,
        `without_lora` and `with_precision` give new models, which share no variable with this one. They are compiled as
        this one is, and the state of its optimizer comes along: moments and averages follow their words, the moments of
        new words are those of a new optimizer, their averages start as their weights do, and training goes on as it
        would have, except that dropout draws other masks. A carried state is not copied.

        Args:
            vocabulary_size: Optional integer, the words that the model scores. With three-way tying they are the source
                words too. Default: as before.
            source_vocabulary_size: Optional integer, the source words of a model that embeds them in a matrix of their
                own. Default: as before.

        Raises:
            ValueError: If a size is not a positive integer, there is none, the model has no source words of its own,
                it is quantized, or its optimizer keeps numbers that are not about single weights.

        Example:

        >>> import keras_tying as kt
        >>> model = kt.zoo.recurrent_language_model(100, 8)
        >>> tuple(model.resized(120).embedding.embeddings.shape)
        (120, 8)
        >>> translator = kt.zoo.dl4mt_small(100, 100, embedding_size=8, units=8)
        >>> larger = translator.resized(120, source_vocabulary_size=110)
        >>> larger.target_vocabulary_size, larger.source_vocabulary_size
        (120, 110)
        """
        sizes = {"vocabulary_size": vocabulary_size, "source_vocabulary_size": source_vocabulary_size}
        return with_words(self._with_embeddings(), sizes, words_of_size)

    def with_rows(self, rows=None, *, source_rows=None):
        """A copy of the model for another vocabulary, built from rows of this one's matrices.

        Embeddings and output bias are both taken by row. If several new words are copies of one row, its probability is
        divided equally among them: the bias of each is lower by the logarithm of their number. (Without an output bias,
        or with a soft cap, the probabilities of the other words fall instead.)

        Args:
            rows: Optional integers `[V']`: for each word of the new vocabulary, the id of the word whose row it starts
                with. Default: all words as before.
            source_rows: The same for source words, in a model that embeds them in a matrix of their own.

        Returns:
            A model of the same class with `V'` words, as `resized` gives one.

        Raises:
            ValueError: If an id is outside the vocabulary; else as for `resized`.

        Example:

        >>> import keras_tying as kt
        >>> model = kt.zoo.recurrent_language_model(100, 8)
        >>> model.with_rows([*range(100), 3, 3]).vocabulary_size  # two new words, which start as copies of word 3
        102
        """
        return with_words(self._with_embeddings(), {"rows": rows, "source_rows": source_rows}, words_of_rows)

    def tied_copy(self, matrix):
        """A tied copy of an untied model, as `resized` gives one. The output bias stays.

        Args:
            matrix: The matrix that both roles get: `"input"`, `"output"`, or their `"mean"`. The moments of the
                optimizer are those of this matrix.

        Raises:
            ValueError: If the model is tied, quantized, or has LoRA, there is no such matrix, or the matrices differ in
                size; else as for `resized`.

        Example:

        >>> import keras_tying as kt
        >>> kt.zoo.recurrent_language_model(100, 8, tied=False).tied_copy("output").tied
        True
        """
        return tied(self._with_embeddings(), matrix, ("input", "output"))

    def untied_copy(self):
        """An untied copy of a tied model, as `resized` gives one. It computes the same until it is trained.

        Both matrices get the moments of the tied one.

        Raises:
            ValueError: If the model is untied, quantized, or has LoRA; else as for `resized`.

        Example:

        >>> import keras_tying as kt
        >>> kt.zoo.recurrent_language_model(100, 8).untied_copy().tied
        False
        """
        return untied(self._with_embeddings(), ("output",))

    def without_lora(self):
        """A copy without LoRA, as `resized` gives one: its delta is added to the matrix, which stays tied.

        Raises:
            ValueError: If no embedding of the model has LoRA, or it is quantized; else as for `resized`.

        Example:

        >>> import keras_tying as kt
        >>> model = kt.zoo.recurrent_language_model(100, 8)
        >>> model.embedding.enable_lora(2)
        >>> model.without_lora().embedding.lora_enabled
        False
        """
        return without_lora(self)

    def with_precision(self, precision):
        """A copy that computes in another precision, as `resized` gives one. Its variables have the same values.

        A model that was trained in bfloat16 is slow on a CPU that does not compute in it; in float32 it is not.

        Args:
            precision: The dtype policy of the copy, for example `"float32"` or `"mixed_bfloat16"`. It takes the place
                of the model's, which is that of its embedding unless it was given. Layers with another keep theirs.

        Raises:
            ValueError: If it is not the name of a policy, its variables have another dtype than the model's, or the
                model has a `DTypePolicyMap`; else as for `resized`, but any embedding will do.

        Example:

        >>> import keras_tying as kt
        >>> model = kt.zoo.recurrent_language_model(100, 8, dtype="mixed_bfloat16")
        >>> model.with_precision("float32").embedding.compute_dtype
        'float32'
        """
        return with_precision(self, precision)

    def load_weights(self, filepath, skip_mismatch=False, **kwargs):
        """Loads weights of a model with the same tying; arguments are those of `keras.Model.load_weights`.

        Args:
            filepath: Path of the file.
            skip_mismatch: Whether to leave out layers that do not fit.
            **kwargs: Further arguments.

        Raises:
            ValueError: If the file is of a model with other tying, or of a quantized one where this one is not. Load it
                into a model with the tying of the file, and call `tied_copy` or `untied_copy` of that.
        """
        if str(filepath).endswith((".weights.h5", ".weights.json", ".keras")) and not skip_mismatch:
            _check_file(self, Path(filepath))
        super().load_weights(filepath, skip_mismatch, **kwargs)  # type: ignore[misc]  # a mixin has no `load_weights`


def _check_file(model, path):
    """Raises ValueError if a file has more weights than a model, which Keras would leave out silently, or fewer."""
    sizes = []

    def add(place, values):
        is_weight = isinstance(values, h5py.Dataset) and values.shape and values.dtype.kind in KINDS
        if is_weight and not place.startswith("optimizer"):
            sizes.append(values.size)

    for each in _parts(path):
        with h5py.File(each) as file:
            file.visititems(add)
    saved = (weight for weight in model.weights if not weight.name.startswith("lora_"))  # no file has those of LoRA
    if sum(sizes) != (size := sum(math.prod(weight.shape) for weight in saved if len(weight.shape))):
        raise ValueError(
            "The file must be of a model with the same sizes, tying and quantization: load it into one, and take its "
            f"resized, tied_copy or untied_copy. Received: {path} with {sum(sizes):,} weights, for a model of {size:,}"
        )


def _parts(path):
    """The files of weights: the one at `path`, that in a saved model, or those that a JSON file lists."""
    if path.suffix == ".keras":
        with ZipFile(path) as model:
            return [BytesIO(model.read("model.weights.h5"))]
    if path.suffix != ".json":
        return [path]
    listed = json.loads(path.read_bytes())["weight_map"].values()
    names = {name for each in listed for name in ([each] if isinstance(each, str) else each)}
    return [path.parent / Path(name).name for name in sorted(names)]
