"""Batches as arguments of `fit`."""

from keras_tying.backend import dispatch


@dispatch
def feed(model, batches):
    """Gives `fit` batches from where they stand, and each replica of the model its rows.

    Args:
        model: The model.
        batches: `WindowBatches`, `JointBatches` or `TranslationBatches`.

    Returns:
        Arguments of `fit`. With `steps_per_epoch` among them, they are of one epoch.
    """
    return {"x": batches}
