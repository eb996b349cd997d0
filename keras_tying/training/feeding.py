"""Batches to `fit`: the arguments of it that hold them, from where they stand."""

import keras

if keras.backend.backend() == "tensorflow":
    from keras_tying.training.feeding_tensorflow import feed, feed_blocks
else:

    def feed(model, batches):
        """Batches of any shape, such as `TranslationBatches`, for `fit`."""
        return {"x": batches}

    def feed_blocks(model, batches):
        """A `Blocks` for `fit`."""
        return {"x": batches}
