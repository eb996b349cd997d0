"""Cross-entropy under an adaptive softmax, and its gradients, equal those of all log-probabilities on any backend."""

import contextlib
import importlib.util
import io
import json

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_tying as kt
from keras_tying.losses import AugmentedLoss, SampledCrossEntropy, SequenceCrossEntropy

V, H = 40, 16

PROGRAM = """
import json
import keras, numpy as np
import keras_tying as kt
from keras import ops
from keras_tying.losses import SequenceCrossEntropy, fused_cross_entropy
from keras_tying.models.heads import head_projection

rng, B, T, V, H = np.random.default_rng(0), 5, 12, 40, 16
hidden = rng.normal(size=(B, T, H)).astype("float32")
weights = (rng.uniform(size=(B, T)) * (rng.uniform(size=(B, T)) > 0.2)).astype("float32")
TARGETS = {"all bands": (0, V), "frequent words": (0, 9), "rarest words": (25, V)}


def of_tokens(embedding, hidden, targets):
    loss = SequenceCrossEntropy(reduction="sum")
    return loss.from_hidden(targets, hidden, head_projection(embedding), sample_weight=weights)[:2]


def of_all_words(embedding, hidden, targets):
    scores = embedding(hidden, reverse=True)
    nll = -ops.take_along_axis(scores, ops.expand_dims(targets, -1), axis=-1)[..., 0]
    return ops.sum(nll * ops.convert_to_tensor(weights)), nll


def with_gradients(function, embedding):
    # A function of targets, which is compiled once: what `function` returns, and the gradients.
    name = keras.backend.backend()
    variables = embedding.trainable_variables
    if name == "jax":
        import jax

        def of(values, hidden, targets):
            with keras.StatelessScope(list(zip(variables, values))):
                return function(embedding, hidden, targets)

        both = jax.jit(jax.value_and_grad(of, (0, 1), has_aux=True))

        def compute(targets):
            (total, nll), (gradients, d_hidden) = both([v.value for v in variables], hidden, targets)
            return [total, nll, *gradients, d_hidden]

    elif name == "torch":
        import torch

        def compute(targets):
            states = torch.from_numpy(hidden).requires_grad_()
            total, nll = function(embedding, states, ops.convert_to_tensor(targets))
            sources = [*(v.value for v in variables), states]
            return [total, nll, *torch.autograd.grad(total, sources, allow_unused=True)]

    else:
        import tensorflow as tf

        @tf.function(input_signature=[tf.TensorSpec((None, None, H)), tf.TensorSpec((None, None), tf.int32)])
        def both(states, targets):
            with tf.GradientTape() as tape:
                tape.watch(states)
                total, nll = function(embedding, states, targets)
            return [total, nll, *tape.gradient(total, [*(v.value for v in variables), states])]

        def compute(targets):
            return both(tf.constant(hidden), tf.constant(targets))

    sizes = [(), (B, T), *(v.shape for v in variables), hidden.shape]

    def arrays(targets):
        found = zip(compute(targets), sizes)
        return [np.zeros(s) if each is None else np.asarray(ops.convert_to_numpy(each)) for each, s in found]

    return arrays


differences = {}
for tied, chunk in ((True, 100), (False, 2**25)):
    embedding = kt.layers.AdaptiveEmbedding(
        V, H, cutoffs=(9, 25), factor=2, tie_weights=tied, bias_initializer="normal", embeddings_initializer="normal"
    )
    embedding.build()
    fused_cross_entropy.LOGITS_PER_CHUNK = chunk
    if keras.backend.backend() == "jax":
        import jax

        jax.clear_caches()  # what was compiled has chunks of the other length
    fast, plain = (with_gradients(each, embedding) for each in (of_tokens, of_all_words))
    for name, (start, stop) in list(TARGETS.items())[: 3 if tied else 1]:
        targets = rng.integers(start, stop, (B, T)).astype("int32")
        received, expected = fast(targets), plain(targets)
        evaluated = SequenceCrossEntropy().from_hidden(
            targets, ops.convert_to_tensor(hidden), head_projection(embedding), training=False
        )[1]
        received.append(np.asarray(ops.convert_to_numpy(evaluated)))
        expected.append(expected[1])
        differences[f"{name}, tied {tied}"] = [
            float(abs(one - other).max()) for one, other in zip(received, expected, strict=True)
        ]
outside = None
if keras.backend.backend() != "tensorflow":
    _, nll = of_tokens(embedding, ops.convert_to_tensor(hidden), np.full((B, T), V))
    outside = bool(np.isnan(ops.convert_to_numpy(nll)).all())
model = kt.zoo.recurrent_language_model(V, H, adaptive_cutoffs=(9, 25))
model.set_weights([np.random.default_rng(1).uniform(-0.3, 0.3, w.shape) for w in model.get_weights()])
model.carry_state(B)
model.compile(kt.optimizers.ClippedSGD(0.01))
words = rng.integers(0, V, (B, T + 1))
history = model.fit(words[:, :-1], words[:, 1:], batch_size=B, epochs=3, shuffle=False, verbose=0).history["loss"]
numbers = [*history, *model.evaluate(words[:, :-1], words[:, 1:], batch_size=B, verbose=0)]
numbers += model.score(words[:, :-1], words[:, 1:]).ravel().tolist()
print(json.dumps({"differences": differences, "outside": outside, "numbers": [float(each) for each in numbers],
                  "words": model.generate(words[:, :3], 4, temperature=0).tolist()}))
"""


