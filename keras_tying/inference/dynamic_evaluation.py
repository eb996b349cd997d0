"""Dynamic evaluation: a language model that goes on learning from the text it is measured on."""

from itertools import product

import keras
import numpy as np
from keras import ops

from keras_tying import backend
from keras_tying.backend.keras_internals.optimizers import variables_of
from keras_tying.checks import check_integer
from keras_tying.data import PreparedText
from keras_tying.data.batching import windows
from keras_tying.inference.language_model import check_length, check_text, stream_perplexity
from keras_tying.layers import CarriedState
from keras_tying.losses import SequenceCrossEntropy
from keras_tying.metrics import Perplexity

START = {"learning_rate": 1e-4, "epsilon": 3e-5, "decay": 2.5e-3}
"""The settings that `fit` tries first."""
GAIN = 1e-3
"""Share of the perplexity by which a changed setting must lower it to be kept."""
STATISTICS_ROWS = 100
"""Rows of the training text in the gradients whose squares are averaged."""
STATISTICS_BATCHES = 200
"""Maximum number of these gradients."""
TRIED_WORDS = 20_000
"""Words at the start of the text by which `fit` chooses."""
HALVINGS = 10
"""How often `fit` halves a learning rate that does not suit the whole text."""


class DynamicEvaluation:
    """A language model that takes a step of gradient descent after each segment of the text that it is measured on.

    A segment is scored with the weights before its step. With the trained weights `w_0`, the gradient `g` of the mean
    loss of a segment, the root `r` of the mean square of gradients on the training text, and its mean `m` over all
    weights, the step is::

        w <- w - learning_rate * g / (r + epsilon) + min(1, decay * r / m) * (w_0 - w)

    Dropout is off. The model has its own weights again after each text.

    Args:
        model: A `LanguageModel` that reads word by word.
        train_ids: Word ids of the training text, for the squares of gradients.
        segment: Integer, words per step. Defaults to 20.

    Attributes:
        learning_rate: `fit` chooses it. 0 before.
        epsilon: `fit` chooses it. 3e-5 before.
        decay: `fit` chooses it. 0 before.
        fitted_perplexity: Perplexity of the text of `fit`, with the settings that it chose. `None` before.

    Raises:
        ValueError: If the training text is too short for one batch, or the model does not read word by word.

    Example:

    >>> import keras_tying as kt
    >>> trained, corpus = kt.load("embedded_small_tied"), kt.data.load_corpus("embedded")
    >>> train_ids, ids = (corpus.ids(part, trained.vocabulary)[:2500] for part in ("train", "test"))
    >>> dynamic = kt.inference.DynamicEvaluation(trained.model, train_ids)
    >>> plain = dynamic.perplexity(ids)
    >>> dynamic.learning_rate = 3e-5
    >>> dynamic.perplexity(ids) < plain
    True

    References:
        Krause, Kahembwe, Murray and Renals, Dynamic Evaluation of Neural Sequence Models, 2018, section 4.
    """

    name = "dynamic"
    """How metrics measured so are called."""

    def __init__(self, model: keras.Model, train_ids: np.ndarray | PreparedText, segment: int = 20):
        check_integer("segment", segment)
        if not model.reads_word_by_word:
            raise ValueError(
                "Dynamic evaluation needs hidden layers that have a state or process each word alone, because others "
                "would see only the words of a segment. Received: "
                f"{[type(each).__name__ for each in model.hidden_layers]}"
            )
        self.model = model
        self.segment = segment
        self.learning_rate = 0.0
        self.epsilon = START["epsilon"]
        self.decay = 0.0
        self.fitted_perplexity: float | None = None
        roots = self._root_mean_squares(train_ids)
        self._step = _DynamicStep(roots, [ops.convert_to_numpy(each) for each in model.trainable_variables])
        self._learner = _Learner(model, 1)
        steps = 20 if backend.COMPILES_STEPS else 1
        self._learner.compile(self._step, steps_per_execution=steps, auto_scale_loss=False)
        self._step.build(model.trainable_variables)

    @property
    def settings(self) -> str:
        values = f"learning rate {self.learning_rate:.3g}, epsilon {self.epsilon:.3g}, decay {self.decay:.3g}"
        return f"dynamic evaluation ({values})"

    def fit(self, ids: np.ndarray | PreparedText) -> "DynamicEvaluation":
        """Chooses learning rate, epsilon and decay by the perplexity of the first 20,000 words. Returns itself.

        Beginning with `START`, each of them is doubled or halved as long as that lowers the perplexity, until no such
        change does. If the perplexity of the whole text is then not below that without dynamic evaluation, as when
        learning diverges later, the learning rate is halved.
        """
        tried = {}

        def tried_perplexity(settings):
            values = tuple(settings.values())
            if values not in tried:
                self._use(settings)
                tried[values] = np.nan_to_num(self.perplexity(ids[:TRIED_WORDS]), nan=np.inf)
            return tried[values]

        def gains(changed):
            return tried_perplexity(changed) < tried_perplexity(settings) * (1 - GAIN)

        settings, before = START, None
        while settings != before:
            before = settings
            for name, factor in product(START, (2.0, 0.5)):
                while gains(changed := settings | {name: settings[name] * factor}):
                    settings = changed
        self._use(settings)
        plain = stream_perplexity(self.model, ids)
        self.fitted_perplexity = self.perplexity(ids)
        for _ in range(HALVINGS):
            if self.fitted_perplexity < plain:
                break
            self.learning_rate /= 2
            self.fitted_perplexity = self.perplexity(ids)
        return self

    def _use(self, settings):
        self.learning_rate, self.epsilon, self.decay = (settings[name] for name in START)

    def perplexity(self, ids: np.ndarray | PreparedText) -> float:
        """Exact perplexity of a text, read once from start to end.

        Raises:
            ValueError: As `stream_perplexity`.
        """
        check_length(ids, 1)
        text = check_text(self.model, ids[: len(ids)])[None]
        whole = (text.shape[1] - 1) // self.segment * self.segment
        own = [ops.convert_to_numpy(variable).copy() for variable in self.model.trainable_variables]
        self._step.set_rates(self.learning_rate, self.epsilon, self.decay)
        self._learner.carried.reset()
        metric = Perplexity()
        try:
            if whole:
                inputs, targets = (text[:, i : whole + i].reshape(-1, self.segment) for i in (0, 1))
                logs = self._learner.fit(inputs, targets, batch_size=1, shuffle=False, verbose=0).history
                metric.total.assign(np.log(logs["perplexity"][0]) * whole)
                metric.count.assign(whole)
            if whole < text.shape[1] - 1:
                _, nll, counted, *_ = self._learner((text[:, whole:-1], text[:, whole + 1 :]))
                metric.update_losses(nll, counted)
            return float(ops.convert_to_numpy(metric.result()))
        finally:
            for variable, value in zip(self.model.trainable_variables, own, strict=True):
                variable.assign(value)

    def _root_mean_squares(self, train_ids) -> list[np.ndarray]:
        check_training_text(train_ids, self.segment)
        cut = windows(train_ids, STATISTICS_ROWS, self.segment, self.model.vocabulary_size)
        squares, learner = _SquaredGradients(), _Learner(self.model, STATISTICS_ROWS)
        learner.compile(squares, auto_scale_loss=False)
        squares.build(self.model.trainable_variables)
        inputs, targets = (
            part.reshape(-1, self.segment) for part in cut.block(0, min(cut.batches, STATISTICS_BATCHES))
        )
        learner.fit(inputs, targets, batch_size=STATISTICS_ROWS, shuffle=False, verbose=0)
        batches = len(inputs) // STATISTICS_ROWS
        return [np.sqrt(ops.convert_to_numpy(total) / batches) for total in squares.totals]


