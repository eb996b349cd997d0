"""TensorFlow: a step of skip-gram that touches only the rows of the words in the batch.

The gradient is written out. With the learning rate `r` and the error `e = label - sigmoid(v . u)`,
weighted, of every pair and every negative:

    u += r * sum of e v        v += r * sum of e u

A word that occurs several times in a batch receives the sum.
"""

import keras
import tensorflow as tf


def can_update_rows(model: keras.Model) -> bool:
    """Whether the compiled optimizer does nothing but subtract the gradient times the learning rate."""
    optimizer = model.optimizer
    return (
        type(optimizer) is keras.optimizers.SGD
        and optimizer.momentum == 0
        and not any((optimizer.weight_decay, optimizer.clipnorm, optimizer.clipvalue, optimizer.global_clipnorm))
        and not any((optimizer.use_ema, optimizer.gradient_accumulation_steps, optimizer.loss_scale_factor))
        and model.compute_dtype == "float32"
        and model.distribute_strategy.num_replicas_in_sync == 1
    )


def row_train_step(model, data):
    """One step of SGD on a batch; the same update as Keras' own step, by rows."""
    inputs, _, _ = keras.utils.unpack_x_y_sample_weight(data)
    pairs = tf.cast(inputs["pairs"], tf.float32)  # [R, G, S, C]
    weights = model.negative_weights(inputs)  # [R, G, S, N]
    input_matrix = model.embedding.embeddings.value
    output_matrix = model.context_embedding.embeddings.value

    centres = tf.gather(input_matrix, inputs["centres"])  # [R, G, S, H]
    contexts = tf.gather(output_matrix, inputs["contexts"])  # [R, G, C, H]
    negatives = tf.gather(output_matrix, inputs["negatives"])  # [R, N, H]
    rows, groups, span, width = tf.unstack(tf.shape(centres))
    grouped = tf.reshape(centres, [rows, groups * span, width])

    scores = tf.matmul(centres, contexts, transpose_b=True)
    negative_scores = tf.matmul(grouped, negatives, transpose_b=True)  # [R, G * S, N]
    weights = tf.reshape(weights, tf.shape(negative_scores))
    rate = tf.cast(model.optimizer.learning_rate, tf.float32)
    errors = pairs * tf.sigmoid(-scores) * rate
    negative_errors = weights * tf.sigmoid(negative_scores) * -rate

    from_negatives = tf.reshape(tf.matmul(negative_errors, negatives), tf.shape(centres))
    _add_to_rows(input_matrix, inputs["centres"], tf.matmul(errors, contexts) + from_negatives)
    _add_to_rows(output_matrix, inputs["contexts"], tf.matmul(errors, centres, transpose_a=True))
    _add_to_rows(output_matrix, inputs["negatives"], tf.matmul(negative_errors, grouped, transpose_a=True))
    model.optimizer.iterations.assign_add(1)

    loss = tf.reduce_sum(pairs * tf.nn.softplus(-scores)) + tf.reduce_sum(weights * tf.nn.softplus(negative_scores))
    model._loss_tracker.update_state(loss, sample_weight=rows)
    model.update_metrics(loss, pairs)
    model.count_updates(inputs, pairs, tf.reduce_sum(weights, axis=1))
    return model.get_metrics_result()


def _add_to_rows(matrix, ids, values):
    width = values.shape[-1]
    matrix.scatter_add(tf.IndexedSlices(tf.reshape(values, [-1, width]), tf.reshape(ids, [-1])))
