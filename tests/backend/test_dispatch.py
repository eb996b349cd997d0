"""Functions written for a backend give the same results as the portable functions."""

import ast
import importlib
import pkgutil
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_tying as kt
from keras_tying import backend
from keras_tying.backend.tensorflow import batches as fast_batches
from keras_tying.backend.tensorflow import scan
from keras_tying.layers import carried_state, conditional_gru, gru, lookup, lstm, recurrent_highway
from keras_tying.losses import adaptive_cross_entropy as adaptive
from keras_tying.losses import fused_cross_entropy as fused
from keras_tying.losses.fused_cross_entropy import OutputProjection, SoftTarget
from keras_tying.models import beam_search, skip_gram
from keras_tying.models.replicated import ReplicatedModel
from keras_tying.models.translator import word_limits
from keras_tying.tasks.language_model import WindowBatches
from keras_tying.training.batches import feed

LIBRARY = Path(kt.__file__).parent
for module in pkgutil.walk_packages([str(LIBRARY)], "keras_tying."):
    if not module.name.startswith(("keras_tying.backend.jax", "keras_tying.backend.torch")):
        importlib.import_module(module.name)

CASES: dict = {}


def case(portable, **variants):
    """Decorator of a case: `check(function, rng, monkeypatch, **variant)` returns the values to compare."""
    pair = next(name for name, pair in backend.replacements().items() if portable in pair)

    def add(check):
        for name, arguments in (variants or {"": {}}).items():
            CASES.setdefault(pair, {})[f"{check.__name__} {name}"] = check, arguments
        return check

    return add


def normal(rng, *shape):
    return tf.constant(rng.normal(size=shape), tf.float32)


def with_gradients(function, sources):
    """Outputs, and the gradients in `sources` of a scalar that depends differently on each output."""
    with tf.GradientTape() as tape:
        tape.watch(sources)
        outputs = tf.nest.flatten(function())
        loss = sum(tf.reduce_sum(tf.sin((i + 1) * o + tf.range(float(o.shape[-1])))) for i, o in enumerate(outputs))
    return [*outputs, *(tf.convert_to_tensor(gradient) for gradient in tape.gradient(loss, sources))]


UNROLLED_OR_LOOPED = {"unrolled": {"unrolled_steps": 64}, "looped": {"unrolled_steps": 2}}


@case(gru.gru_sequence, **UNROLLED_OR_LOOPED)
def gru_states(function, rng, monkeypatch, unrolled_steps):
    monkeypatch.setattr(scan, "UNROLLED_STEPS", unrolled_steps)
    projected, kernel, mask = normal(rng, 4, 6, 15), normal(rng, 5, 15), rng.random((4, 6)) < 0.7
    return [
        with_gradients(lambda: function(projected, kernel, mask=mask, reverse=reverse), [projected, kernel])  # noqa: B023  # called at once
        for mask in (None, mask)
        for reverse in (False, True)
    ]


@case(conditional_gru.conditional_gru_sequence, **UNROLLED_OR_LOOPED)
def conditional_gru_states(function, rng, monkeypatch, unrolled_steps):
    monkeypatch.setattr(scan, "UNROLLED_STEPS", unrolled_steps)
    mask = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [0, 0, 0, 0, 0]], bool)
    projected, state = normal(rng, 3, 7, 12), normal(rng, 3, 4)
    keys, mixable = normal(rng, 3, 5, 6), normal(rng, 3, 5, 12)
    weights = [normal(rng, *shape) for shape in ((4, 12), (4, 6), (6, 1), (4, 12), (12,))]

    def run():
        memory = conditional_gru.Memory(None, keys, mixable, tf.constant(mask))
        return function(projected, state, memory, conditional_gru.RecurrentWeights(*weights))

    return with_gradients(run, [projected, state, keys, mixable, *weights])


@case(recurrent_highway.highway_sequence, **UNROLLED_OR_LOOPED)
def highway_states(function, rng, monkeypatch, unrolled_steps):
    monkeypatch.setattr(scan, "UNROLLED_STEPS", unrolled_steps)
    arguments = [normal(rng, *shape) for shape in ((3, 6, 10), (3, 5), (3, 5, 10), (3, 10))]
    kept = tf.constant(rng.integers(0, 2, (3, 5)) * 2.0, tf.float32)
    return [with_gradients(lambda: function(*arguments, kept=kept), arguments) for kept in (None, kept)]  # noqa: B023  # called at once


