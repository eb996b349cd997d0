"""TensorFlow: names of the GPUs."""

import tensorflow as tf


def accelerators():
    gpus = tf.config.list_physical_devices("GPU")
    return [tf.config.experimental.get_device_details(gpu).get("device_name", gpu.name) for gpu in gpus]
