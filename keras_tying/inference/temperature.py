"""Softmax temperature of a language model, chosen on a validation text."""

import keras
import numpy as np
from keras import ops

from keras_tying.backend.compilation import compile_function
from keras_tying.data import PreparedText
from keras_tying.inference.language_model import read_windows
from keras_tying.losses import SequenceCrossEntropy
from keras_tying.metrics.perplexity import perplexity_of

TEMPERATURES = tuple(round(0.8 + 0.05 * step, 2) for step in range(11))
"""Temperatures that are tried: 0.8 to 1.3."""


class TemperedSoftmax:
    """A language model whose logits are divided by a temperature, which a validation text chooses.

    Args:
        model: A `LanguageModel`.

    Attributes:
        temperature: The temperature, 1 before `fit`.
        fitted_perplexity: Perplexity of the text of `fit`, with the settings that it chose. `None` before.

    Example:

    >>> import numpy as np, keras_tying as kt
    >>> ids = np.random.default_rng(0).integers(0, 20, 200)
    >>> model = kt.zoo.recurrent_language_model(20, 8)
    >>> tempered = kt.inference.TemperedSoftmax(model)
    >>> plain = tempered.perplexity(ids)
    >>> tempered.fit(ids).perplexity(ids) <= plain
    True

    Reference:
        Melis, Dyer and Blunsom, On the State of the Art of Evaluation in Neural Language Models, 2018, section 4.
    """

    name = "temperature"
    """How metrics measured so are called."""

    def __init__(self, model: keras.Model):
        self.model = model
        self.temperature = 1.0
        self.fitted_perplexity: float | None = None

    @property
    def settings(self) -> str:
        return f"softmax temperature {self.temperature:g}"

    def fit(self, ids: np.ndarray | PreparedText) -> "TemperedSoftmax":
        """Chooses the one of `TEMPERATURES` with the lowest perplexity of a text. Returns itself."""
        perplexities = self._perplexities(ids, TEMPERATURES)
        best = int(np.argmin(perplexities))
        self.temperature, self.fitted_perplexity = TEMPERATURES[best], perplexities[best]
        return self

    def perplexity(self, ids: np.ndarray | PreparedText) -> float:
        """Exact perplexity of a text, as `stream_perplexity`, at the temperature."""
        return self._perplexities(ids, (self.temperature,))[0]

    def _perplexities(self, ids, temperatures):
        losses = [SequenceCrossEntropy(temperature=temperature) for temperature in temperatures]

        def score(inputs, targets, states):
            hidden, states = self.model.hidden_states(inputs, states, training=False)
            output = self.model.output_projection
            scores = [loss.from_hidden(targets, hidden, output, training=False)[1] for loss in losses]
            return ops.stack(scores), states

        compiled, states = compile_function(self.model, score), self.model.zero_states(1)
        totals, count = np.zeros(len(losses)), 0
        for window in read_windows(self.model, ids):
            inputs, targets = map(ops.convert_to_tensor, window)
            nll, states = compiled(inputs, targets, states)
            totals += np.sum(ops.convert_to_numpy(nll), axis=(1, 2), dtype=np.float64)
            count += inputs.shape[1]
        return [perplexity_of(total / count) for total in totals]
