"""Embedding layer that shares its matrix with the output projection."""

import copy

import keras
from keras import constraints, initializers, ops, regularizers

from keras_tying.backend.keras_internals.calls import mark_padding, mask_of_ids, variables_as_they_are
from keras_tying.backend.keras_internals.quantizable_embedding import QuantizableEmbedding
from keras_tying.checks import check_integer, check_number, check_width
from keras_tying.layers.initial_weights import another
from keras_tying.layers.lookup import lookup
from keras_tying.layers.shared_place import Shareable


@keras.saving.register_keras_serializable("keras_tying")
class TiedEmbedding(Shareable, QuantizableEmbedding):
    """Embedding layer whose matrix is also the output projection, with an output bias.

    Called on word ids it looks up rows of the matrix `S`. Called with `reverse=True` on hidden states
    it scores every word: `logits = h S^T + b`. With `tie_weights=True` both roles use one variable,
    whose gradient is the sum of the gradients of both roles. The layer can be called any number of times:
    for three-way tying, use it for the encoder's input, the decoder's input and the decoder's output.

    Copies of a functional model, and saved models that are loaded, share as the model does. Where several nested models
    share the layer, there are two rules. Clone the outer model with `keras.models.clone_model(model, recursive=True)`:
    without `recursive`, in `from_config`, `model_from_json` and whole models saved as `.h5`, Keras copies each nested
    model on its own, with every layer in it. And copy a loaded model with `copy.deepcopy`: its first nested model has
    the layer, the others have a layer of the same name in its place, whose attribute `embedding` is the shared one.

    After `enable_lora(rank)` the delta of a tied matrix is in both roles, also when the layer is quantized to int8 or
    int4, before or after. Its gradient is the sum over both roles. Without tying, the delta belongs to the lookup. As
    every layer of Keras, a quantized layer with LoRA is saved without its delta: the saved matrix is the sum of both,
    rounded again. Save before quantizing to keep a small delta exact.

    Args:
        input_dim: Integer, the vocabulary size `V`.
        output_dim: Integer, the embedding size `H`.
        tie_weights: Boolean. `True` (default) shares the variable; `False` adds a separate
            `[H, V]` matrix for the reverse role.
        embeddings_initializer: See `keras.layers.ReversibleEmbedding`, as for the other arguments up to
            `logit_soft_cap` and `**kwargs`. The arguments of the bias are keyword-only.
        embeddings_regularizer: See there.
        embeddings_constraint: See there.
        mask_zero: See there. Scores keep the mask of the hidden states.
        reverse_dtype: See there.
        logit_soft_cap: See there.
        use_bias: Boolean, whether logits get a bias of size `V`. Defaults to `True`.
        bias_initializer: Initializer of the bias. Defaults to `"zeros"`.
        bias_regularizer: Optional regularizer of the bias.
        bias_constraint: Optional constraint of the bias.
        reverse_embeddings_initializer: Initializer of the separate `[H, V]` matrix of the reverse role. Default:
            `embeddings_initializer`.
        **kwargs: Base layer arguments, such as `name` and `dtype`.

    Call arguments:
        inputs: Integer ids of any shape `[...]`, or, with `reverse=True`, floats `[..., H]`.
        reverse: Boolean, `True` to score words instead of embedding them. Defaults to `False`.

    Output shape:
        `[..., H]`, or `[..., V]` with `reverse=True`.

    Raises:
        ValueError: If a size is not a positive integer, `logit_soft_cap` is not a positive number,
            `reverse_embeddings_initializer` is given for a tied layer, or `weights` are given; when built, if there is
            a `lora_rank` with an `embeddings_constraint`, or one that is not a positive integer; when called with
            `reverse=True`, if the width is not `H`.
        NotImplementedError: When quantized, if the layer is of a subclass, which may compute something else.

    Example:

    >>> import keras, numpy as np, keras_tying as kt
    >>> embedding = kt.layers.TiedEmbedding(10_000, 200)
    >>> tokens = np.array([[3, 14, 15]])
    >>> hidden = keras.layers.LSTM(200, return_sequences=True)(embedding(tokens))
    >>> tuple(embedding(hidden, reverse=True).shape)
    (1, 3, 10000)
    >>> len(embedding.trainable_variables)  # the shared matrix and the bias
    2

    Reference:
        Press and Wolf, Using the Output Embedding to Improve Language Models, sections 1 and 3.
    """

    def __init__(
        self,
        input_dim,
        output_dim,
        tie_weights=True,
        embeddings_initializer="uniform",
        embeddings_regularizer=None,
        embeddings_constraint=None,
        mask_zero=False,
        reverse_dtype=None,
        logit_soft_cap=None,
        *,
        use_bias=True,
        bias_initializer="zeros",
        bias_regularizer=None,
        bias_constraint=None,
        reverse_embeddings_initializer=None,
        **kwargs,
    ):
        if kwargs.pop("weights", None) is not None:
            raise ValueError("`weights` is not an argument here: build the layer, then call `set_weights`.")
        super().__init__(
            input_dim,
            output_dim,
            tie_weights,
            embeddings_initializer,
            embeddings_regularizer,
            embeddings_constraint,
            mask_zero,
            reverse_dtype,
            logit_soft_cap,
            **kwargs,
        )
        self.supports_masking = True
        if self.logit_soft_cap is not None:
            check_number("logit_soft_cap", self.logit_soft_cap, above=0)
        self.use_bias = use_bias
        self.bias_initializer = initializers.get(bias_initializer)
        self.bias_regularizer = regularizers.get(bias_regularizer)
        self.bias_constraint = constraints.get(bias_constraint)
        self.bias = None
        if tie_weights and reverse_embeddings_initializer is not None:
            raise ValueError(
                "`reverse_embeddings_initializer` needs `tie_weights=False`: a tied layer has one matrix. "
                f"Received: reverse_embeddings_initializer={reverse_embeddings_initializer!r}"
            )
        self.reverse_embeddings_initializer = initializers.get(reverse_embeddings_initializer)

    def build(self, input_shape=None):
        if self.built:
            return
        rank, self.lora_rank = self.lora_rank, None  # Keras locks the layer when it enables LoRA
        separate = not self.tie_weights and self.quantization_mode is None
        if separate:  # Keras would give both matrices one initializer
            self.tie_weights = True
        super().build(input_shape)
        if separate:
            self.tie_weights = False
            self.reverse_embeddings = self.add_weight(
                shape=(self.output_dim, self.input_dim),
                initializer=self.reverse_embeddings_initializer
                or another(self.embeddings_initializer, len(self.weights)),
                name="reverse_embeddings",
            )
        if self.use_bias:
            self.bias = self.add_weight(
                shape=(self.input_dim,),
                initializer=self.bias_initializer,
                regularizer=self.bias_regularizer,
                constraint=self.bias_constraint,
                name="bias",
            )
        if rank is not None:
            self.enable_lora(rank, self.lora_alpha)

    @property
    def output_embeddings(self):
        """The `[V, H]` matrix that scores words: the matrix that embeds words when tied."""
        if self.quantization_mode is not None:
            return self.dequantized_output()
        return self.embeddings if self.tie_weights else ops.transpose(self.reverse_embeddings)

    def call(self, inputs, reverse=False):
        with variables_as_they_are():
            return self._score(inputs) if reverse else self._embed(inputs)

    def _score(self, inputs):
        check_width(self.output_dim, inputs.shape, unknown=True)
        dtype = self.reverse_dtype or self.compute_dtype
        kernel = ops.transpose(self.embeddings) if self.tie_weights else self.reverse_embeddings
        logits = ops.matmul(ops.cast(inputs, dtype), ops.cast(kernel, dtype))
        return self.finish(logits)

    def _embed(self, ids):
        if keras.backend.standardize_dtype(ids.dtype) not in ("int32", "int64"):
            ids = ops.cast(ids, "int32")
        vectors = ops.cast(lookup(self.embeddings, ids, alone=not self.tie_weights), self.compute_dtype)
        return mark_padding(self, vectors, ids)

    def compute_mask(self, inputs, mask=None):
        """The mask of hidden states, which scores keep, or that of ids. Lookups set theirs in `call` too."""
        return mask_of_ids(self, inputs, mask)

    def compute_output_spec(self, inputs, reverse=False):
        dtype = (reverse and self.reverse_dtype) or self.compute_dtype
        output = keras.KerasTensor(self.compute_output_shape(inputs.shape, reverse), dtype=dtype)
        return output if reverse else mark_padding(self, output, inputs)

    def compute_output_shape(self, input_shape, reverse=False):
        if not reverse:
            return (*input_shape, self.output_dim)
        check_width(self.output_dim, input_shape, unknown=True)
        return (*input_shape[:-1], self.input_dim)

    def finish(self, logits):
        """Adds the bias, then applies the soft cap to the sum."""
        if self.bias is not None:
            logits = logits + ops.cast(self.bias, logits.dtype)
        if self.logit_soft_cap is not None:
            logits = ops.tanh(logits / self.logit_soft_cap) * self.logit_soft_cap
        return logits

    def enable_lora(self, rank, lora_alpha=None, a_initializer="he_uniform", b_initializer="zeros"):
        check_integer("rank", rank)
        super().enable_lora(rank, lora_alpha, a_initializer, b_initializer)

    def quantize(self, mode=None, type_check=True, config=None):
        if type_check:
            self.check_quantizable(TiedEmbedding)
        super().quantize(mode, type_check=False, config=config)

    @property
    def variable_serialization_spec(self):
        spec = copy.deepcopy(super().variable_serialization_spec)
        if self.use_bias:
            for names in spec.values():
                names.append("bias")
        return spec

    def get_config(self):
        return {
            **super().get_config(),
            "use_bias": self.use_bias,
            "bias_initializer": initializers.serialize(self.bias_initializer),
            "bias_regularizer": regularizers.serialize(self.bias_regularizer),
            "bias_constraint": constraints.serialize(self.bias_constraint),
            "reverse_embeddings_initializer": initializers.serialize(self.reverse_embeddings_initializer),
        }