@case(lstm.scan_time, **UNROLLED_OR_LOOPED)
def scanned(function, rng, monkeypatch, unrolled_steps):
    monkeypatch.setattr(scan, "UNROLLED_STEPS", unrolled_steps)
    states, sequences = (normal(rng, 3), normal(rng, 3)), [normal(rng, 6, 3), normal(rng, 6, 1)]

    def step(states, inputs):
        first, second = states
        return first * inputs[0] + second, keras.ops.tanh(second + inputs[1])

    return with_gradients(lambda: keras.tree.flatten(function(step, states, sequences)), [*states, *sequences])


@case(
    lstm.lstm_loop,
    plain={},
    backwards={"go_backwards": True},
    masked={"masked": True},
    **{"inputs dropped": {"dropout": 0.5}, "all dropped": {"dropout": 0.3, "recurrent_dropout": 0.5}},
    **{"one mask": {"dropout": 0.3, "recurrent_dropout": 0.5, "shared_dropout_masks": True}},
    capped={"cap_input_gate": True, "dropout": 0.3},
    **{"weight drop": {"weight_drop": 0.5, "masked": True}},
)
def lstm_states(function, rng, monkeypatch, masked=False, **arguments):
    monkeypatch.setattr(lstm, "lstm_loop", function)
    layer = kt.layers.LSTM(5, return_sequences=True, return_state=True, seed=7, use_cudnn=False, **arguments)
    inputs, mask = normal(rng, 4, 6, 3), rng.random((4, 6)) < 0.7 if masked else None
    layer.build(inputs.shape)
    layer.set_weights([rng.normal(size=w.shape) if w.dtype == np.float32 else w for w in layer.get_weights()])
    return with_gradients(
        lambda: layer(inputs, mask=mask, training=True), [inputs, *(v.value for v in layer.trainable_variables)]
    )


@case(
    lstm.recurrence,
    **{"full matrices": {}, "low rank": {"rank": 2, "rounds": 4}, "no bias": {"use_bias": False}},
    dropped={"dropout": 0.3, "recurrent_dropout": 0.5, "weight_drop": 0.5, "cap_input_gate": True},
    masked={"masked": True},
    looped={"unrolled_steps": 2},
)
def mogrified_states(function, rng, monkeypatch, masked=False, unrolled_steps=64, **arguments):
    monkeypatch.setattr(scan, "UNROLLED_STEPS", unrolled_steps)
    monkeypatch.setattr(lstm, "recurrence", function)
    layer = kt.layers.MogrifierLSTM(5, return_sequences=True, return_state=True, seed=7, **arguments)
    inputs, mask = normal(rng, 4, 6, 3), rng.random((4, 6)) < 0.7 if masked else None
    states = [normal(rng, 4, 5), normal(rng, 4, 5)]
    layer.build(inputs.shape)
    layer.set_weights([rng.normal(size=w.shape) if w.dtype == np.float32 else w for w in layer.get_weights()])
    sources = [inputs, *states, *(v.value for v in layer.trainable_variables)]
    return with_gradients(lambda: layer(inputs, initial_state=states, mask=mask, training=True), sources)


@case(lookup.lookup, **{"with another role": {"alone": False}, "alone": {"alone": True}})
def rows(function, rng, monkeypatch, alone):
    matrix, ids = normal(rng, 7, 4), rng.integers(0, 7, (3, 5))
    return with_gradients(lambda: function(matrix, ids, alone=alone), [matrix])


LOSSES = {
    "plain": {},
    "no bias": {"bias": None},
    "soft cap": {"logit_soft_cap": 2.0},
    "temperature": {"temperature": 3.0},
    "smoothing": {"label_smoothing": 0.1},
    "everything": {"logit_soft_cap": 2.0, "temperature": 0.5, "label_smoothing": 0.2},
    "soft target": {"soft_target": SoftTarget(3.0, 4.0, 0.7)},
    "trained soft target": {"soft_target": SoftTarget(3.0, 4.0, 0.7, target_gradient=True)},
    "soft target, no bias": {"soft_target": SoftTarget(3.0, 4.0, 0.7, target_gradient=True), "bias": None},
    "soft target, everything": {
        "soft_target": SoftTarget(3.0, 4.0, 0.7, target_gradient=True),
        **{"logit_soft_cap": 2.0, "temperature": 0.5, "label_smoothing": 0.2},
    },
}


