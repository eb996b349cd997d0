"""Language model with a tied or an untied output embedding."""

import inspect
from functools import partial

import keras
from keras import ops

from keras_tying.backend.compilation import compile_function, write_back
from keras_tying.backend.keras_internals.calls import mask_of
from keras_tying.backend.replicas import has_own_rows, part_of, rows_of_all, scope_of, set_rows_of_all
from keras_tying.checks import check_integer
from keras_tying.ids import check_ids
from keras_tying.layers import AdaptiveEmbedding, CarriedState, TiedEmbedding, WordDropout
from keras_tying.layers.carried_state import checked_rows
from keras_tying.layers.lookup import embedding_matrix
from keras_tying.models.changed_copies import ChangedCopies
from keras_tying.models.composed_model import policy_of
from keras_tying.models.heads import head_of
from keras_tying.models.next_word_model import Example, NextWordModel, arguments_of
from keras_tying.models.sampling import EXCLUDED, generate_words
from keras_tying.models.serialization import layer_configs

POSITION_WISE = (
    WordDropout,
    keras.layers.Activation,
    keras.layers.Dense,
    keras.layers.Dropout,
    keras.layers.GaussianDropout,
    keras.layers.GaussianNoise,
    keras.layers.LayerNormalization,
    keras.layers.RMSNormalization,
)
"""Layers without a state that process each word independently."""
CONVOLUTIONS = (keras.layers.Conv1D, keras.layers.DepthwiseConv1D, keras.layers.SeparableConv1D)


