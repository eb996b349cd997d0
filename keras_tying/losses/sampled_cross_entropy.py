"""Cross-entropy over a sample of the vocabulary, for large vocabularies."""

import math

import keras
import numpy as np
from keras import ops

from keras_tying.checks import check_integer
from keras_tying.losses.cross_entropy import SequenceCrossEntropy
from keras_tying.losses.fused_cross_entropy import scaled_logits, words_of

PARTS = 4096
"""Parts of [0, 1) from which a word is drawn in two steps."""


@keras.saving.register_keras_serializable("keras_tying")
class SampledCrossEntropy(SequenceCrossEntropy):
    """Training loss over the target and randomly drawn words, instead of all words.

    `S` words `k` are drawn from a distribution `Q`, the same for all tokens of a batch. With hidden states
    `h`, output embeddings `v` and target `o`, the loss is the cross-entropy of the target among the drawn words.
    Each score is corrected by the probability of drawing its word::

        z_k = v_k . h + b_k - log Q(k)
        loss = log(exp(z_o) + sum over the drawn k of exp(z_k)) - z_o

    Drawn words equal to the target are kept. Therefore, for any `S`, the loss is minimal where the softmax over all
    words is the distribution of the targets; more samples make the loss less noisy. `Q` is log-uniform over word ids,
    `Q(k) = log((k + 2) / (k + 1)) / log(V + 1)`, close to the frequencies of words whose ids are in order of
    decreasing frequency, as in a `Vocabulary`. Of a tied matrix only the rows of targets and drawn words are read. The
    seed is a variable of the model, so a resumed run draws the same words as an uninterrupted one.

    Validation and `evaluate` compute the cross-entropy over all words, in chunks, so their perplexities are exact.
    The perplexity shown during training is over the target and the drawn words.

    Args:
        samples: Integer `S`, words drawn per batch. Defaults to 8,192.
        **kwargs: Further arguments of `SequenceCrossEntropy`, except `label_smoothing`.

    Raises:
        ValueError: If `samples` is below 1, or `label_smoothing` is not 0.

    Example:

    >>> import keras_tying as kt
    >>> model = kt.zoo.create_model("ptb_small", tied=True)
    >>> model.compile(kt.optimizers.ClippedSGD(), kt.losses.SampledCrossEntropy(samples=1024))

    Reference:
        Jean et al., On Using Very Large Target Vocabulary for Neural Machine Translation, section 3; Ma and
        Collins, Noise Contrastive Estimation and Negative Sampling for Conditional Models, section 3, the
        ranking objective.
    """

    def __init__(self, *, samples=8192, name="sampled_cross_entropy", **kwargs):
        check_integer("samples", samples)
        if kwargs.get("label_smoothing"):
            raise ValueError(
                "Label smoothing needs the scores of all words: use `SequenceCrossEntropy`. Received: "
                f"label_smoothing={kwargs['label_smoothing']}"
            )
        super().__init__(name=name, **kwargs)
        self.samples = samples

    def _from_tokens(self, hidden, targets, weights, output, training, seed):
        if not training:
            return super()._from_tokens(hidden, targets, weights, output, training, seed)
        nll = sampled_token_losses(hidden, targets, self.draw(output.embeddings.shape[0], seed), output)
        return ops.sum(nll * weights), ops.stop_gradient(nll)

    def draw(self, vocabulary_size, seed=None):
        """Word ids `[S]`, drawn with replacement from the log-uniform distribution."""
        uniform = keras.random.uniform((2, self.samples), dtype="float32", seed=seed)
        return log_uniform_words(uniform, vocabulary_size)

    def get_config(self):
        config = super().get_config()
        config.pop("label_smoothing")
        return {**config, "samples": self.samples}


def log_uniform_words(uniform, vocabulary_size):
    """Log-uniform word ids `[S]` of two rows of uniform numbers in [0, 1), `[2, S]`.

    The inverse of Q's distribution function, `log(k + 2) / log(V + 1)`. The first row chooses one of `PARTS` equal
    parts of [0, 1), the second a number in it: one number alone has 2**23 values on most backends, too few to reach
    each of a million words.
    """
    length = math.log(vocabulary_size + 1) / PARTS
    starts = np.exp(np.arange(PARTS) * length)  # k + 1 where a part begins
    part = ops.cast(ops.floor(uniform[0] * PARTS), "int32")
    whole, rest, start = (
        ops.take(ops.convert_to_tensor(each, dtype), part)
        for each, dtype in ((np.floor(starts), "int32"), (starts % 1, "float32"), (starts, "float32"))
    )
    further = ops.floor(rest + start * ops.expm1(uniform[1] * length))
    return ops.clip(whole + ops.cast(further, "int32") - 1, 0, vocabulary_size - 1)


def sampled_token_losses(hidden, targets, drawn, output):
    """Cross-entropy `[N]` of each of `targets` `[N]` among itself and the drawn words `[S]`, for `hidden` `[N, H]`.

    That of a target outside the vocabulary is NaN.
    """
    words, valid = words_of(targets, output.embeddings.shape[0])
    ids = ops.concatenate([words, drawn])
    rows = ops.cast(ops.take(output.embeddings, ids, axis=0), hidden.dtype)
    number = ops.shape(targets)[0]
    target_scores = ops.sum(hidden * rows[:number], axis=-1)
    scores = ops.matmul(hidden, ops.transpose(rows[number:]))
    target_scores, scores = ops.cast(target_scores, "float32"), ops.cast(scores, "float32")
    if output.bias is not None:
        biases = ops.cast(ops.take(output.bias, ids, axis=0), "float32")
        target_scores, scores = target_scores + biases[:number], scores + biases[number:]
    target_scores, scores = scaled_logits(target_scores, output), scaled_logits(scores, output)
    correction = log_chance(ids)
    target_scores, scores = target_scores - correction[:number], scores - correction[number:]
    losses = ops.logsumexp(ops.concatenate([target_scores[:, None], scores], axis=-1), axis=-1) - target_scores
    return ops.where(valid, losses, float("nan"))


def log_chance(ids):
    """Logarithm of the probability of drawing each id, up to a constant."""
    return ops.log(ops.log1p(1 / (ops.cast(ids, "float32") + 1)))