def output_of(rng, **options):
    arrays = {"embeddings": normal(rng, 17, 5), "bias": normal(rng, 17), "input_embeddings": normal(rng, 17, 5)}
    return OutputProjection(**{**arrays, **options})


@case(fused.total_loss, **LOSSES)
def loss_and_gradient(function, rng, monkeypatch, **options):
    output, hidden = output_of(rng, **options), normal(rng, 23, 5)
    targets = tf.constant(rng.integers(0, 8, 23), tf.int32)
    weights = tf.constant(rng.uniform(size=23) * (rng.uniform(size=23) > 0.3), tf.float32)
    sources = [hidden, *output.trained.values()]
    found = []
    for logits in (2**25, 5 * 17, 1):  # one chunk, five tokens per chunk, one token per chunk
        monkeypatch.setattr(fused, "LOGITS_PER_CHUNK", logits)
        with tf.GradientTape() as tape:
            tape.watch(sources)
            total, nll = function(hidden, targets, weights, output)
            tripled = 3 * total
        found += [total, nll, *tape.gradient(tripled, sources)]
    return found


@case(fused.token_losses, **LOSSES)
def losses_of_tokens(function, rng, monkeypatch, **options):
    output, hidden = output_of(rng, **options), normal(rng, 23, 5)
    monkeypatch.setattr(fused, "LOGITS_PER_CHUNK", 5 * 17)
    return function(hidden, tf.constant(rng.integers(0, 8, 23), tf.int32), output)


@case(fused.weighted_losses, **LOSSES)
def losses_with_any_gradient(function, rng, monkeypatch, **options):
    monkeypatch.setattr(fused, "LOGITS_PER_CHUNK", 5 * 17)
    output, hidden = output_of(rng, **options), normal(rng, 23, 5)
    targets, weights = tf.constant(rng.integers(0, 8, 23), tf.int32), tf.constant(rng.uniform(size=23), tf.float32)
    sources, found = [hidden, *output.trained.values()], []
    for upstream in (tf.fill([23], 3.0), tf.constant(rng.normal(size=23), tf.float32)):
        with tf.GradientTape() as tape:
            tape.watch(sources)
            total = tf.reduce_sum(upstream * function(hidden, targets, weights, output))
        found += [total, *tape.gradient(total, sources)]
    return found


@case(adaptive.tail_total_loss, some={"share": 0.4}, none={"share": 0.0})
def loss_and_gradient_of_some(function, rng, monkeypatch, share):
    output, hidden, inside = output_of(rng), normal(rng, 23, 5), rng.uniform(size=23) < share
    targets = tf.constant(np.where(inside, rng.integers(0, 17, 23), 99), tf.int32)
    weights, sources = tf.constant(rng.uniform(size=23), tf.float32), [hidden, *output.trained.values()]
    with tf.GradientTape() as tape:
        tape.watch(sources)
        total, nll = function(inside, hidden, targets, weights, output)
    return [total, nll, *map(tf.convert_to_tensor, tape.gradient(total, sources))]


@case(adaptive.tail_token_losses)
def losses_of_some_tokens(function, rng, monkeypatch):
    inside, targets = rng.uniform(size=23) < 0.4, tf.constant(rng.integers(0, 17, 23), tf.int32)
    return function(inside, normal(rng, 23, 5), targets, output_of(rng))


def translator(rng, size=4, **arguments):
    model = kt.zoo.dl4mt_small(size, size, "three_way", embedding_size=6, units=8, dropout=0.0, **arguments)
    model.set_weights([rng.normal(size=w.shape) for w in model.get_weights()])
    return model