@keras.saving.register_keras_serializable("keras_tying")
class LanguageModel(ChangedCopies, NextWordModel):
    """Word-level language model: embedding, any layers, output embedding.

    With input words `c`, the input embedding `U`, the hidden layers `f` and the output embedding `V`, the scores of all
    words are `V f(U c) + b`. When tied, `V = U`. For a projection before the output embedding, end the hidden layers
    with a `Dense` layer.

    The hidden layers are applied in order. A layer with a recurrent state (`state_size`) receives `initial_state` and
    returns its new states: the LSTM, GRU and RNN layers of Keras, and `LSTM` and `RecurrentHighway` of
    `keras_tying.layers`. Other layers map `[B, T, I]` to `[B, T, O]` and must not use later words: `Dense`,
    `Conv1D(padding="causal")`, a causal Transformer block. A layer whose `call` has an argument `training` receives it,
    and a layer whose `call` has an argument `ids`, for example `WordDropout`, receives the word ids. Hidden layers may
    contain the embedding, as `TiedDense` does; they share it in every copy of the model.

    To train on windows `[B, T]` of a text cut into `B` rows, call `carry_state(B)` first: the model then carries its
    recurrent states from one window to the next. `keras_tying.zoo` builds published models.

    Args:
        embedding: The `TiedEmbedding` or `AdaptiveEmbedding` of the words. It also scores the next word.
        hidden_layers: List of layers, from embedded words `[B, T, H]` to hidden states `[B, T, H]` before the output
            embedding. Recurrent layers need `return_sequences=True` and `return_state=True`.
        state_reset_rate: Float in [0, 1), the probability that a row starts a window of training from a zero state
            instead of the carried one. Defaults to 0.
        **kwargs: `name`, `dtype`, `trainable`.

    Call arguments:
        inputs: Word ids `[B, T]`.
        targets: Optional word ids `[B, T]`: the word that follows each input.
        sample_weight: Optional weights of the targets, which broadcast to `[B, T]`.
        states: Optional list of states `[B, H]`, in the order of the layers. Default: zeros.
        training: Boolean, whether dropout is active. On PyTorch `loss` has a gradient only with `True`.
        return_states: Boolean, whether to return `(outputs, states)`.

    Output shape:
        Logits `[B, T, V]`; with targets `Losses`.

    Raises:
        ValueError: If a recurrent layer does not return sequences and states, a layer is made to use later words, the
            last layer does not have the width of the embedding, or the embedding has a `call` of its own or an
            `activity_regularizer`: losses compute scores from its parameters.

    Example:

    >>> import keras, numpy as np, keras_tying as kt
    >>> arguments = {"return_sequences": True, "return_state": True}
    >>> model = kt.models.LanguageModel(
    ...     kt.layers.TiedEmbedding(10_000, 200),
    ...     [kt.layers.LSTM(200, **arguments), keras.layers.GRU(200, **arguments), keras.layers.Dense(200)],
    ... )
    >>> words, next_words = np.array([[3, 1, 4]]), np.array([[1, 4, 1]])
    >>> tuple(model(words).shape)
    (1, 3, 10000)
    >>> tuple(model(words, targets=next_words).token_losses.shape)
    (1, 3)

    Reference:
        Press and Wolf, Using the Output Embedding to Improve Language Models, section 3.
    """

    def __init__(self, embedding, hidden_layers, *, state_reset_rate=0.0, **kwargs):
        if not isinstance(embedding, (TiedEmbedding, AdaptiveEmbedding)):
            raise ValueError(
                f"`embedding` must be a TiedEmbedding or AdaptiveEmbedding. Received: embedding={embedding!r}"
            )
        head_of(embedding)
        super().__init__(**{"dtype": policy_of(embedding), **kwargs})
        self.embedding = embedding
        self.hidden_layers = list(hidden_layers)
        for layer in self.recurrent_layers:
            _check_returns_states(layer)
        if looking := _look_ahead(self.hidden_layers):
            raise ValueError(
                "`hidden_layers` must not use later words: no Bidirectional, no go_backwards=True, convolutions with "
                f"padding='causal'. Received: {looking}"
            )
        if embedding.mask_zero and (without := _without_masks(self.hidden_layers)):
            raise ValueError(
                f"With mask_zero=True all hidden layers must support masks. Received: {without}, which do not"
            )
        widths = [width for layer in self.recurrent_layers for width in keras.tree.flatten(layer.state_size)]
        self.carried = CarriedState(
            widths, reset_rate=state_reset_rate, dtype=self.variable_dtype, name="carried_state"
        )
        self.build((None, None))

    @property
    def vocabulary_size(self):
        """Word types `V`."""
        return self.embedding.input_dim

    @property
    def hidden_size(self):
        """Width `H` of the embedding and of the hidden states."""
        return self.embedding.output_dim

    @property
    def tied(self):
        """Whether input and output embeddings are one variable; in an `AdaptiveEmbedding` also the projections."""
        return self.embedding.tie_weights and getattr(self.embedding, "tie_projections", True)

    @property
    def output_embedding(self):
        """The layer that scores words: `embedding`."""
        return self.embedding

    @property
    def recurrent_layers(self):
        """The hidden layers that have a state."""
        return [layer for layer in self.hidden_layers if _is_recurrent(layer)]

    @property
    def reads_word_by_word(self):
        """Whether a text can be continued from the states and the last word.

        This is the case if each hidden layer has a state or processes every word independently. A model with other
        layers, such as convolutions or attention, must read the previous words again.
        """
        return all(_is_recurrent(layer) or isinstance(layer, POSITION_WISE) for layer in self.hidden_layers)

    @property
    def input_signature(self):
        """Word ids `[B, T]`."""
        return keras.InputSpec(shape=(None, None), dtype="int32")

    def build(self, input_shape=None):
        self.embedding.build()
        hidden, _ = self.hidden_states(keras.KerasTensor((None, None), dtype="int32"))
        if hidden.shape[-1] != self.hidden_size:
            raise ValueError(
                f"`hidden_layers` must end with the width of the embedding, {self.hidden_size}; add a Dense layer of "
                f"that size. Received: a last layer of width {hidden.shape[-1]}"
            )
        self.built = True

    def call(self, inputs, targets=None, sample_weight=None, states=None, training=None, return_states=False):
        carrying = False
        if isinstance(inputs, Example):
            inputs, targets, sample_weight = inputs
            carrying = self.carried.batch_size is not None
        if carrying:
            hidden, states = self._next_window(inputs, training)
        else:
            hidden, states = self.hidden_states(inputs, states, training)
        outputs = self.outputs_of(hidden, targets, sample_weight, training)
        return (outputs, states) if return_states else outputs

    def hidden_states(self, inputs, states=None, training=None):
        """Hidden states `[B, T, H]` before the output embedding, and recurrent states, from word ids `[B, T]`."""
        if states is not None and len(states) != len(self.carried.widths):
            raise ValueError(
                f"`states` must be {len(self.carried.widths)} tensors [B, H]: those of `zero_states` or of a call "
                f"before. Received: {len(states)} states"
            )
        hidden, new_states = self.embedding(inputs), []
        remaining = None if states is None else iter(states)
        for layer in self.hidden_layers:
            arguments = arguments_of(layer, ids=inputs, training=training)
            if not _is_recurrent(layer):
                hidden = layer(hidden, **arguments)
                continue
            if remaining is not None:
                initial = [
                    ops.convert_to_tensor(next(remaining), hidden.dtype) for _ in keras.tree.flatten(layer.state_size)
                ]
                arguments["initial_state"] = _like_state_size(layer, initial)
                arguments |= arguments_of(layer, mask=mask_of(hidden))  # Keras passes masks of single tensors only
            hidden, *layer_states = layer(hidden, **arguments)
            new_states += keras.tree.flatten(layer_states)
        return hidden, new_states

    def embedding_matrices(self):
        """The embeddings `[V, H]` by role: `input` and `output`, or `tied`."""
        if self.tied:
            return {"tied": embedding_matrix(self.embedding)}
        return {"input": embedding_matrix(self.embedding), "output": self.embedding.output_embeddings}

    def carry_state(self, batch_size):
        """Makes `fit` and `evaluate` start each batch with the last states of the previous batch.

        `fit` goes on from the state of its last batch, also in the next epoch; `reset_state` makes it zero. It does not
        shuffle any more.

        Args:
            batch_size: Integer, the size of every batch. It is divided among the replicas of a
                `tf.distribute.Strategy`.

        Raises:
            ValueError: If the batch size is not a positive integer or not a multiple of the number of replicas, or the
                state is already allocated for another batch size.
        """
        check_integer("batch_size", batch_size)
        if self.carried.batch_size is None:
            self.train_function = self.test_function = None  # TensorFlow traced them without a state
        with scope_of(self):
            self.carried.allocate(part_of(self, batch_size))

    def fit(self, *args, **kwargs):
        """Trains the model; arguments are those of `keras.Model.fit`.

        With a carried state `shuffle` is `False` by default: each row of a batch continues that of the batch before.

        Args:
            *args: The inputs `x`; the word ids to predict `y`, `[B, T]`; further arguments.
            **kwargs: Further arguments.

        Raises:
            ValueError: If `shuffle` is given and not `False` with a carried state.
        """
        if self.carried.batch_size is not None:
            given = inspect.signature(keras.Model.fit).bind(self, *args, **kwargs).arguments
            if given.get("shuffle"):
                raise ValueError(
                    "A carried state needs batches in the order of the text: pass shuffle=False. "
                    f"Received: shuffle={given['shuffle']!r}"
                )
            if "shuffle" not in given:
                kwargs["shuffle"] = False
        return super().fit(*args, **kwargs)

    def evaluate(self, *args, **kwargs):
        """Measures the model; arguments are those of `keras.Model.evaluate`.

        A carried state starts at zero, and afterwards it is what it was before, so that `fit` can validate.
        """
        if self.carried.batch_size is None:
            return super().evaluate(*args, **kwargs)
        write_back(self)
        before = [(state, rows_of_all(self, state)) for state in self.carried.variables if has_own_rows(state)]
        self.reset_state()
        try:
            return super().evaluate(*args, **kwargs)
        finally:
            set_rows_of_all(self, before)

    def reset_state(self):
        """Sets the carried state to zero, as at the start of a text."""
        self.carried.reset()

    def _next_window(self, inputs, training):
        """`hidden_states` of the next window, from the carried state, which is updated."""
        inputs = checked_rows(inputs, self.carried.batch_size)
        hidden, states = self.hidden_states(inputs, self.carried.start(training), training)
        self.carried.update(states)
        return hidden, states

    def token_log_probabilities(self, inputs, targets, states=None, stochastic=False):
        """Log-probabilities of `targets` `[B, T]` after `inputs` `[B, T]`, and the states after the last input.

        With `stochastic`, dropout is active, as for Monte Carlo dropout, which averages the probabilities of many
        passes.

        Raises:
            ValueError: If an id is outside the vocabulary, or the shapes are not `[B, T]`.
        """
        inputs, targets = (check_ids(ids, self.vocabulary_size) for ids in (inputs, targets))
        if inputs.ndim != 2 or inputs.shape[1] == 0 or inputs.shape != targets.shape:
            raise ValueError(
                "`inputs` and `targets` must be word ids [B, T] with T at least 1. "
                f"Received: shapes {inputs.shape} and {targets.shape}"
            )
        name = "stochastic score" if stochastic else "score"
        score = self.compiled_once(name, lambda: compile_function(self, partial(self._score, training=stochastic)))
        if states is None:
            states = self.zero_states(len(inputs))
        return score(ops.convert_to_tensor(inputs), ops.convert_to_tensor(targets), states)

    def _score(self, inputs, targets, states, training):
        hidden, states = self.hidden_states(inputs, states, training)
        return -self.token_losses(hidden, targets), states

    def zero_states(self, batch_size):
        """States at the start of a text, for `batch_size` rows."""
        return [ops.zeros((batch_size, width), self.compute_dtype) for width in self.carried.widths]

    def score(self, inputs, targets, states=None):
        """Log-probabilities of words given the previous words.

        Args:
            inputs: Word ids `[B, T]`.
            targets: Word ids `[B, T]`: the word that follows each input.
            states: Optional list of states `[B, H]`, see `call`.

        Returns:
            NumPy array `[B, T]`: the natural logarithm of the probability of each target; 0 where the input is padding
            (`mask_zero`).

        Raises:
            ValueError: If an id is outside the vocabulary, the shapes are not `[B, T]` with at least one step, or
                `states` are not as many as the states of the model.
        """
        log_probabilities, _ = self.token_log_probabilities(inputs, targets, states)
        return ops.convert_to_numpy(log_probabilities)

    def next_word_scores(self, hidden):
        """Scores `[..., V]` of the next word after hidden states `[..., H]`; padding (`mask_zero`) has -1e9."""
        scores = self.scores(hidden)
        if not self.embedding.mask_zero:
            return scores
        return ops.where(ops.arange(self.vocabulary_size) == 0, ops.cast(EXCLUDED, scores.dtype), scores)

    def generate(self, prefix, length, temperature=1.0, top_k=None, top_p=None, seed=None):
        """Continues texts.

        A model that `reads_word_by_word` reads each new word once. Other models, for example models without recurrent
        layers, read the whole text again for each new word. Padding (`mask_zero`) is never drawn.

        Args:
            prefix: Word ids `[B, T]`, at least one per row.
            length: Integer, number of words to add, at least 0.
            temperature: Float at least 0 by which scores are divided; 0 always takes the likeliest word.
            top_k: Optional integer: draw from the `top_k` likeliest words only.
            top_p: Optional float in (0, 1]: draw from the smallest set of likeliest words that has this probability.
            seed: Optional integer for repeatable results.

        Returns:
            NumPy array `[B, length]` of word ids.

        Raises:
            ValueError: If an id is outside the vocabulary, `prefix` is not `[B, T]` with at least one word per row, or
                another argument is outside its range.
        """
        return generate_words(self, prefix, length, temperature, top_k, top_p, seed)

    def get_config(self):
        return {
            **super().get_config(),
            **layer_configs(embedding=self.embedding, hidden_layers=self.hidden_layers),
            "state_reset_rate": self.carried.reset_rate,
        }


