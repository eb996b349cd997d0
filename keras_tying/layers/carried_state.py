"""Recurrent state carried from one batch to the next."""

import keras
from keras import ops

from keras_tying.backend import dispatch
from keras_tying.backend.replicas import ReplicaSeedGenerator
from keras_tying.checks import check_integer, check_rate

ROWS = (
    "The carried state needs batches of {rows} rows: leave out or pad a shorter last one. Received: a batch of {} rows"
)


@dispatch
def checked_rows(inputs, rows):
    """A batch `[B, T]` whose number of rows is known when a step is compiled.

    Raises:
        ValueError: If there are more or fewer than `rows`; TensorFlow raises `tf.errors.InvalidArgumentError` if
            the number is known only at run time.
    """
    if inputs.shape[0] not in (None, rows):
        raise ValueError(ROWS.format(inputs.shape[0], rows=rows))
    return ops.reshape(inputs, (rows, ops.shape(inputs)[1]))


@keras.saving.register_keras_serializable("keras_tying")
class CarriedState(keras.layers.Layer):
    """Variables that carry the states of recurrent layers from one window of a text to the next.

    Their shape depends on the batch size, so a saved model does not contain them.

    Args:
        widths: List of integers, the size of each state.
        reset_rate: Float in [0, 1), the probability that a row starts a window of training from zero. Defaults to 0.
        seed: Optional integer for these draws.
        **kwargs: Base layer arguments, such as `name`.

    Example:

    >>> import keras_tying as kt
    >>> state = kt.layers.CarriedState([200, 200])
    >>> state.allocate(20)
    >>> [tuple(value.shape) for value in state.values]
    [(20, 200), (20, 200)]

    Reference:
        Melis, Dyer and Blunsom, On the State of the Art of Evaluation in Neural Language Models, 2018, whose code
        resets states with probability 0.01.
    """

    def __init__(self, widths, *, reset_rate=0.0, seed=None, **kwargs):
        super().__init__(**kwargs)
        check_rate("reset_rate", reset_rate)
        for width in widths:
            check_integer("widths", width)
        self.widths = list(widths)
        self.reset_rate = reset_rate
        self.seed = seed
        self.seed_generator = ReplicaSeedGenerator(seed) if reset_rate else None
        self.batch_size = None
        self._states = []
        self.built = True

    def allocate(self, batch_size):
        """Creates zero states for `batch_size` rows, unless they exist."""
        check_integer("batch_size", batch_size)
        if batch_size == self.batch_size:
            return
        if self.batch_size is not None:
            raise ValueError(
                f"The state is allocated for {self.batch_size} rows, and compiled functions use it. "
                f"Load the model again to train with another batch size. Received: batch_size={batch_size}"
            )
        self._states = [
            keras.Variable(
                "zeros",
                (batch_size, width),
                self.variable_dtype,
                trainable=False,
                synchronization="on_read",  # each replica has its own rows
                aggregation="only_first_replica",
                name=f"state_{i}",
            )
            for i, width in enumerate(self.widths)
        ]
        self.batch_size = batch_size

    @property
    def values(self):
        """Copies of the current states."""
        return [ops.copy(variable) for variable in self._states]

    def start(self, training=False):
        """The states that a window starts with: the current ones, in training with some rows reset to zero."""
        if not training or not self.reset_rate:
            return self.values
        drawn = keras.random.uniform((self.batch_size, 1), dtype="float32", seed=self.seed_generator)
        return [ops.where(drawn < self.reset_rate, ops.zeros_like(value), value) for value in self.values]

    @property
    def weights(self):
        """Empty: a model lists the states among its variables, not among its weights."""
        return []

    def update(self, values):
        """Sets the states. No gradient flows through them."""
        for variable, value in zip(self._states, values, strict=True):
            variable.assign(ops.stop_gradient(value))

    def reset(self):
        """Sets every state to zero, as at the start of a text."""
        for variable in self._states:
            variable.assign(ops.zeros(variable.shape, variable.dtype))

    def save_own_variables(self, store):
        """Saves nothing."""

    def load_own_variables(self, store):
        """Loads nothing."""

    def get_config(self):
        return {**super().get_config(), "widths": self.widths, "reset_rate": self.reset_rate, "seed": self.seed}
