"""Models as files give them back."""

import keras


def saved_and_loaded(model, folder):
    """The model after it was saved to `model.keras` in a folder and loaded from there."""
    model.save(folder / "model.keras")
    return keras.saving.load_model(folder / "model.keras")
