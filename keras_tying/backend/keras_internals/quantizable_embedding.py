"""The reversible embedding of Keras, quantized in both of its roles."""

import keras
from keras import ops

from keras_tying.backend.keras_internals.calls import mark_padding
from keras_tying.checks import check_width


class QuantizableEmbedding(keras.layers.ReversibleEmbedding):
    """The reversible embedding of Keras, in which both roles of a quantized matrix have mask, LoRA delta and gradient.

    `ReversibleEmbedding._int8_call`, `_int4_call`: Keras adds the LoRA delta to looked-up vectors and not to scores,
    sets no mask, passes no gradient to quantized hidden states, and applies the soft cap before a bias can be added.
    `Embedding._embeddings`: Keras looks for the variable in `embeddings`, which it unpacks.
    `Layer._not_implemented_error`: the error that other layers raise. `load_own_variables`: see there.
    """

    tie_weights: bool
    logit_soft_cap: float | None
    lora_enabled: bool
    lora_rank: int | None

    @property
    def embeddings(self):
        """The matrix `[V, H]` that embeds words, with the LoRA delta.

        `Embedding.embeddings`: Keras rounds the sum to the compute dtype, and with it the gradients of both factors.
        """
        if not self.built or not self.lora_enabled or self.quantization_mode is not None:
            return super().embeddings
        delta = ops.matmul(self.lora_embeddings_a, self._scaled_lora_b())
        return ops.add(self._embeddings, delta)

    def load_own_variables(self, store):
        """Loads a matrix into which Keras merged the delta of LoRA when it saved, and starts LoRA anew.

        Keras sets both factors of the delta to zero, from where neither has a gradient, and does not check with LoRA
        that the file has as many variables as the layer.
        """
        if self.lora_enabled and self.built:
            own: dict[str, object] = {}
            self.save_own_variables(own)
            if len(own) != len(store.keys()):
                raise ValueError(
                    f"Layer {self.name!r} has {len(own)} variables without those of LoRA. Received: a file with "
                    f"{len(store.keys())}. Load it into a layer with the tying and bias of the file."
                )
        super().load_own_variables(store)
        if self.lora_enabled:
            factor = self.lora_embeddings_a
            factor.assign(keras.initializers.HeUniform()(factor.shape, factor.dtype))

    def finish(self, logits):
        """Logits from the products with the matrix."""
        raise NotImplementedError

    def dequantized_output(self):
        """The quantized matrix of scores as floats `[V, H]`, with the LoRA delta if it is that of lookups."""
        if self.tie_weights:
            return self._vectors(ops.arange(self.input_dim, dtype="int32"))
        return ops.transpose(self._products(ops.eye(self.output_dim)))

    def _int8_call(self, inputs, reverse=False):
        if reverse:
            check_width(self.output_dim, inputs.shape, unknown=True)
            return self.finish(self._scores(inputs))
        return mark_padding(self, ops.cast(self._vectors(inputs), self.compute_dtype), inputs)

    _int4_call = _int8_call

    def _vectors(self, ids):
        """Looked-up vectors `[..., H]`."""
        vectors = self._without_lora(ids)
        if not self.lora_enabled:
            return vectors
        ids = ops.cast(ids, "int32")
        delta = ops.matmul(ops.take(self.lora_embeddings_a, ids, axis=0), self._scaled_lora_b())
        return vectors + ops.cast(delta, vectors.dtype)

    def _scores(self, hidden):
        """Products `[..., V]` of hidden states `[..., H]` with the matrix of scores, without bias and soft cap."""
        dtype = self.reverse_dtype or self.compute_dtype
        hidden = ops.cast(hidden, dtype)
        scores = ops.cast(self._products(hidden), dtype)
        if not (self.lora_enabled and self.tie_weights):
            return scores
        inner = ops.matmul(hidden, ops.transpose(ops.cast(self._scaled_lora_b(), dtype)))
        return scores + ops.matmul(inner, ops.transpose(ops.cast(self.lora_embeddings_a, dtype)))

    def _scaled_lora_b(self):
        return (self.lora_alpha / self.lora_rank) * ops.convert_to_tensor(self.lora_embeddings_b)

    def _products(self, hidden):
        """Products of hidden states with the quantized matrix, with the gradient of the dequantized matrix."""

        @ops.custom_gradient
        def products(hidden):
            def gradient(*arguments, upstream=None):
                upstream = arguments[0] if upstream is None else upstream
                kernel = self._without_lora(ops.eye(self.output_dim), reverse=True)
                return ops.cast(ops.matmul(upstream, ops.transpose(ops.cast(kernel, upstream.dtype))), hidden.dtype)

            return self._without_lora(hidden, reverse=True), gradient

        return products(hidden)

    def _without_lora(self, inputs, reverse=False):
        """Results of Keras without LoRA delta and soft cap.

        The layer that computes them is another object with the same variables: other threads may call this one.
        """
        plain = object.__new__(type(self))
        plain.__dict__.update(self.__dict__, logit_soft_cap=None, lora_enabled=False)
        parent = keras.layers.ReversibleEmbedding
        call = parent._int8_call if self.quantization_mode == "int8" else parent._int4_call
        return call(plain, inputs, reverse=reverse)

    def check_quantizable(self, kind):
        """Raises NotImplementedError for subclasses of `kind`, which may override the computation."""
        if type(self) is not kind:
            raise self._not_implemented_error(self.quantize)
