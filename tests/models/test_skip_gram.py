import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy.special import expit as sigmoid

from keras_tying import backend, zoo
from keras_tying.backend.tensorflow.skip_gram import can_update_rows
from keras_tying.data import SkipGramBatches, word_counts
from keras_tying.layers import TiedEmbedding
from keras_tying.models import SkipGram, skip_gram

V, H, K = 11, 6, 5


@pytest.fixture(params=[False, True], ids=["untied", "tied"])
def model(request, rng):
    model = zoo.skip_gram(V, H, tied=request.param, negatives=K)
    for weight in model.trainable_weights:
        weight.assign(rng.normal(size=weight.shape))
    return model


@pytest.fixture
def batch(rng):
    """Six spans of four words with a window of two; words repeat."""
    r, s, c, n = 6, 4, 8, 7
    return {
        "centres": rng.integers(0, V, (r, s), np.int32),
        "contexts": rng.integers(0, V, (r, c), np.int32),
        "pairs": rng.random((r, s, c)) < 0.3,
        "negatives": rng.integers(0, V, (r, n), np.int32),
    }


def by_formula(model, batch):
    """Gradients of input and output embeddings and the loss, pair by pair as in the paper."""
    matrices = [np.array(m, np.float64) for m in model.embedding_matrices().values()]
    u, v = matrices if len(matrices) == 2 else matrices * 2
    gradient_u, gradient_v, loss = np.zeros_like(u), np.zeros_like(v), 0.0
    share = K / batch["negatives"].shape[1]
    for r, s, c in zip(*np.nonzero(batch["pairs"]), strict=True):
        centre, context = batch["centres"][r, s], batch["contexts"][r, c]
        draws = [(context, 1.0, 1)] + [(n, share, 0) for n in batch["negatives"][r] if n != context]
        for word, weight, label in draws:
            score = v[word] @ u[centre]
            loss -= weight * np.log(sigmoid(score if label else -score))
            error = weight * (sigmoid(score) - label)
            gradient_u[centre] += error * v[word]
            gradient_v[word] += error * u[centre]
    return gradient_u, gradient_v, loss


@pytest.fixture(params=[True, False], ids=["by rows", "portable"])
def by_rows(request, monkeypatch):
    """Whether the training step of TensorFlow is used."""
    if not request.param:
        monkeypatch.setattr(skip_gram, "train_step", backend.portable(skip_gram.train_step))
    return request.param


@pytest.mark.parametrize("given", [{}, {"context_embedding": TiedEmbedding(V, H, tie_weights=False)}])
def test_an_embedding_with_two_matrices_is_refused(given):
    with pytest.raises(ValueError, match=r"must be an embedding with one matrix[^\n]* with tie_weights=False$"):
        SkipGram(TiedEmbedding(V, H, tie_weights=bool(given)), **given)


@pytest.mark.parametrize("change", ["lora", "frozen"])
def test_plain_sgd_changes_only_trainable_variables(model, batch, change):
    if change == "lora":
        model.embedding.enable_lora(2)
    model.embedding.trainable = change == "lora"
    frozen = np.array(model.embedding.non_trainable_variables[0])
    model.compile(keras.optimizers.SGD(0.01))
    model.train_on_batch(batch)
    np.testing.assert_array_equal(frozen, model.embedding.non_trainable_variables[0])
    assert change == "frozen" or np.any(model.embedding.lora_embeddings_b)


def test_loss_and_gradient_equal_the_formula(model, batch, by_rows):
    gradient_u, gradient_v, loss = by_formula(model, batch)
    before = [np.array(weight) for weight in model.trainable_weights]
    model.compile(keras.optimizers.SGD(0.01))
    logs = model.train_on_batch(batch, return_dict=True)
    expected = [gradient_u + gradient_v] if model.tied else [gradient_u, gradient_v]
    assert logs["loss"] == pytest.approx(loss, rel=1e-5)
    assert logs["pair_loss"] == pytest.approx(loss / batch["pairs"].sum(), rel=1e-5)
    for old, weight, gradient in zip(before, model.trainable_weights, expected, strict=True):
        np.testing.assert_allclose((old - np.array(weight)) / 0.01, gradient, rtol=1e-3, atol=1e-3)


def test_pairs_that_updated_each_word_are_counted(model, batch, by_rows):
    model.compile(keras.optimizers.SGD(0.01))
    for _ in range(2):
        model.train_on_batch(batch)
    inputs, outputs = np.zeros(V), np.zeros(V)
    for r, s, c in zip(*np.nonzero(batch["pairs"]), strict=True):
        inputs[batch["centres"][r, s]] += 2
        outputs[batch["contexts"][r, c]] += 2
        for negative in batch["negatives"][r]:
            outputs[negative] += 2 * K / 7 * (negative != batch["contexts"][r, c])
    np.testing.assert_allclose(model.input_updates, inputs, rtol=1e-5)
    np.testing.assert_allclose(model.output_updates, outputs, rtol=1e-5)


