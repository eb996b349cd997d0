"""What the tests of changed copies share: a training step and scores on a small text."""

import keras

V, H = 40, 6


def train(model, text):
    return model.fit(*text, batch_size=8, epochs=1, shuffle=False, verbose=0).history["loss"][0]


def logits(model, text):
    return keras.ops.convert_to_numpy(model(text[0]))
