"""Recurrent state that outlives a batch."""

import keras
from keras import ops


@keras.saving.register_keras_serializable("keras_tying")
class CarriedState(keras.layers.Layer):
    """Variables that hold a recurrent stack's state from one window of a text to the next.

    They belong to a run and its batch size, not to the model: a saved model does not hold them.

    Args:
        widths: Sizes of the states, one integer a state.
        **kwargs: Base layer arguments, such as `name`.

    Example:

    >>> import keras_tying as kt
    >>> state = kt.layers.CarriedState([200, 200])
    >>> state.allocate(20)
    >>> [tuple(value.shape) for value in state.values]
    [(20, 200), (20, 200)]
    """

    def __init__(self, widths, **kwargs):
        super().__init__(**kwargs)
        self.widths = list(widths)
        self.batch_size = None
        self._states = []

    def allocate(self, batch_size):
        """Makes zero states for `batch_size` rows; does nothing when they are there already."""
        if batch_size == self.batch_size:
            return
        if self.batch_size is not None:
            raise ValueError(
                f"The state is allocated for {self.batch_size} rows and compiled functions refer to it. "
                f"Load the model anew to train with another batch size. Received: batch_size={batch_size}"
            )
        self._states = [
            keras.Variable(
                "zeros",
                (batch_size, width),
                self.variable_dtype,
                trainable=False,
                synchronization="on_read",  # every replica has rows of its own
                aggregation="only_first_replica",
                name=f"state_{i}",
            )
            for i, width in enumerate(self.widths)
        ]
        self.batch_size = batch_size

    @property
    def values(self):
        """The states as they are now: copies, which later updates leave alone."""
        return [ops.copy(variable) for variable in self._states]

    @property
    def weights(self):
        """None: the state is no parameter of a model, though it is among its variables."""
        return []

    def update(self, values):
        """Sets the states; no gradient reaches back through them."""
        for variable, value in zip(self._states, values, strict=True):
            variable.assign(ops.stop_gradient(value))

    def reset(self):
        """Sets every state to zero, as at the start of a text."""
        for variable in self._states:
            variable.assign(ops.zeros(variable.shape, variable.dtype))

    def save_own_variables(self, store):
        """Keeps nothing: the state is the run's."""

    def load_own_variables(self, store):
        """Finds nothing to load."""

    def get_config(self):
        return {**super().get_config(), "widths": self.widths}