@pytest.fixture(scope="module")
def found(run_python):
    """What the program prints on each backend; TensorFlow runs it here."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(PROGRAM, {})
    kt.losses.fused_cross_entropy.LOGITS_PER_CHUNK = 2**25
    results = {"tensorflow": json.loads(printed.getvalue())}
    for backend in filter(importlib.util.find_spec, ("jax", "torch")):
        results[backend] = json.loads(run_python("-c", PROGRAM, KERAS_BACKEND=backend).stdout.splitlines()[-1])
    return results


@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_loss_and_gradients_are_those_of_all_log_probabilities(found, backend):
    if backend not in found:
        pytest.skip(f"{backend} is not installed")
    for name, differences in found[backend]["differences"].items():
        assert max(differences) < 2e-4, (name, differences)


def test_every_backend_trains_scores_and_generates_alike(found):
    for each in found.values():
        np.testing.assert_allclose(each["numbers"], found["tensorflow"]["numbers"], rtol=1e-4)
        assert each["words"] == found["tensorflow"]["words"]


def test_the_loss_of_a_word_outside_the_vocabulary_is_nan(found):
    assert all(each["outside"] for name, each in found.items() if name != "tensorflow")


def model_of(**arguments):
    return kt.zoo.recurrent_language_model(V, H, adaptive_cutoffs=(9, 25), **arguments)


def test_masked_ignored_and_weightless_targets_do_not_count(rng):
    model, words = model_of(), rng.integers(0, V, (3, 7))
    hidden = model.hidden_states(words)[0]
    plain, nll, _ = SequenceCrossEntropy(reduction="sum").from_hidden(words, hidden, model.output_projection)
    some = rng.uniform(size=(3, 7)) < 0.5
    for loss, targets, weights in [
        (SequenceCrossEntropy(reduction="sum", ignore_id=-100), np.where(some, words, -100), None),
        (SequenceCrossEntropy(reduction="sum"), words, some.astype("float32")),
    ]:
        total, _, counted = loss.from_hidden(targets, hidden, model.output_projection, sample_weight=weights)
        np.testing.assert_allclose(total, (nll.numpy() * some).sum(), rtol=1e-5)
        np.testing.assert_array_equal(counted, some)
    assert float(plain) > float(total)
    keras.src.backend.set_keras_mask(hidden, tf.constant(some))
    masked, _, _ = SequenceCrossEntropy(reduction="sum").from_hidden(words, hidden, model.output_projection)
    np.testing.assert_allclose(masked, (nll.numpy() * some).sum(), rtol=1e-5)


@pytest.mark.parametrize(
    "loss",
    [
        SampledCrossEntropy(),
        AugmentedLoss(),
        SequenceCrossEntropy(temperature=2.0),
        SequenceCrossEntropy(label_smoothing=0.1),
    ],
    ids=lambda loss: f"{loss.name}, {loss.temperature}, {loss.label_smoothing}",
)
def test_losses_that_need_all_words_are_refused_in_one_line(loss):
    model = model_of()
    message = (
        rf"\AAn AdaptiveEmbedding needs the loss `SequenceCrossEntropy`[^\n]*Received: {type(loss).__name__}[^\n]*\Z"
    )
    with pytest.raises(ValueError, match=message):
        model.compile("sgd", loss)
    with pytest.raises(ValueError, match=message):
        loss.from_hidden(np.zeros((1, 2), int), tf.zeros((1, 2, H)), model.output_projection)


def test_other_losses_of_keras_get_the_log_probabilities_as_logits(rng):
    words, histories = rng.integers(0, V, (4, 6)), []
    weights = model_of().get_weights()
    for loss in (keras.losses.SparseCategoricalCrossentropy(from_logits=True), SequenceCrossEntropy(reduction="mean")):
        model = model_of()
        model.set_weights(weights)
        model.compile(keras.optimizers.SGD(0.5), loss)
        histories.append(model.fit(words, words, epochs=3, verbose=0).history["loss"])
    np.testing.assert_allclose(*histories, rtol=1e-5)


def test_copies_with_other_rows_are_refused_in_one_line():
    model = model_of()
    untied = model_of(tied=False)
    for ask in (
        lambda: model.resized(50),
        lambda: model.with_rows([1, 2]),
        model.untied_copy,
        lambda: untied.tied_copy("mean"),
        model.without_lora,
    ):
        with pytest.raises(ValueError, match=r"\A[^\n]*of class AdaptiveEmbedding[^\n]*\Z"):
            ask()


def test_builder_refuses_what_an_adaptive_softmax_lacks():
    with pytest.raises(ValueError, match=r"\A[^\n]*excludes[^\n]*logit_soft_cap=3[^\n]*\Z"):
        model_of(logit_soft_cap=3)
