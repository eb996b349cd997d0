"""TensorFlow: the tail of an adaptive softmax, for the tokens of its band only."""

import tensorflow as tf

from keras_tying.losses import adaptive_cross_entropy as portable


def tail_total_loss(inside, hidden, targets, weights, output):
    """`total_loss` of the tokens `inside`, `[N]`; negative log-likelihoods `[N]`, 0 for the others."""
    places = tf.where(inside)
    hidden, targets, weights = (tf.gather_nd(each, places) for each in (hidden, targets, weights))
    total, nll = portable.total_loss(hidden, targets, weights, output)
    return total, _spread(nll, places, inside)


def tail_token_losses(inside, hidden, targets, output):
    """Negative log-likelihoods `[N]` of the tokens `inside`, 0 for the others."""
    places = tf.where(inside)
    _, nll = portable.token_losses(tf.gather_nd(hidden, places), tf.gather_nd(targets, places), output)
    return _spread(nll, places, inside)


def _spread(values, places, inside):
    spread = tf.scatter_nd(places, values, tf.shape(inside, tf.int64))
    return tf.ensure_shape(spread, inside.shape)