def check_training_text(ids: np.ndarray | PreparedText, segment: int = 20) -> None:
    """Raises ValueError if a training text is too short for the squares of gradients of `DynamicEvaluation`."""
    if len(ids) < (needed := STATISTICS_ROWS * (segment + 1)):
        raise ValueError(
            f"Dynamic evaluation needs a training text of at least {needed:,} words. Received: {len(ids):,}"
        )


class _Learner(keras.Model):
    """Trains a language model without dropout, on windows with a carried state and the mean loss of their words."""

    def __init__(self, model, rows):
        super().__init__(autocast=False, name="learner")
        self.model = model
        self.carried = CarriedState(model.carried.widths, dtype=model.variable_dtype)
        self.carried.allocate(rows)
        self.perplexity = Perplexity()
        self.mean_loss = SequenceCrossEntropy(reduction="mean")
        self.built = True

    def call(self, window):
        inputs, targets = window
        hidden, states = self.model.hidden_states(inputs, self.carried.values, training=False)
        self.carried.update(states)
        return self.model.outputs_of(hidden, targets, training=True, loss=self.mean_loss)

    def train_step(self, *arguments):
        *state, data = arguments  # the first argument is the state of JAX
        inputs, targets, _ = keras.utils.unpack_x_y_sample_weight(data)
        return super().train_step(*state, ((inputs, targets), targets))

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        return y_pred.loss

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        self.perplexity.update_losses(y_pred.token_losses, y_pred.counted)
        return super().compute_metrics(x, y, y_pred, sample_weight)


