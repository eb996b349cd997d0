"""Cross-entropy of word sequences, from logits or from hidden states."""

from dataclasses import replace

import keras
import numpy as np
from keras import ops

from keras_tying.backend.keras_internals.calls import mask_of
from keras_tying.backend.replicas import rows_of_batch, sum_over_replicas
from keras_tying.checks import check_integer, check_number, check_rate
from keras_tying.ids import check_ids
from keras_tying.losses.adaptive_cross_entropy import AdaptiveProjection
from keras_tying.losses.fused_cross_entropy import int32_ids, losses_from_logits

REDUCTIONS = ("sum_over_steps", "sum", "sum_over_batch_size", "mean", "mean_with_sample_weight", "none", None)


@keras.saving.register_keras_serializable("keras_tying")
class SequenceCrossEntropy(keras.losses.Loss):
    """Negative log-likelihood of the next words, on the scale of published learning rates.

    As a Keras loss it takes logits, and equals `keras.losses.SparseCategoricalCrossentropy(from_logits=True)` with the
    same `reduction`, mask and sample weights of tokens. The models of keras_tying compiled with it train without
    keeping logits: loss and gradient are computed from hidden states, in chunks of tokens.

    The loss is the sum over all tokens of the token's loss times its sample weight, divided by:

    | `reduction` | divisor |
    |---|---|
    | `"sum_over_steps"` | the rows of the batch |
    | `"sum"` | 1 |
    | `"mean"`, `"sum_over_batch_size"` | the tokens that count |
    | `"mean_with_sample_weight"` | the sample weights of the tokens that count |

    Tokens that are masked (`mask_zero` of an embedding), or whose target is `ignore_id`, do not count. Rows and tokens
    are those of all replicas, so the losses of all replicas add up to the loss of the batch.

    Args:
        reduction: `"sum_over_steps"` (default) sums over the `T` steps of a window and averages over the rows of the
            batch, as the published recipes for Penn Treebank do: their learning rate 1 and clipping norm 5 are for
            this reduction. The others are those of Keras; `"none"` and `None` return the loss of each token and
            cannot train from hidden states.
        name: Optional name.
        dtype: Dtype of the computation from logits. Defaults to `keras.config.floatx()`.
        label_smoothing: Float in [0, 1), the share of the target that is uniform over all words. Defaults to 0.
        temperature: Positive float by which the logits are divided. Defaults to 1.
        ignore_id: Optional integer. Targets equal to it do not count.

    Call arguments:
        y_true: Word ids `[...]` or `[..., 1]`. The loss of an id outside `[0, V)` is NaN; a model that trains with
            TensorFlow on a CPU stops with an error.
        y_pred: Logits `[..., V]`.
        sample_weight: Optional weights of rows, `[B]` or `[B, 1]`, or of tokens, `[B, T]`.

    Raises:
        ValueError: If an argument is outside its range; when called, if the shapes do not fit, or if a NumPy array of
            targets without a mask has an id that is no integer or outside `[0, V)`.

    Example:

    >>> import numpy as np, keras_tying as kt
    >>> loss = kt.losses.SequenceCrossEntropy()
    >>> targets, logits = np.zeros((2, 5), "int32"), np.zeros((2, 5, 10), "float32")
    >>> round(float(loss(targets, logits)), 4)  # 5 steps, each ln 10
    11.5129

    Reference:
        Zaremba, Sutskever and Vinyals, Recurrent Neural Network Regularization, section 4.1.
    """

    def __init__(
        self,
        *,
        reduction="sum_over_steps",
        name="sequence_cross_entropy",
        dtype=None,
        label_smoothing=0.0,
        temperature=1.0,
        ignore_id=None,
    ):
        super().__init__(name=name, dtype=dtype)
        self._given_dtype = dtype and self.dtype
        if reduction not in REDUCTIONS:
            raise ValueError(f"`reduction` must be one of {REDUCTIONS}. Received: reduction={reduction!r}")
        check_rate("label_smoothing", label_smoothing)
        check_number("temperature", temperature, above=0)
        if ignore_id is not None:
            check_integer("ignore_id", ignore_id, least=-(2**31))
        self.reduction = reduction
        self.label_smoothing = label_smoothing
        self.temperature = temperature
        self.ignore_id = ignore_id

    def __call__(self, y_true, y_pred, sample_weight=None):
        """The loss of targets `[...]` under logits `[..., V]`: a scalar, or `[...]` without a reduction."""
        losses, weights = self.losses_and_weights(y_true, y_pred, sample_weight)
        weighted = losses * ops.cast(weights, losses.dtype)
        return weighted if self.reduction in ("none", None) else ops.sum(weighted)

    def losses_and_weights(self, y_true, y_pred, sample_weight=None):
        """The loss of each token `[...]`, 0 for those that do not count, and its weight in the scalar loss `[...]`."""
        mask = mask_of(y_pred)
        y_pred = ops.convert_to_tensor(y_pred, self.dtype)
        if isinstance(y_true, np.ndarray) and mask is None:
            check_ids(y_true if self.ignore_id is None else y_true[y_true != self.ignore_id], y_pred.shape[-1])
        y_true = _without_last_axis(ops.convert_to_tensor(y_true), y_pred)
        if mask is not None:
            y_true = ops.where(mask, y_true, 0)
        losses = self.call(y_true, y_pred)
        if mask is not None:
            losses = ops.where(mask, losses, 0)
        return losses, self.token_weights(y_true, sample_weight, mask)

    def call(self, y_true, y_pred):
        """The loss `[...]` of each of the targets `[...]` under logits `[..., V]`; 0 for `ignore_id`."""
        y_true = _without_last_axis(y_true, y_pred)
        objective, _ = losses_from_logits(y_pred / self.temperature, self._word_ids(y_true), self.label_smoothing)
        return objective if self.ignore_id is None else ops.where(self._ignored(y_true), 0, objective)

    def token_weights(self, y_true, sample_weight=None, mask=None):
        """Weight `[B, T]` of each target in the scalar loss. The losses of all replicas add up to the batch's loss."""
        weights = self._counted(y_true, sample_weight, mask)
        if self.reduction == "sum_over_steps":
            return weights / rows_of_batch(y_true)
        if self.reduction in ("sum", "none", None):
            return weights
        counted = weights if self.reduction == "mean_with_sample_weight" else self._counted(y_true, None, mask)
        (total,) = sum_over_replicas([ops.sum(counted)])
        return ops.divide_no_nan(weights, total)

    def from_hidden(self, y_true, hidden, output, sample_weight=None, training=True, seed=None):
        """The loss from hidden states, without keeping logits.

        Args:
            y_true: Targets `[B, T]`.
            hidden: Hidden states before the output embedding, `[B, T, H]`. Their mask, if any, says what counts.
            output: The `OutputProjection` of the model, or its `AdaptiveProjection`. Temperature and label smoothing
                are those of this loss.
            sample_weight: Optional weights of rows, `[B]` or `[B, 1]`, or of tokens, `[B, T]`.
            training: Whether a gradient is needed.
            seed: Seed generator, for losses that draw random numbers.

        Returns:
            The scalar loss, the negative log-likelihood of each token `[B, T]`, 0 for those that do not count, and the
            weight of each token in a mean `[B, T]`.

        Raises:
            ValueError: If the loss has no reduction, the targets do not have the shape of the hidden states, or the
                loss cannot be computed with an `AdaptiveProjection`.
        """
        if self.reduction in ("none", None):
            raise ValueError(f"A model needs a loss with a reduction. Received: reduction={self.reduction!r}")
        adaptive = isinstance(output, AdaptiveProjection)
        if adaptive:
            self.check_adaptive()
        mask = mask_of(hidden)
        y_true = _without_last_axis(ops.convert_to_tensor(y_true), hidden)
        counted = self._counted(y_true, sample_weight, mask)
        targets = self._word_ids(y_true)
        if mask is not None:
            targets = ops.where(mask, targets, 0)
        flat = (
            ops.cast(ops.reshape(hidden, (-1, hidden.shape[-1])), output.dtype or hidden.dtype),
            ops.reshape(targets, (-1,)),
            ops.reshape(self.token_weights(y_true, sample_weight, mask), (-1,)),
        )
        applied = output if adaptive else self._applied_to(output, hidden)
        total, nll = self._from_tokens(*flat, applied, training, seed)
        nll = ops.reshape(nll, ops.shape(y_true))
        if mask is not None:
            nll = ops.where(mask, nll, 0)
        if self.ignore_id is not None:
            nll = ops.where(self._ignored(y_true), 0, nll)
        return total, nll, counted

    def _from_tokens(self, hidden, targets, weights, output, training, seed):
        """The scalar loss and the negative log-likelihoods `[N]` of tokens."""
        if training:
            return output.total_loss(hidden, targets, weights)
        objective, nll = output.token_losses(hidden, targets)
        return ops.sum(objective * weights), nll

    def _applied_to(self, output, hidden):
        """The output projection with the temperature and label smoothing of this loss."""
        return replace(output, temperature=self.temperature, label_smoothing=self.label_smoothing)

    def check_adaptive(self):
        """Raises ValueError if the loss cannot be computed with an adaptive softmax.

        Temperature, label smoothing and the losses of subclasses need the scores of all words from one matrix.
        """
        if type(self) is not SequenceCrossEntropy or self.temperature != 1 or self.label_smoothing:
            raise ValueError(
                "An AdaptiveEmbedding needs the loss `SequenceCrossEntropy` without temperature and label smoothing; "
                f"with a TiedEmbedding all losses work. Received: {type(self).__name__} with temperature="
                f"{self.temperature}, label_smoothing={self.label_smoothing}"
            )

    def _ignored(self, y_true):
        return ops.equal(int32_ids(y_true), self.ignore_id)

    def _word_ids(self, y_true):
        """Targets as int32; word 0 in place of `ignore_id`, which need not be a word."""
        targets = int32_ids(y_true)
        return targets if self.ignore_id is None else ops.where(self._ignored(targets), 0, targets)

    def _counted(self, y_true, sample_weight, mask):
        """Weight `[B, T]` of each target before the reduction: its sample weight, 0 if it does not count."""
        counted = ops.ones(ops.shape(y_true), "float32")
        if self.ignore_id is not None:
            counted = ops.cast(ops.logical_not(self._ignored(y_true)), "float32")
        if mask is not None:
            counted = counted * ops.cast(mask, "float32")
        if sample_weight is not None:
            counted = counted * _for_tokens(ops.cast(sample_weight, "float32"), counted)
        return counted

    def get_config(self):
        return {
            **super().get_config(),
            "label_smoothing": self.label_smoothing,
            "temperature": self.temperature,
            "ignore_id": self.ignore_id,
            **({"dtype": self._given_dtype} if self._given_dtype else {}),
        }


