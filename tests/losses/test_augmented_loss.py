import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_tying.data import Vocabulary, load_corpus
from keras_tying.losses import AugmentedLoss, OutputProjection
from keras_tying.optimizers import ClippedSGD
from keras_tying.zoo import nnlm, recurrent_language_model

B, T, H, V = 3, 8, 5, 17
TAU, GAMMA = 3.0, 0.8


@pytest.fixture
def arrays(rng):
    shapes = {"hidden": (B, T, H), "output": (V, H), "input": (V, H), "bias": (V,)}
    arrays = {name: tf.constant(rng.normal(size=shape), "float32") for name, shape in shapes.items()}
    return {**arrays, "targets": tf.constant(rng.integers(0, V // 2, (B, T)), "int32")}


def softmax(scores):
    exponentials = np.exp(scores)
    return exponentials / exponentials.sum(-1, keepdims=True)


def divergence_and_nll(arrays):
    """Divergence and negative log-likelihood, `[B, T]` each, from the equations."""
    hidden, output, embeddings, bias, targets = (
        np.array(arrays[name], np.float64) for name in ("hidden", "output", "input", "bias", "targets")
    )
    targets = targets.astype(int)
    logits = hidden @ output.T + bias
    wanted, given = softmax(embeddings[targets] @ embeddings.T / TAU), softmax(logits / TAU)
    nll = -np.log(np.take_along_axis(softmax(logits), targets[..., None], -1)[..., 0])
    return np.sum(wanted * np.log(wanted / given), -1), nll


def layer(arrays, **changes):
    return OutputProjection(
        arrays["output"], **{"bias": arrays["bias"], "input_embeddings": arrays["input"], **changes}
    )


@pytest.mark.parametrize("training", [True, False])
def test_loss_equals_the_equations(arrays, training):
    divergence, nll = divergence_and_nll(arrays)
    loss = AugmentedLoss(gamma=GAMMA, tau=TAU)
    total, token_nll, _ = loss.from_hidden(arrays["targets"], arrays["hidden"], layer(arrays), training=training)
    np.testing.assert_allclose(total, np.sum(nll + GAMMA * TAU * divergence) / B, rtol=1e-5)
    np.testing.assert_allclose(token_nll, nll, rtol=1e-4)


def test_proportional_loss_is_equation_6_1(arrays):
    divergence, nll = divergence_and_nll(arrays)
    loss = AugmentedLoss.proportional(0.3, TAU, V, reduction="mean")
    total, _, _ = loss.from_hidden(arrays["targets"], arrays["hidden"], layer(arrays))
    np.testing.assert_allclose(total, np.mean(0.3 * divergence * TAU**2 * V + 0.7 * nll), rtol=1e-5)


def gradient_of_input_embeddings(arrays, loss):
    with tf.GradientTape() as tape:
        tape.watch(arrays["input"])
        total, _, _ = loss.from_hidden(arrays["targets"], arrays["hidden"], layer(arrays))
    return tape.gradient(total, arrays["input"])


def test_no_gradient_flows_through_the_target_by_default(arrays):
    assert gradient_of_input_embeddings(arrays, AugmentedLoss(gamma=GAMMA, tau=TAU)) is None


def test_gradient_through_the_target_equals_finite_differences(arrays, rng):
    loss = AugmentedLoss(gamma=GAMMA, tau=TAU, target_gradient=True)
    gradient = np.array(gradient_of_input_embeddings(arrays, loss))
    direction = rng.normal(size=(V, H))
    values = []
    for step in (1e-3, -1e-3):
        moved = {**arrays, "input": np.array(arrays["input"], np.float64) + step * direction}
        divergence, nll = divergence_and_nll(moved)
        values.append(np.sum(nll + GAMMA * TAU * divergence) / B)
    np.testing.assert_allclose(np.sum(gradient * direction), (values[0] - values[1]) / 2e-3, rtol=1e-3)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_gradient_through_the_target_in_lower_precision_is_near_that_in_float32(arrays, dtype):
    loss = AugmentedLoss(gamma=GAMMA, tau=TAU, target_gradient=True)
    lower = {**arrays, "hidden": tf.cast(arrays["hidden"], dtype)}
    received, expected = (np.array(gradient_of_input_embeddings(each, loss)) for each in (lower, arrays))
    np.testing.assert_allclose(received, expected, atol=0.02 * np.abs(expected).max())


@pytest.mark.parametrize("tied", [True, False])
def test_perplexity_of_a_model_excludes_the_divergence(rng, tied):
    tokens, targets = rng.integers(0, V, (2, B, T))
    model = recurrent_language_model(V, H, tied=tied, initializer_range=0.5)
    model.compile("sgd", AugmentedLoss(gamma=GAMMA, tau=TAU))
    augmented = model.evaluate(tokens, targets, verbose=0, return_dict=True)
    model.compile("sgd")
    plain = model.evaluate(tokens, targets, verbose=0, return_dict=True)
    np.testing.assert_allclose(augmented["perplexity"], plain["perplexity"], rtol=1e-5)
    assert augmented["loss"] > plain["loss"]


@pytest.mark.parametrize("target_gradient", [False, True])
def test_tied_model_diverges_without_target_gradient(target_gradient):
    """The perplexity exceeds the number of words, that of a uniform distribution."""
    words, rows, steps = 300, 10, 20
    tokens = list(load_corpus("embedded").tokens("train"))
    ids = Vocabulary.from_tokens(tokens, words).encode(tokens)
    ids = ids[: len(ids) // rows * rows].reshape(rows, -1)
    keras.utils.set_random_seed(1)
    model = recurrent_language_model(words, 32, num_layers=1, output_bias=False)
    model.compile(ClippedSGD(1.0, clip_norm=5.0), AugmentedLoss(gamma=0.8, target_gradient=target_gradient))
    for start in np.arange(600) * steps % (ids.shape[1] - steps - 1):
        model.reset_metrics()
        inputs, targets = (ids[:, first : first + steps] for first in (start, start + 1))
        perplexity = model.train_on_batch(inputs, targets, return_dict=True)["perplexity"]
    assert perplexity < 100 if target_gradient else perplexity > words


def test_embeddings_of_different_widths_raise():
    model = nnlm(V, embedding_size=H, hidden_units=(2 * H,), tied=False)
    with pytest.raises(
        ValueError, match=rf"vocabulary and width. Received: input embeddings \({V}, {H}\), .*\({V}, {2 * H}\)"
    ):
        model.compile("sgd", AugmentedLoss())


def test_logits_raise():
    with pytest.raises(ValueError, match=r"logits do not have. .* Received: y_pred of shape \(2, 3, 4\)"):
        AugmentedLoss()(np.zeros((2, 3), int), np.zeros((2, 3, 4)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: AugmentedLoss(tau=0), "`tau` must be above 0. Received: tau=0"),
        (lambda: AugmentedLoss(gamma=-1), "`gamma` must be at least 0. Received: gamma=-1"),
        (lambda: AugmentedLoss.proportional(1.5, 10, V), r"`beta` must be in \[0, 1\]. Received: beta=1.5"),
    ],
)
def test_arguments_out_of_range_raise(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_config_round_trip():
    loss = AugmentedLoss(gamma=0.5, tau=10.0, cross_entropy_weight=0.9, target_gradient=True, ignore_id=0)
    again = keras.losses.deserialize(keras.losses.serialize(loss))
    assert again.get_config() == loss.get_config()
