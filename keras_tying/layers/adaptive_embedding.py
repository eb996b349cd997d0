"""Embedding layer whose rare words have narrow vectors, and which scores words by an adaptive softmax."""

from itertools import pairwise
from typing import Any, NamedTuple

import keras
from keras import initializers, ops

from keras_tying.backend import ANY_SHAPE
from keras_tying.backend.keras_internals.calls import mark_padding, mask_of_ids, variables_as_they_are
from keras_tying.checks import check_integer, check_width
from keras_tying.layers.initial_weights import another
from keras_tying.layers.lookup import lookup
from keras_tying.layers.shared_place import Shareable


class Band(NamedTuple):
    """Words `start` to `stop - 1`, whose vectors have one width."""

    start: int
    stop: int
    width: int


class OutputTable(NamedTuple):
    """What scores the words of a band from hidden states `h`: `(h projection^T) embeddings^T + bias`.

    Attributes:
        projection: `[D, H]`; `None` for the most frequent words, whose vectors have the width `H`.
        embeddings: `[W, D]`. After those of the most frequent words come the vectors of the clusters.
        bias: `[W]`, or `None`.
    """

    projection: Any
    embeddings: Any
    bias: Any


@keras.saving.register_keras_serializable("keras_tying")
class AdaptiveEmbedding(Shareable, keras.layers.Layer):
    """Embedding layer for large vocabularies: the rarer a word, the narrower its vector. It also scores words.

    Word ids must be in order of decreasing frequency, as in a `Vocabulary`. Cutoffs `c_1 < ... < c_K` cut them into
    bands. The vectors of the first band, `E_0`, have the width `H`, those of band `k`, `E_k`, the width
    `D_k = H // factor^k`; a projection `P_k` `[D_k, H]` brings them to the width `H`::

        vector of word w of band 0:  E_0[w]
        vector of word w of band k:  E_k[w - c_k] P_k

    Called with `reverse=True` on hidden states `h` the layer gives the log-probabilities of all words. The head is a
    softmax over the words of band 0 and one cluster for each other band, with vectors `C`::

        head = softmax(h [E_0, C]^T + b)
        p(w) = head[w]                                              for w in band 0
        p(w) = head[cluster k] softmax((h P_k^T) E_k^T + b)[w]      for w in band k

    With `tie_weights=True` both roles use the same variables, whose gradient is the sum of the gradients of both. The
    models of keras_tying train without computing the probabilities of all words: the head scores every token, a band
    only those tokens whose target is one of its words. On TensorFlow and PyTorch these are gathered. JAX compiles one
    shape, so there they are sorted to the front, and chunks of tokens without any of them are skipped.

    Models train it with `SequenceCrossEntropy`, without temperature and label smoothing. Quantization and LoRA are not
    supported.

    Args:
        input_dim: Integer, the vocabulary size `V`.
        output_dim: Integer, the embedding size `H`.
        cutoffs: Integers, the first word of each band but the first: increasing, at least 1 and below `V`. Defaults
            to `(20_000, 60_000)`.
        factor: Integer, by which the vectors of each band are narrower than those of the band before. Defaults to 4.
        tie_weights: Boolean. `True` (default) shares vectors and projections between both roles; `False` adds others
            for the output.
        tie_projections: Boolean, whether `tie_weights=True` shares the projections as well. Defaults to `True`.
        use_bias: Boolean, whether words and clusters have an output bias. Defaults to `True`.
        mask_zero: Boolean, whether id 0 is padding and has a mask. Scores keep the mask of the hidden states.
        embeddings_initializer: Initializer of the vectors of words and clusters. Defaults to `"uniform"`.
        projections_initializer: Initializer of the projections. Defaults to `"glorot_uniform"`.
        bias_initializer: Initializer of the bias. Defaults to `"zeros"`.
        **kwargs: Base layer arguments, such as `name` and `dtype`.

    Call arguments:
        inputs: Integer ids of any shape `[...]`, or, with `reverse=True`, floats `[..., H]`.
        reverse: Boolean, `True` to score words instead of embedding them. Defaults to `False`.

    Output shape:
        `[..., H]`, or `[..., V]` with `reverse=True`: log-probabilities, in float32 also in mixed precision. They are
        logits as well, because their softmax are the probabilities.

    Raises:
        ValueError: If a size is not a positive integer, the cutoffs are not increasing integers below the vocabulary
            size, or the vectors of the last band have no width; when called with `reverse=True`, if the width is not
            `H`.

    Example:

    >>> import numpy as np, keras_tying as kt
    >>> embedding = kt.layers.AdaptiveEmbedding(250_000, 512)
    >>> vectors = embedding(np.array([[3, 30_000, 200_000]]))
    >>> tuple(vectors.shape), [band.width for band in embedding.bands]
    ((1, 3, 512), [512, 128, 32])
    >>> embedding.count_params()  # a matrix of all words has 128,000,000
    21772946
    >>> small = kt.layers.AdaptiveEmbedding(100, 8, cutoffs=(20, 50), factor=2)
    >>> log_probabilities = small(np.ones((1, 8)), reverse=True)
    >>> round(float(np.exp(np.asarray(log_probabilities)).sum()), 3)
    1.0

    Reference:
        Grave, Joulin, Cissé, Grangier and Jégou, Efficient softmax approximation for GPUs, section 4; Baevski and Auli,
        Adaptive Input Representations for Neural Language Modeling, section 3.
    """

    def __init__(
        self,
        input_dim,
        output_dim,
        *,
        cutoffs=(20_000, 60_000),
        factor=4,
        tie_weights=True,
        tie_projections=True,
        use_bias=True,
        mask_zero=False,
        embeddings_initializer="uniform",
        projections_initializer="glorot_uniform",
        bias_initializer="zeros",
        **kwargs,
    ):
        # As in keras.layers.Embedding: neither ids nor the gradients of repeated ids are rounded to half precision.
        super().__init__(**{"autocast": False, **kwargs})
        for name, value in {"input_dim": input_dim, "output_dim": output_dim, "factor": factor}.items():
            check_integer(name, value)
        self.input_dim = input_dim
        self.output_dim = output_dim
        self.cutoffs = _checked(cutoffs, input_dim)
        self.factor = factor
        self.tie_weights = tie_weights
        self.tie_projections = tie_projections
        self.use_bias = use_bias
        self.mask_zero = mask_zero
        self.embeddings_initializer = initializers.get(embeddings_initializer)
        self.projections_initializer = initializers.get(projections_initializer)
        self.bias_initializer = initializers.get(bias_initializer)
        edges = [0, *self.cutoffs, input_dim]
        self.bands = [Band(*edge, output_dim // factor**k) for k, edge in enumerate(pairwise(edges))]
        if self.bands[-1].width < 1:
            raise ValueError(
                "The vectors of the last band must have a width of at least 1: `output_dim` divided by `factor` to the "
                f"power of the number of cutoffs. Received: output_dim={output_dim}, factor={factor}, "
                f"cutoffs={self.cutoffs}"
            )
        self.bias: Any = None
        self.cluster_bias: Any = None
        self.supports_masking = True
        self.supports_jit = not ANY_SHAPE  # TensorFlow gathers the tokens of a band, whose number XLA does not know

    def build(self, input_shape=None):
        if self.built:  # type: ignore[has-type]  # Keras sets it
            return
        self.band_embeddings, self.projections = self._tables("band")
        self.output_band_embeddings, self.output_projections = self.band_embeddings, self.projections
        if not self.tie_weights:
            self.output_band_embeddings, self.output_projections = self._tables("output_band")
        elif not self.tie_projections:
            self.output_projections = self._projections("output_band")
        clusters = len(self.cutoffs)
        self.clusters = self._weight("clusters", (clusters, self.output_dim), self.embeddings_initializer)
        if self.use_bias:
            self.bias = self._weight("bias", (self.input_dim,), self.bias_initializer)
            self.cluster_bias = self._weight("cluster_bias", (clusters,), self.bias_initializer)
        self.built = True

    def _tables(self, prefix):
        """Vectors of the words of each band, and projections of each band but the first."""
        vectors = [
            self._weight(f"{prefix}_{k}_embeddings", (band.stop - band.start, band.width), self.embeddings_initializer)
            for k, band in enumerate(self.bands)
        ]
        return vectors, self._projections(prefix)

    def _projections(self, prefix):
        return [
            self._weight(f"{prefix}_{k}_projection", (band.width, self.output_dim), self.projections_initializer)
            for k, band in enumerate(self.bands[1:], start=1)
        ]

    def _weight(self, name, shape, initializer):
        return self.add_weight(shape=shape, initializer=another(initializer, len(self.weights)), name=name)

    def call(self, inputs, reverse=False):
        with variables_as_they_are():
            return self._log_probabilities(inputs) if reverse else self._embed(inputs)

    def _embed(self, ids):
        if keras.backend.standardize_dtype(ids.dtype) not in ("int32", "int64"):
            ids = ops.cast(ids, "int32")
        frequent, *others = (self._rows(k, ids) for k in range(len(self.bands)))
        projections = ops.cast(ops.concatenate(self.projections), self.compute_dtype)
        return mark_padding(self, frequent + ops.matmul(ops.concatenate(others, axis=-1), projections), ids)

    def _rows(self, k, ids):
        """Vectors `[..., D_k]` of the ids of band `k`, zeros for other ids.

        Ids outside the vocabulary are left to the lookup, which treats them as that of any matrix.
        """
        band, inside = self.bands[k], True
        if k > 0:
            inside = ids >= band.start
        if k < len(self.cutoffs):
            inside = ops.logical_and(inside, ids < band.stop)
        rows = lookup(self.band_embeddings[k], ops.where(inside, ids - band.start, 0), alone=not self.tie_weights)
        return ops.where(ops.expand_dims(inside, -1), ops.cast(rows, self.compute_dtype), 0)

    def output_tables(self):
        """An `OutputTable` for each band. The clusters are in that of the most frequent words, the first."""
        parts = [None] * len(self.bands)
        if self.use_bias:
            parts = [self.bias[band.start : band.stop] for band in self.bands]
            parts[0] = ops.concatenate([parts[0], self.cluster_bias])
        frequent, *others = self.output_band_embeddings
        head = OutputTable(None, ops.concatenate([frequent, self.clusters]), parts[0])
        return [head, *map(OutputTable, self.output_projections, others, parts[1:])]

    def _log_probabilities(self, hidden):
        check_width(self.output_dim, hidden.shape, unknown=True)
        head, *tails = (ops.log_softmax(self._logits(hidden, table), axis=-1) for table in self.output_tables())
        first = self.cutoffs[0]
        pieces = [tail + head[..., first + k : first + k + 1] for k, tail in enumerate(tails)]
        return ops.concatenate([head[..., :first], *pieces], axis=-1)

    def _logits(self, hidden, table):
        hidden = ops.cast(hidden, self.compute_dtype)
        if table.projection is not None:
            hidden = ops.matmul(hidden, ops.transpose(ops.cast(table.projection, self.compute_dtype)))
        logits = ops.matmul(hidden, ops.transpose(ops.cast(table.embeddings, self.compute_dtype)))
        logits = ops.cast(logits, "float32")
        return logits if table.bias is None else logits + ops.cast(table.bias, "float32")

    @property
    def output_embeddings(self):
        """The vectors `[V, H]` that score the words within their bands, at full width: for plots and word vectors."""
        head, *tails = self.output_tables()
        wide = [ops.matmul(tail.embeddings, tail.projection) for tail in tails]
        return ops.concatenate([head.embeddings[: self.cutoffs[0]], *wide])

    def compute_mask(self, inputs, mask=None):
        """The mask of hidden states, which scores keep, or that of ids. Lookups set theirs in `call` too."""
        return mask_of_ids(self, inputs, mask)

    def compute_output_spec(self, inputs, reverse=False):
        dtype = "float32" if reverse else self.compute_dtype
        output = keras.KerasTensor(self.compute_output_shape(inputs.shape, reverse), dtype=dtype)
        return output if reverse else mark_padding(self, output, inputs)

    def compute_output_shape(self, input_shape, reverse=False):
        if not reverse:
            return (*input_shape, self.output_dim)
        check_width(self.output_dim, input_shape, unknown=True)
        return (*input_shape[:-1], self.input_dim)

    def quantize(self, mode=None, type_check=True, config=None):
        raise NotImplementedError(  # with which Keras leaves a layer as it is
            "An AdaptiveEmbedding cannot be quantized: use a TiedEmbedding, or leave it out with `filters` of "
            f"`Model.quantize`. Received: mode={mode!r} for {self.name!r}"
        )

    def enable_lora(self, rank, lora_alpha=None):
        raise NotImplementedError(
            f"An AdaptiveEmbedding cannot have LoRA: use a TiedEmbedding. Received: rank={rank!r} for {self.name!r}"
        )

    def get_config(self):
        return {
            **super().get_config(),
            "input_dim": self.input_dim,
            "output_dim": self.output_dim,
            "cutoffs": list(self.cutoffs),
            "factor": self.factor,
            "tie_weights": self.tie_weights,
            "tie_projections": self.tie_projections,
            "use_bias": self.use_bias,
            "mask_zero": self.mask_zero,
            "embeddings_initializer": initializers.serialize(self.embeddings_initializer),
            "projections_initializer": initializers.serialize(self.projections_initializer),
            "bias_initializer": initializers.serialize(self.bias_initializer),
        }


def _checked(cutoffs, vocabulary_size):
    """Cutoffs as a tuple. Raises ValueError if they do not cut the vocabulary into bands."""
    found = tuple(cutoffs) if isinstance(cutoffs, (list, tuple)) else ()
    for cutoff in found:
        check_integer("cutoffs", cutoff)
    if not found or any(one >= other for one, other in pairwise([*found, vocabulary_size])):
        raise ValueError(
            f"`cutoffs` must be increasing integers below the vocabulary size, {vocabulary_size}. "
            f"Received: cutoffs={cutoffs!r}"
        )
    return tuple(map(int, found))
