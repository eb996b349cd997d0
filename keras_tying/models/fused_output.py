"""What models have in common that train from hidden states instead of logits."""

from contextlib import contextmanager

import keras

from keras_tying.backend.keras_internals import compiled_metrics
from keras_tying.backend.replicas import replicas_in_step
from keras_tying.losses import OutputProjection, SequenceCrossEntropy
from keras_tying.metrics import Perplexity
from keras_tying.models.replicated import ReplicatedModel


class FusedOutputModel(ReplicatedModel):
    """A model that hands its hidden states to the loss while `fit` and `evaluate` run.

    Compiled with a `SequenceCrossEntropy`, one of which stands in where no loss is given, training goes from
    hidden states straight to the loss and its gradient; any other loss and `predict` get logits.

    A subclass has `embedding` and `output_embedding`, the `TiedEmbedding`s that embed and score words, and
    returns `self.outputs_of(hidden)` from `call`.

    Args:
        initializer_range: Every weight and bias is drawn from uniform(-range, range).
        default_loss: The `SequenceCrossEntropy` that stands in where `compile` is given no loss. Default: a plain one.
        **kwargs: `name`, `dtype`, `trainable`.
    """

    embedding: keras.layers.Layer
    output_embedding: keras.layers.Layer

    def __init__(self, initializer_range, default_loss=None, **kwargs):
        super().__init__(**kwargs)
        self.initializer_range = initializer_range
        self.default_loss = keras.losses.get(default_loss) or SequenceCrossEntropy()
        self.perplexity = Perplexity()
        self.loss_seeds = keras.random.SeedGenerator(0)
        self._steps_running = 0
        self._functions = {}

    def _uniform(self):
        """A new initializer each time: one shared instance would draw the same numbers twice."""
        return keras.initializers.RandomUniform(-self.initializer_range, self.initializer_range)

    @property
    def output_projection(self):
        """The parameters of the output embedding as losses take them."""
        output = self.output_embedding
        return OutputProjection(
            output.output_embeddings, output.bias, output.logit_soft_cap, input_embeddings=self.embedding.embeddings
        )

    def scores(self, hidden):
        """Logits `[..., V]` of hidden states `[..., H]`."""
        return self.output_embedding(hidden, reverse=True)

    def outputs_of(self, hidden):
        """Hidden states as they are while the loss starts from them, else their logits."""
        return hidden if self._loss_takes_hidden else self.scores(hidden)

    # Training

    def train_step(self, *args, **kwargs):
        with self._step():
            return super().train_step(*args, **kwargs)

    def test_step(self, *args, **kwargs):
        with self._step():
            return super().test_step(*args, **kwargs)

    @contextmanager
    def _step(self):
        """Within it, calls return hidden states if the loss starts from them."""
        self._steps_running += 1  # counted: replicas of a strategy enter and leave interleaved
        try:
            yield
        finally:
            self._steps_running -= 1

    @property
    def _loss_takes_hidden(self):
        return self._steps_running and self._sequence_loss is not None

    @property
    def _sequence_loss(self):
        """The compiled loss where it can start from hidden states, else `None`."""
        if self.loss is None:
            return self.default_loss
        return self.loss if isinstance(self.loss, SequenceCrossEntropy) else None

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        if not self._loss_takes_hidden:
            return super().compute_loss(x, y, y_pred, sample_weight, training)
        loss, nll, counted = self._sequence_loss.from_hidden(
            y, y_pred, self.output_projection, sample_weight, training, self.loss_seeds
        )
        self.perplexity.update_losses(nll, counted)
        return loss + sum(self.losses) / replicas_in_step()

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        if not self._loss_takes_hidden:
            self.perplexity.update_state(y, y_pred, sample_weight)
        elif compiled_metrics(self) is not None:
            y_pred = self.scores(y_pred)
        return super().compute_metrics(x, y, y_pred, sample_weight)

    # Inference

    def compiled_once(self, name, compile_it):
        """The compiled function of that name, made by `compile_it` when first asked for."""
        if name not in self._functions:
            self._functions[name] = compile_it()
        return self._functions[name]

    def quantize(self, *args, **kwargs):
        super().quantize(*args, **kwargs)
        self._functions.clear()  # they were compiled with the weights there were before
