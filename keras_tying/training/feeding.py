"""Batches to `fit`: the arguments of it that hold them."""

import keras

if keras.backend.backend() == "tensorflow":
    from keras_tying.training.feeding_tensorflow import feed
else:

    def feed(model, batches):
        """Gives `fit` batches from where they stand, each replica of the model its rows.

        Args:
            model: The model.
            batches: `WindowBatches`, `JointBatches` or `TranslationBatches`.

        Returns:
            Arguments of `fit`. With `steps_per_epoch` among them, they are of one epoch.
        """
        return {"x": batches}