def _without_last_axis(targets, outputs):
    """Targets `[...]` for logits or hidden states `[..., N]`, from `[...]` or `[..., 1]`."""
    if len(targets.shape) == len(outputs.shape) and targets.shape[-1] == 1:
        targets = ops.squeeze(targets, -1)
    known = zip(targets.shape, outputs.shape, strict=False)
    if len(targets.shape) != len(outputs.shape) - 1 or any(None not in pair and pair[0] != pair[1] for pair in known):
        raise ValueError(
            "Targets must have the shape of the logits or hidden states without the last axis. "
            f"Received: y_true of shape {tuple(targets.shape)}, outputs of shape {tuple(outputs.shape)}"
        )
    return targets


def _for_tokens(weights, counted):
    """Sample weights of rows or tokens in a shape that broadcasts to that of `counted`."""
    shape, rank = weights.shape, len(counted.shape)
    if len(shape) == rank + 1 and shape[-1] == 1:
        weights = ops.squeeze(weights, -1)
    elif 0 < len(shape) < rank:
        weights = ops.reshape(weights, (*ops.shape(weights), *[1] * (rank - len(shape))))
    known = zip(weights.shape, counted.shape, strict=False)
    if len(weights.shape) > rank or any(None not in pair and pair[0] not in (1, pair[1]) for pair in known):
        raise ValueError(
            "Sample weights must be those of rows or tokens. "
            f"Received: sample_weight of shape {tuple(shape)} for targets of shape {tuple(counted.shape)}"
        )
    return weights