class _Fixed(keras.optimizers.Optimizer):
    """Base class of the optimizers below, which use no learning rate of Keras and write their whole `apply`."""

    def __init__(self):
        super().__init__(learning_rate=0.0, name="fixed")

    def apply(self, grads, trainable_variables=None):
        self.update([ops.cast(ops.convert_to_tensor(gradient), "float32") for gradient in grads])
        self.iterations.assign_add(1)

    def update(self, gradients):
        """Uses the gradients `float32` of all variables."""
        raise NotImplementedError


class _SquaredGradients(_Fixed):
    """Adds up the squares of gradients and does not change the weights."""

    def build(self, variables):
        if not self.built:
            super().build(variables)
            self.totals = [self.add_variable(each.shape, name=f"total_{i}") for i, each in enumerate(variables)]

    def update(self, gradients):
        for total, gradient in zip(self.totals, gradients, strict=True):
            total.assign_add(ops.square(gradient))


class _DynamicStep(_Fixed):
    """The step of dynamic evaluation, see `DynamicEvaluation`.

    Args:
        roots: Roots of the mean squares of gradients, for each variable.
        trained: The trained weights.
    """

    def __init__(self, roots, trained):
        super().__init__()
        self.roots = roots
        self.trained = trained
        self.mean = sum(float(np.sum(root, dtype=np.float64)) for root in roots) / sum(root.size for root in roots)

    def build(self, variables):
        if self.built:
            return
        super().build(variables)
        self.constants = [
            tuple(self.add_variable(value.shape, name=f"{name}_{i}") for name in ("pull", "rate", "trained"))
            for i, value in enumerate(self.trained)
        ]
        for (*_, trained), value in zip(self.constants, self.trained, strict=True):
            trained.assign(value)

    def set_rates(self, learning_rate, epsilon, decay):
        """Sets the settings of the step, from which come two numbers for each weight."""
        for root, (pull, rate, _) in zip(self.roots, self.constants, strict=True):
            pull.assign(np.minimum(1.0, decay * root / self.mean))
            rate.assign(learning_rate / (root + epsilon))

    def update(self, gradients):
        for variable, gradient, (pull, rate, trained) in zip(
            variables_of(self), gradients, self.constants, strict=True
        ):
            step = pull * (trained - ops.cast(variable, "float32")) - rate * gradient
            variable.assign_add(ops.cast(step, variable.dtype))
