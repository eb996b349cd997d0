"""TensorFlow: a training step of skip-gram that updates only the rows of the words in the batch.

The gradient is written out. With the learning rate `r` and the error `e = met - weight * sigmoid(v . u)` of a centre
and a word (see `SkipGram.targets`):

    u += r * sum of e v        v += r * sum of e u

A word that occurs several times in a batch receives the sum.
"""

import keras
import tensorflow as tf

from keras_tying.backend.tensorflow.lookup import add_to_rows
from keras_tying.backend.tensorflow.replicated import ReplicatedModel


def can_update_rows(model: keras.Model) -> bool:
    """Whether a step only subtracts the gradient of the batch times the learning rate from float32 variables."""
    optimizer = model.optimizer
    matrices = model.embedding.embeddings, model.context_embedding.embeddings  # tensors with LoRA
    return (
        type(optimizer) is keras.optimizers.SGD
        and optimizer.momentum == 0
        and not any((optimizer.weight_decay, optimizer.clipnorm, optimizer.clipvalue, optimizer.global_clipnorm))
        and not any((optimizer.use_ema, optimizer.gradient_accumulation_steps, optimizer.loss_scale_factor))
        and all(isinstance(each, keras.Variable) and each.trainable and each.constraint is None for each in matrices)
        and not model.losses
        and model.only_looks_up
        and model.compute_dtype == "float32"
        and model.distribute_strategy.num_replicas_in_sync == 1
    )


def train_step(model, data):
    """A training step: by rows with plain SGD, the step of Keras with other optimizers."""
    if not can_update_rows(model):
        return ReplicatedModel.train_step(model, data)
    inputs, _, _ = keras.utils.unpack_x_y_sample_weight(data)
    words, met, weights = model.targets(inputs)  # [R, O], [R, S, O], [R, S, O]
    input_matrix = model.embedding.embeddings.value
    output_matrix = model.context_embedding.embeddings.value

    ids = tf.cast(inputs["centres"], tf.int32)
    centres = tf.gather(input_matrix, ids)  # [R, S, H]
    others = tf.gather(output_matrix, words)  # [R, O, H]
    scores = tf.matmul(centres, others, transpose_b=True)
    rate = tf.cast(model.optimizer.learning_rate, tf.float32)
    errors = (met - weights * tf.sigmoid(scores)) * rate
    _add_to_rows(input_matrix, ids, tf.matmul(errors, others))
    _add_to_rows(output_matrix, words, tf.matmul(errors, centres, transpose_a=True))
    model.optimizer.iterations.assign_add(1)

    loss = tf.reduce_sum(weights * tf.nn.softplus(scores) - met * scores)
    mean_loss = next(metric for metric in model.metrics if metric.name == "loss")
    mean_loss.update_state(loss, sample_weight=tf.shape(scores)[0])
    model.update_metrics(loss, met)
    model.count_updates(ids, words, met, weights)
    return model.get_metrics_result()


def _add_to_rows(matrix, ids, values):
    add_to_rows(matrix, tf.reshape(ids, [-1]), tf.reshape(values, [-1, values.shape[-1]]))