def test_learning_rate_schedule_is_followed_by_rows(model, batch):
    schedule = keras.optimizers.schedules.PolynomialDecay(0.5, 10, 0.0)
    model.compile(keras.optimizers.SGD(schedule))
    for _ in range(3):
        model.train_on_batch(batch)
    assert int(model.optimizer.iterations) == 3
    assert float(model.optimizer.learning_rate) == pytest.approx(0.35)


@pytest.mark.parametrize(
    "arguments", [{"momentum": 0.9}, {"clipnorm": 1.0}, {"weight_decay": 0.1}, {"use_ema": True}, {"name": "adam"}]
)
def test_other_optimizers_use_the_step_of_keras(model, batch, arguments):
    kind = keras.optimizers.Adam if "name" in arguments else keras.optimizers.SGD
    model.compile(kind(0.1, **arguments))
    assert not can_update_rows(model)
    before = np.array(model.embedding.embeddings)
    assert np.isfinite(model.train_on_batch(batch)).all()
    assert (np.array(model.embedding.embeddings) != before).any()


class Doubling(keras.layers.Embedding):
    def call(self, inputs):
        return 2 * super().call(inputs)


@pytest.mark.parametrize(
    "embedding", [lambda: Doubling(V, H), lambda: TiedEmbedding(V, H, use_bias=False, activity_regularizer="l2")]
)
def test_embeddings_that_do_more_than_look_up_use_the_step_of_keras(batch, embedding):
    losses = []
    for optimizer in (keras.optimizers.SGD(0.0), keras.optimizers.Adam(0.0)):
        keras.utils.set_random_seed(1)
        model = SkipGram(embedding())
        model.compile(optimizer)
        losses.append(model.train_on_batch(batch, return_dict=True)["loss"])
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)


@pytest.mark.parametrize("optimizer", [keras.optimizers.SGD, keras.optimizers.Adam])
def test_regularizers_and_constraints_apply(batch, optimizer):
    embedding = TiedEmbedding(V, H, use_bias=False, embeddings_regularizer="l2", embeddings_constraint="unit_norm")
    model = SkipGram(embedding)
    penalty, loss = 0.01 * float(keras.ops.sum(embedding.embeddings**2)), float(model(batch).loss)
    model.compile(optimizer(0.01))
    assert model.train_on_batch(batch, return_dict=True)["loss"] == pytest.approx(loss + penalty, rel=1e-5)
    np.testing.assert_allclose(np.linalg.norm(embedding.embeddings, axis=0), 1, rtol=1e-5)


def test_rows_of_other_words_do_not_change(batch):
    model = zoo.skip_gram(V + 2, H)
    model.compile(keras.optimizers.SGD(0.1))
    before = np.array(model.embedding.embeddings)
    model.train_on_batch(batch)
    np.testing.assert_array_equal(np.array(model.embedding.embeddings)[V:], before[V:])
    assert not np.array(model.context_embedding.embeddings)[V:].any()


def test_model_trains_on_plain_pairs(model, batch, by_rows):
    centres, contexts = batch["centres"].reshape(-1), batch["centres"].reshape(-1)[::-1]
    pairs = {
        "centres": centres.reshape(-1, 1),
        "contexts": contexts.reshape(-1, 1),
        "pairs": np.ones((len(centres), 1, 1), bool),
        "negatives": np.tile(np.arange(K, dtype=np.int32), (len(centres), 1)),
    }
    _, _, loss = by_formula(model, pairs)
    model.compile(keras.optimizers.SGD(0.01))
    history = model.fit(pairs, batch_size=len(centres), epochs=2, verbose=0).history["loss"]
    assert history[0] == pytest.approx(loss, rel=1e-5)
    assert history[1] < history[0]


def test_a_tied_model_has_one_matrix():
    assert [w.shape for w in zoo.skip_gram(V, H, tied=True).trainable_weights] == [(V, H)]
    assert [w.shape for w in zoo.skip_gram(V, H).trainable_weights] == [(V, H)] * 2


def test_model_saves_and_loads(model, batch, tmp_path):
    model.compile(keras.optimizers.SGD(0.01))
    model.train_on_batch(batch)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert again.get_config() == model.get_config()
    for expected, received in zip(model.weights, again.weights, strict=True):
        np.testing.assert_array_equal(received, expected)
    np.testing.assert_array_equal(again.predict(batch, verbose=0), model.predict(batch, verbose=0))


def test_mixed_precision_trains(batch):
    model = zoo.skip_gram(V, H, dtype="mixed_bfloat16")
    model.compile(keras.optimizers.SGD(0.1))
    losses = [model.train_on_batch(batch) for _ in range(5)]
    assert losses[-1] < losses[0]
    assert all(weight.dtype == "float32" for weight in model.weights)