@case(
    beam_search.search,
    greedy={"beam_size": 1},
    beam={"beam_size": 3},
    **{"greedy, bfloat16": {"beam_size": 1, "dtype": "mixed_bfloat16"}},
    **{"beam, bfloat16": {"beam_size": 3, "dtype": "mixed_bfloat16"}},
    drawn={"beam_size": 3, "drawn": True},
)
def translations(function, rng, monkeypatch, beam_size, drawn=False, dtype=None):
    model, source = translator(rng, dtype=dtype), rng.integers(0, 4, (5, 6)).astype("int32")
    source[1, 3:] = source[3, 1:] = -1
    limits = word_limits(source)
    uniform = rng.random((5, beam_size, limits.max()), np.float32)
    draw = beam_search.Draw(uniform, np.float32(1), np.int32(4), np.float32(1)) if drawn else None
    words, scores = function(model, source, limits, beam_size, 1.0, 1, draw)
    return (words, scores) if dtype is None else words  # scores in bfloat16 are too coarse to compare


@case(beam_search.likeliest_words, **{f"of {size}": {"size": size} for size in (4, 40, 41, 8000)})
def words_of_a_step(function, rng, monkeypatch, size):
    live = np.array([[True, False, True], [False, True, True]])
    scores, words = function(translator(rng, size), normal(rng, 2, 3, 6) * 50, live, 4)
    return np.array(scores)[live], np.array(words)[live]


@case(skip_gram.train_step, **{"plain SGD": {"optimizer": "sgd"}, "Adam": {"optimizer": "adam"}})
def skip_gram_weights(function, rng, monkeypatch, optimizer):
    monkeypatch.setattr(skip_gram, "train_step", function)
    model = kt.zoo.skip_gram(11, 6, tied=True)
    model.set_weights([rng.normal(size=w.shape) for w in model.get_weights()])
    model.compile(keras.optimizers.get({"class_name": optimizer, "config": {"learning_rate": 0.01}}))
    batch = {"centres": (6, 4), "contexts": (6, 8), "negatives": (6, 7)}
    batch = {name: rng.integers(0, 11, shape, np.int32) for name, shape in batch.items()}
    logs = model.train_on_batch({**batch, "pairs": rng.random((6, 4, 8)) < 0.3}, return_dict=True)
    return [*logs.values(), *model.get_weights()]


@case(kt.optimizers.squared_norm)
def norm(function, rng, monkeypatch):
    return function(normal(rng, 4, 3))


@case(kt.optimizers.descend)
def updated(function, rng, monkeypatch):
    variable = keras.Variable(rng.normal(size=(4, 3)))
    function(variable, normal(rng, 4, 3), 0.5)
    return variable


@case(kt.optimizers.adam_step, **{"Adam": {}, "AMSGrad": {"amsgrad": True}})
def adam_updates(function, rng, monkeypatch, **arguments):
    variable, optimizer = keras.Variable(rng.normal(size=(4, 3))), keras.optimizers.Adam(**arguments)
    optimizer.build([variable])
    for rate in (0.5, 0.1):
        function(optimizer, normal(rng, 4, 3), variable, rate)
        optimizer.iterations.assign_add(1)
    return [variable, *optimizer.variables[2:]]


@case(ReplicatedModel)
def trained_weights(function, rng, monkeypatch):
    class Model(function):
        def __init__(self):
            super().__init__()
            self.dense = keras.layers.Dense(2)
            self.dense.build((None, 3))
            self.built = True

        def call(self, inputs):
            return self.dense(inputs)

    model = Model()
    model.set_weights([rng.normal(size=w.shape) for w in model.get_weights()])
    model.compile("adam", "mse", metrics=["mae"])
    x, y = rng.normal(size=(9, 3)), rng.normal(size=(9, 2))
    history = model.fit(x, y, batch_size=4, epochs=2, shuffle=False, verbose=0).history
    return [*history.values(), *model.evaluate(x, y, verbose=0), *model.get_weights()]


@case(feed)
def batches_of_an_epoch(function, rng, monkeypatch):
    monkeypatch.setattr(fast_batches, "BATCHES_PER_BLOCK", 2)
    cut = kt.data.windows(np.arange(61, dtype=np.int32), 4, 3)
    batches = WindowBatches(cut)
    fed = function(kt.zoo.skip_gram(3, 2), batches)["x"]
    return [fed[i] for i in range(len(fed))] if fed is batches else list(fed)


