import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_tying as kt
from keras_tying.layers import LSTM, TiedEmbedding
from keras_tying.models import Example, LanguageModel, NextWordModel
from keras_tying.optimizers import ClippedSGD

V, H = 13, 4


class Stepwise(LanguageModel):
    """Trains as the guide of Keras on custom training steps does: the loss of predictions, outside the model."""

    def train_step(self, data):
        words, targets = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(y=targets, y_pred=self(words, training=True))
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        return {"loss": loss}


def test_the_loss_of_logits_is_that_of_the_hidden_states(rng):
    words = rng.integers(0, V, (4, 5))
    layers = [LSTM(H, return_sequences=True, return_state=True)]
    model = Stepwise(TiedEmbedding(V, H, embeddings_regularizer="l2"), layers)
    model.compile(ClippedSGD(0.5))
    expected = model.evaluate(words, words, verbose=0, return_dict=True)["loss"]
    assert float(model.compute_loss(y=words, y_pred=model(words))) == pytest.approx(expected, rel=1e-5)
    losses_of_epochs = model.fit(words, words, epochs=3, verbose=0).history["loss"]
    assert losses_of_epochs == sorted(losses_of_epochs, reverse=True)


class Bigram(NextWordModel):
    def __init__(self, vocabulary_size, units=H, **kwargs):
        super().__init__(**kwargs)
        self.embedding = self.output_embedding = TiedEmbedding(vocabulary_size, units)

    def call(self, inputs, targets=None, sample_weight=None, training=None):
        if isinstance(inputs, Example):
            inputs, targets, sample_weight = inputs
        return self.outputs_of(self.embedding(inputs), targets, sample_weight, training)


@pytest.mark.parametrize("options", [{}, {"adaptive_cutoffs": (20, 50)}], ids=["", "adaptive"])
def test_errors_of_a_call_do_not_print_matrices(options):
    model = kt.zoo.recurrent_language_model(100, units=16, tied=True, **options)
    with pytest.raises(ValueError, match="Targets must have the shape") as caught:
        model(np.ones((2, 3), int), targets=np.ones((2, 2), int))
    assert len(str(caught.value).splitlines()) < 15


def test_a_model_without_a_configuration_exports_and_refuses_to_be_saved_whole(rng, tmp_path):
    model, words = Bigram(V), rng.integers(0, V, (2, 3))
    scores = model.predict(words, verbose=0)
    with pytest.raises(NotImplementedError, match=r"Bigram needs a `get_config`.*without \['vocabulary_size'\]"):
        model.save(tmp_path / "model.keras")
    model.export(tmp_path / "exported", verbose=False, input_signature=[keras.InputSpec("int32", (None, None))])
    exported = tf.saved_model.load(tmp_path / "exported")
    np.testing.assert_allclose(exported.serve(tf.constant(words, "int32")), scores, rtol=1e-5)