def test_call_with_negatives_and_pairs_returns_losses(model, batch):
    _, _, loss = by_formula(model, batch)
    assert float(model(batch).loss) == pytest.approx(loss, rel=1e-5)
    scores = model({name: batch[name] for name in ("centres", "contexts")})
    assert tuple(scores.shape) == batch["pairs"].shape
    np.testing.assert_allclose(model.predict(batch, verbose=0), scores, atol=1e-5)


def test_both_embeddings_are_embeddings():
    with pytest.raises(ValueError, match=r"`context_embedding` must be an Embedding layer. Received: .*=<Dense"):
        SkipGram(TiedEmbedding(V, H, use_bias=False), context_embedding=keras.layers.Dense(H))


def test_other_losses_and_batches_without_pairs_raise(model, batch):
    with pytest.raises(ValueError, match="Received: loss='mse'"):
        model.compile("sgd", "mse")
    with pytest.raises(ValueError, match=r"use another learning rate. Received: loss_weights=2.0\Z"):
        model.compile("sgd", loss_weights=2.0)
    model.compile("sgd")
    with pytest.raises(ValueError, match=r"need `negatives` and `pairs`. Received: \['centres', 'contexts'\]"):
        model.evaluate({name: batch[name] for name in ("centres", "contexts")}, verbose=0)
    with pytest.raises(ValueError, match=r"dictionary with \['centres', 'contexts'\]. Received: tuple"):
        model((batch["centres"], batch["contexts"]))


def test_embeddings_of_different_sizes_raise():
    with pytest.raises(ValueError, match=r"Received: \(5, 3\) and \(6, 3\)"):
        SkipGram(TiedEmbedding(5, 3), context_embedding=TiedEmbedding(6, 3))


@pytest.mark.parametrize("name", ["vocabulary_size", "units", "negatives"])
def test_sizes_must_be_positive(name):
    with pytest.raises(ValueError, match=rf"`{name}` must be at least 1. Received: {name}=0"):
        zoo.skip_gram(**{"vocabulary_size": 5, "units": 3, name: 0})


def test_pair_loss_falls_on_real_text(train_ids, vocabulary):
    counts = word_counts(train_ids, vocabulary)
    text = SkipGramBatches(train_ids, counts, vocabulary.end_id, window=3, spans=8)
    model = zoo.skip_gram(len(vocabulary), 30)
    model.compile(keras.optimizers.SGD(0.025), steps_per_execution=20)
    losses = [
        model.fit(((b,) for b in text.epoch(e)), steps_per_epoch=text.batches, shuffle=False, verbose=0).history[
            "pair_loss"
        ][0]
        for e in range(4)
    ]
    assert losses[-1] < 0.9 * (1 + K) * np.log(2)
    assert losses == sorted(losses, reverse=True)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_sample_weights_are_refused(batch, optimizer):
    model = zoo.skip_gram(100, 4)
    model.compile(optimizer)
    with pytest.raises(ValueError, match="no sample weights"):
        model.train_on_batch(batch, sample_weight=np.zeros(len(batch["centres"])))


def test_training_steps_with_repeated_words_give_the_same_bits_each_time(rng):
    def repeated(*shape):
        return rng.zipf(1.3, shape).clip(max=2000).astype("int32") - 1

    batch = {"centres": repeated(64, 16), "contexts": repeated(64, 26), "negatives": repeated(64, 64)}
    batch["pairs"] = rng.random((64, 16, 26)) < 0.3
    model = zoo.skip_gram(2000, 100)
    model.compile(keras.optimizers.SGD(0.025))
    assert can_update_rows(model)
    start = model.get_weights()
    trained = set()
    for _ in range(20):
        model.set_weights(start)
        model.train_on_batch(batch)
        trained.add(b"".join(weight.tobytes() for weight in model.get_weights()))
    assert len(trained) == 1


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_ids_without_a_sign_are_ids(optimizer):
    model = zoo.skip_gram(20, units=4)
    model.compile(optimizer)
    ids = np.arange(12, dtype="uint16").reshape(2, 6)
    pairs = np.ones((2, 1, 2), bool)
    batch = {"centres": ids[:, :1], "contexts": ids[:, 1:3], "negatives": ids[:, 3:], "pairs": pairs}
    losses = model.fit(batch, epochs=3, verbose=0).history["loss"]
    assert losses[2] < losses[0]


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_batches_of_a_size_that_is_known_at_run_time_train(model, batch, optimizer):
    spec = {name: tf.TensorSpec([None] * values.ndim, values.dtype) for name, values in batch.items()}
    data = tf.data.Dataset.from_generator(lambda: iter([batch]), output_signature=spec)
    other = keras.models.clone_model(model)
    other.set_weights(model.get_weights())
    for trained, given in ((model, data), (other, tf.data.Dataset.from_tensors(batch))):
        trained.compile(optimizer)
        trained.fit(given, verbose=0)
    for one, two in zip(model.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-7)