@case(kt.models.language_model.compile_function)
def computed(function, rng, monkeypatch):
    layer = keras.layers.Dense(3)
    layer.build((None, 4))
    layer.set_weights([rng.normal(size=w.shape) for w in layer.get_weights()])
    compiled = function(layer, lambda x: {"y": layer(x)})
    return [compiled(normal(rng, rows, 4)) for rows in (2, 3)]


@case(backend.devices.accelerators)
def without_gpus(function, rng, monkeypatch):
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda *_: [])
    return [len(function())]


@case(backend.replicas.ReplicaSeedGenerator)
def seeds(function, rng, monkeypatch):
    generator = function(5)
    return [generator.next(), generator.next(), generator.next(ordered=False), generator.state]


@case(backend.replicas.replicas_of)
@case(backend.replicas.is_chief)
@case(backend.replicas.scope_of)
def of_a_model(function, rng, monkeypatch):
    found = function(kt.zoo.skip_gram(3, 2))
    return 0 if hasattr(found, "__enter__") else found


@case(backend.replicas.replicas_in_step)
def in_a_step(function, rng, monkeypatch):
    return function()


@case(backend.replicas.sum_over_workers)
@case(backend.replicas.part_of)
def numbers_of_one_replica(function, rng, monkeypatch):
    model = kt.zoo.skip_gram(3, 2)
    return function(model, [3.0, 4.0]) if function.__name__ == "sum_over_workers" else function(model, 8)


@case(backend.replicas.sum_over_replicas)
def sums(function, rng, monkeypatch):
    return function([normal(rng, 2), normal(rng, 3)])


@case(carried_state.checked_rows)
def rows_known_before(function, rng, monkeypatch):
    ids = rng.integers(0, 9, (3, 4))
    with pytest.raises(ValueError, match=r"needs batches of 2 rows: .* Received: a batch of 3 rows"):
        function(ids, 2)
    return [function(ids, 3)]


@case(backend.replicas.rows_of_all)
def rows_read(function, rng, monkeypatch):
    model = kt.zoo.recurrent_language_model(5, 3)
    model.carry_state(2)
    variable = model.carried.variables[0]
    variable.assign(rng.normal(size=(2, 3)))
    return function(model, variable)


@case(backend.replicas.set_rows_of_all)
def rows_written(function, rng, monkeypatch):
    model = kt.zoo.recurrent_language_model(5, 3)
    model.carry_state(2)
    variable = model.carried.variables[0]
    function(model, [(variable, rng.normal(size=(2, 3)).astype("float32"))])
    return variable


@pytest.mark.parametrize("name", backend.replacements())
def test_every_replaced_function_has_a_case(name):
    assert name in CASES


@pytest.mark.parametrize(("name", "variant"), [(name, variant) for name in CASES for variant in CASES[name]])
def test_fast_path_equals_its_portable_function(name, variant, monkeypatch):
    check, arguments = CASES[name][variant]
    found = []
    for function in backend.replacements()[name]:
        with monkeypatch.context() as patches:
            keras.utils.set_random_seed(3)
            found.append(check(function, np.random.default_rng(3), patches, **arguments))
    for portable, fast in zip(*map(keras.tree.flatten, found), strict=True):
        np.testing.assert_allclose(fast, portable, atol=3e-5, rtol=1e-4)


def definitions(path):
    return [node for node in ast.parse(path.read_text()).body if isinstance(node, (ast.FunctionDef, ast.ClassDef))]


def test_every_fast_path_is_found():
    """`dispatch` would silently miss a version whose module is only partly imported."""
    expected = set()
    for path in LIBRARY.rglob("*.py"):
        version = LIBRARY / "backend" / backend.NAME / path.name
        if version == path or not version.exists():
            continue
        portable = {node.name for node in definitions(path) if "dispatch" in map(ast.unparse, node.decorator_list)}
        module = ".".join(("keras_tying", *path.relative_to(LIBRARY).with_suffix("").parts))
        expected |= {f"{module}.{node.name}" for node in definitions(version) if node.name in portable}
    assert set(backend.replacements()) == expected


def test_one_module_reads_the_name_of_the_backend():
    asking = [path for path in LIBRARY.rglob("*.py") if "backend.backend(" in path.read_text()]
    assert asking == [LIBRARY / "backend" / "__init__.py"]
