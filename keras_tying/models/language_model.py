"""A recurrent language model whose output embedding may be its input embedding."""

from functools import partial

import keras
from keras import ops

from keras_tying.backend.compilation import compile_function
from keras_tying.backend.replicas import part_of, scope_of
from keras_tying.ids import check_ids
from keras_tying.layers import CarriedState, TiedEmbedding, WordDropout
from keras_tying.losses import SequenceCrossEntropy
from keras_tying.models.fused_output import FusedOutputModel
from keras_tying.models.recurrent_stack import dropout_layers, recurrent_layers
from keras_tying.models.sampling import generate_words
from keras_tying.models.variational_dropout import VariationalDropout, as_dropout


@keras.saving.register_keras_serializable("keras_tying")
class LanguageModel(FusedOutputModel):
    """Word-level language model: embedding, recurrent layers, optional projection, output embedding.

    With input word `c`, embeddings `S` (or `U` and `V` when untied), the recurrent stack's output `h2` and
    the optional projection `P`, the scores of all words are `h3 = V P h2 + b`, `V = U = S` when tied.

    Trained on windows `[B, T]` of a text cut into `B` rows, it carries its recurrent state from one
    window to the next once `carry_state(B)` was called. Compiled with a `SequenceCrossEntropy`, one of which
    stands in where no loss is given, training goes from hidden states straight to the loss; `predict` gives logits.

    Args:
        vocabulary_size: Integer `V`.
        units: Integer `H`, the size of embeddings and recurrent layers.
        num_layers: Integer, recurrent layers. Defaults to 2.
        tied: Boolean, whether input and output embeddings are one variable. Defaults to `True`.
        projection: Boolean, whether the matrix `P` `[H, H]`, without bias and activation, stands before
            the output embedding. Defaults to `False`.
        projection_bias: Boolean, whether the projection has a bias after all. Defaults to `False`.
        projection_regularizer: Regularizer of `P`, for example `ProjectionRegularizer`.
        dropout: Float in [0, 1): on the input of each recurrent layer and on the output of the last, drawn
            anew at every step, never on the recurrence; or a `VariationalDropout`, whose masks hold for
            a window. Defaults to 0.
        initializer_range: Every weight and bias is drawn from uniform(-range, range). Defaults to 0.1.
        lstm_bias_initializer: Initializer of the recurrent layers' biases, if not that one; transform gates of
            recurrent highway layers begin with a bias of -2.
        logit_soft_cap: Optional cap on the scores.
        output_bias: Boolean, whether words have a bias in their scores. Defaults to `True`.
        embeddings_constraint: Optional constraint of the (input) embedding, for example `UnitNorm(axis=1)`.
        recurrence_depth: Optional integer: recurrent highway layers that deep stand in place of LSTM layers.
        default_loss: The `SequenceCrossEntropy` that stands in where `compile` is given no loss, for
            example an `AugmentedLoss`. Default: a plain one.
        **kwargs: `name`, `dtype`, `trainable`.

    Call arguments:
        inputs: Word ids `[B, T]`.
        states: Optional list of states `[B, H]`: hidden and cell of each LSTM layer, or one of each
            recurrent highway layer.
            Default: the carried state while `fit` or `evaluate` runs, if there is one, else zeros.
        training: Boolean, whether dropout is active.
        return_states: Boolean, whether to return `(logits, states)`.

    Output shape:
        Logits `[B, T, V]`.

    Example:

    >>> import numpy as np, keras_tying as kt
    >>> model = kt.models.LanguageModel(10_000, 200, tied=True)
    >>> model.count_params()
    2651600
    >>> tuple(model(np.zeros((1, 7), "int32")).shape)
    (1, 7, 10000)

    Reference:
        Press and Wolf, Using the Output Embedding to Improve Language Models, section 3; Zaremba,
        Sutskever and Vinyals, Recurrent Neural Network Regularization.
    """

    def __init__(
        self,
        vocabulary_size,
        units,
        num_layers=2,
        tied=True,
        projection=False,
        projection_bias=False,
        projection_regularizer=None,
        dropout=0.0,
        initializer_range=0.1,
        lstm_bias_initializer=None,
        logit_soft_cap=None,
        output_bias=True,
        embeddings_constraint=None,
        recurrence_depth=None,
        default_loss=None,
        **kwargs,
    ):
        super().__init__(initializer_range, default_loss, **kwargs)
        if projection_regularizer is not None and not projection:
            raise ValueError(
                "`projection_regularizer` needs `projection=True`. "
                f"Received: projection_regularizer={projection_regularizer!r}, projection={projection}"
            )
        self.vocabulary_size = vocabulary_size
        self.units = units
        self.num_layers = num_layers
        self.tied = tied
        self.has_projection = projection
        self.projection_bias = projection_bias
        self.projection_regularizer = keras.regularizers.get(projection_regularizer)
        self.dropout = as_dropout(dropout)
        self.lstm_bias_initializer = keras.initializers.get(lstm_bias_initializer)
        self.logit_soft_cap = logit_soft_cap
        self.output_bias = output_bias
        self.embeddings_constraint = keras.constraints.get(embeddings_constraint)
        self.recurrence_depth = recurrence_depth

        self.embedding = TiedEmbedding(
            vocabulary_size,
            units,
            tie_weights=tied,
            use_bias=output_bias,
            embeddings_constraint=self.embeddings_constraint,
            embeddings_initializer=self._uniform(),
            bias_initializer=self._uniform(),
            logit_soft_cap=logit_soft_cap,
            dtype=self.dtype_policy,
            name="embedding",
        )
        self.word_dropout = None
        if self._variational:
            self.word_dropout = WordDropout(
                vocabulary_size, self.dropout.words, dtype=self.dtype_policy, name="word_dropout"
            )
        self.dropouts = dropout_layers(self.dropout, num_layers, self.dtype_policy)
        self.recurrent = recurrent_layers(
            units,
            num_layers,
            recurrence_depth,
            self.dropout,
            self._uniform,
            self.lstm_bias_initializer,
            self.dtype_policy,
        )
        self.projection = None
        if projection:
            self.projection = keras.layers.Dense(
                units,
                use_bias=projection_bias,
                kernel_initializer=self._uniform(),
                bias_initializer=self._uniform(),
                kernel_regularizer=self.projection_regularizer,
                dtype=self.dtype_policy,
                name="projection",
            )
        self.carried = CarriedState(
            [width for layer in self.recurrent for width in layer.state_size], name="carried_state"
        )
        self.build((None, None))

    @property
    def _variational(self):
        return isinstance(self.dropout, VariationalDropout)

    @property
    def output_embedding(self):
        """The layer that scores words: the one that embeds them."""
        return self.embedding

    def build(self, input_shape=None):
        self.embedding.build()
        for layer in self.recurrent:
            layer.build((None, None, self.units))
        if self.projection is not None:
            self.projection.build((None, None, self.units))
        self.built = True

    # Computation

    def call(self, inputs, states=None, training=None, return_states=False):
        carrying = self._steps_running and states is None and self.carried.batch_size is not None
        if carrying:
            inputs, states = self._in_carried_rows(inputs), self.carried.values
        hidden, states = self.hidden_states(inputs, states, training)
        if carrying:
            self.carried.update(states)
        outputs = self.outputs_of(hidden)
        return (outputs, states) if return_states else outputs

    def hidden_states(self, inputs, states=None, training=None):
        """Word ids `[B, T]` to what the output embedding is multiplied with, `[B, T, H]`, and states."""
        hidden = self.embedding(inputs)
        if self.word_dropout is not None:
            hidden = self.word_dropout(hidden, inputs, training=training)
        remaining = None if states is None else iter(states)
        new_states = []
        for dropout, layer in zip(self.dropouts, self.recurrent, strict=False):
            initial = None
            if remaining is not None:
                initial = [ops.convert_to_tensor(next(remaining), hidden.dtype) for _ in layer.state_size]
            hidden, *layer_states = layer(dropout(hidden, training=training), initial_state=initial, training=training)
            new_states += layer_states
        hidden = self.dropouts[-1](hidden, training=training)
        return (hidden if self.projection is None else self.projection(hidden)), new_states

    def embedding_matrices(self):
        """The embeddings `[V, H]` by role: `input` and `output`, or `tied`."""
        if self.tied:
            return {"tied": self.embedding.embeddings}
        return {"input": self.embedding.embeddings, "output": self.embedding.output_embeddings}

    # State carried from window to window

    def carry_state(self, batch_size):
        """From now on, `fit` and `evaluate` start each batch where the one before it ended.

        Args:
            batch_size: Rows of every batch, divided among the replicas of a `tf.distribute.Strategy`.

        Raises:
            ValueError: If the state is allocated for another batch size already, or the replicas cannot have as many
                rows each.
        """
        with scope_of(self):
            self.carried.allocate(part_of(self, batch_size))

    def reset_state(self):
        """Forgets the carried state, as at the start of a text."""
        self.carried.reset()

    def _in_carried_rows(self, inputs):
        """`inputs` with the number of rows the state is allocated for, known when compiling."""
        rows, (batch, steps) = self.carried.batch_size, inputs.shape
        if batch not in (None, rows):
            raise ValueError(f"The carried state has {rows} rows. Received: a batch of {batch}.")
        return ops.reshape(inputs, (rows, -1 if steps is None else steps))

    # Inference

    def token_log_probabilities(self, inputs, targets, states=None, stochastic=False):
        """Log-probabilities of `targets` `[B, T]` after `inputs` `[B, T]`, and the states behind them.

        With `stochastic`, dropout is active: one pass of many whose probabilities are averaged.

        Raises:
            ValueError: If an id is outside the vocabulary.
        """
        for ids in (inputs, targets):
            check_ids(ids, self.vocabulary_size)
        name = "stochastic score" if stochastic else "score"
        score = self.compiled_once(name, lambda: compile_function(self, partial(self._score, training=stochastic)))
        if states is None:
            states = self.zero_states(len(inputs))
        return score(ops.convert_to_tensor(inputs), ops.convert_to_tensor(targets), states)

    def _score(self, inputs, targets, states, training):
        hidden, states = self.hidden_states(inputs, states, training)
        _, nll, _ = SequenceCrossEntropy().from_hidden(targets, hidden, self.output_projection, training=False)
        return -nll, states

    def zero_states(self, batch_size):
        """States of `batch_size` texts that have not begun."""
        return [ops.zeros((batch_size, width), self.compute_dtype) for width in self.carried.widths]

    def score(self, inputs, targets, states=None):
        """Scores words against what came before them.

        Args:
            inputs: Word ids `[B, T]`.
            targets: Word ids `[B, T]`: the word that follows each input.
            states: Optional states `[B, H]`, as `call` takes them.

        Returns:
            NumPy array `[B, T]`: the natural logarithm of each target's probability.
        """
        log_probabilities, _ = self.token_log_probabilities(inputs, targets, states)
        return ops.convert_to_numpy(log_probabilities)

    def generate(self, prefix, length, temperature=1.0, top_k=None, top_p=None, seed=None):
        """Continues texts.

        Args:
            prefix: Word ids `[B, T]`, at least one a row.
            length: Integer, words to add.
            temperature: Scores are divided by it; 0 takes the likeliest word each time.
            top_k: Optional integer: only the `top_k` likeliest words may follow.
            top_p: Optional float in (0, 1]: only the fewest words that together have this probability.
            seed: Optional integer that makes the result repeatable.

        Returns:
            NumPy array `[B, length]` of word ids.
        """
        return generate_words(self, prefix, length, temperature, top_k, top_p, seed)

    def get_config(self):
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "units": self.units,
            "num_layers": self.num_layers,
            "tied": self.tied,
            "projection": self.has_projection,
            "projection_bias": self.projection_bias,
            "projection_regularizer": keras.regularizers.serialize(self.projection_regularizer),
            "dropout": self.dropout.get_config() if self._variational else self.dropout,
            "initializer_range": self.initializer_range,
            "lstm_bias_initializer": keras.initializers.serialize(self.lstm_bias_initializer),
            "logit_soft_cap": self.logit_soft_cap,
            "output_bias": self.output_bias,
            "embeddings_constraint": keras.constraints.serialize(self.embeddings_constraint),
            "recurrence_depth": self.recurrence_depth,
            "default_loss": keras.losses.serialize(self.default_loss),
        }