def _without_masks(layers):
    """Names of layers that do not pass masks on, also inside functional and sequential models, which do."""
    names = []
    for layer in layers:
        if isinstance(layer, keras.Sequential) or hasattr(layer, "operations"):  # a functional model has operations
            names += _without_masks(each for each in layer.layers if not isinstance(each, keras.layers.InputLayer))
        elif not layer.supports_masking:
            names.append(layer.name)
    return names


def _look_ahead(layers):
    """Names of layers whose arguments say that they use later words, also inside sequential models."""
    names = []
    for layer in layers:
        if isinstance(layer, keras.Sequential):
            names += _look_ahead(layer.layers)
        centred = isinstance(layer, CONVOLUTIONS) and layer.padding == "same" and layer.kernel_size > (1,)
        if centred or isinstance(layer, keras.layers.Bidirectional) or getattr(layer, "go_backwards", False):
            names.append(layer.name)
    return names


def _is_recurrent(layer):
    return getattr(layer, "state_size", None) is not None


def _check_returns_states(layer):
    settings = {name: getattr(layer, name, True) for name in ("return_sequences", "return_state")}
    if not all(settings.values()):
        raise ValueError(
            "A recurrent layer of a language model needs return_sequences=True and return_state=True. Received: "
            f"{type(layer).__name__} {layer.name!r} with "
            + ", ".join(f"{name}={value}" for name, value in settings.items())
        )


def _like_state_size(layer, states):
    """A flat list of states in the structure of `layer.state_size`, which is nested for stacked cells."""
    size = _plain(layer.state_size)
    return keras.tree.pack_sequence_as(size, states) if isinstance(size, list) else states


def _plain(size):
    """Sizes as nested lists: JAX does not know the lists of a Keras layer."""
    return [_plain(each) for each in size] if isinstance(size, (list, tuple)) else size
