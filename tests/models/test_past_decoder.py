"""The regularizer that decodes the past is the loss of the words that were read."""

import numpy as np
import pytest
from scipy.special import log_softmax, softmax

import keras_tying as kt


def test_the_last_word_is_decoded_from_the_distribution_of_the_next_one():
    without_dropout = {"input_dropout": 0.0, "state_dropout": 0.0, "output_dropout": 0.0, "state_reset_rate": 0.0}
    model = kt.zoo.single_layer_lstm(
        vocabulary_size=50, embedding_size=6, units=8, past_decode_weight=0.5, **without_dropout
    )
    words, next_words = np.random.default_rng(0).integers(0, 50, (2, 3, 4))
    losses = [float(model(words, targets=next_words, training=training).loss) for training in (True, False)]

    hidden, _ = model.hidden_states(words)
    decoder = model.past_decoder
    parameters = (model.embedding.embeddings, *decoder.map.weights, decoder.bias)
    matrix, kernel, shift, bias = (np.asarray(each) for each in parameters)
    expected_embedding = softmax(np.asarray(model.scores(hidden)), -1) @ matrix
    log_probabilities = log_softmax(np.tanh(expected_embedding @ kernel + shift) @ matrix.T + bias, -1)
    past_loss = -np.take_along_axis(log_probabilities, words[..., None], -1).sum() / len(words)
    assert losses[0] - losses[1] == pytest.approx(0.5 * past_loss, rel=1e-5)
