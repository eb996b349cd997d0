"""On JAX, several steps of one call give the results of single steps and are compiled once."""

import pytest

PROGRAM = """
import json, logging, sys
sys.modules["tensorflow"] = None  # Keras imports it with a seed, for seconds
import jax
import keras
import numpy as np
import keras_tying as kt
from keras_tying.losses import linear_cross_entropy

jax.config.update("jax_log_compiles", True)
compiled = []

class Compilations(logging.Handler):
    def emit(self, record):
        message = record.getMessage()
        if message.startswith("Compiling "):
            compiled.append(message)

for name in ("jax._src.interpreters.pxla", "jax._src.dispatch"):
    logging.getLogger(name).addHandler(Compilations())
    logging.getLogger(name).propagate = False

def compilations(of):
    return sum(message.startswith(f"Compiling jit({of})") for message in compiled)

words = np.random.default_rng(0).integers(0, 30, (29, 4))

def trained(steps, rows=29):
    # Seven batches and one of a single row; in 5 steps per call a full group, and a short one with another shape.
    keras.utils.set_random_seed(0)
    dropout = kt.zoo.VariationalDropout(0.2, 0.3, 0.3, 0.3)
    model = kt.zoo.recurrent_language_model(30, 4, num_layers=1, tied=True, dropout=dropout)
    optimizer = kt.optimizers.ClippedSGD(0.5, average_momentum=0.9)
    model.compile(optimizer, steps_per_execution=steps)
    x = words[:rows]
    history = model.fit(x, np.roll(x, 1, 1), batch_size=4, epochs=2, shuffle=False, verbose=0).history
    state = [*model.variables, *optimizer.variables]
    return model, [*history.values(), *(np.asarray(each.value).ravel().tolist() for each in state)]

_, expected = trained(1)
model, received = trained(5)
found = {"single": expected, "together": received, "ragged": compilations("steps")}
compiled.clear()
model, _ = trained(5, rows=28)  # a full group, and a short one
model.fit(words[:16], words[:16], batch_size=4, verbose=0)
model.fit(words[:24], words[:24], batch_size=4, verbose=0)
found["steps"], found["single steps"] = compilations("steps"), compilations("train_step")

compiled.clear()
hidden = jax.numpy.ones((40, 4))
matrix, targets = jax.numpy.ones((30, 4)), jax.numpy.zeros(40, "int32")

@jax.jit
def gradients(hidden, matrix, targets):
    return jax.grad(lambda *both: linear_cross_entropy(*both[:1], targets, both[1]).sum(), (0, 1))(hidden, matrix)

def call(tokens, soft_cap=None):
    # As a user does without `jit`: each function of the library is compiled for its shapes.
    def loss(hidden, matrix):
        return linear_cross_entropy(hidden, targets[:tokens], matrix, soft_cap=soft_cap).sum()
    jax.block_until_ready(jax.grad(loss, (0, 1))(hidden[:tokens], matrix))

counts = []
for tokens, soft_cap in ((40, None), (40, None), (24, None), (40, None), (24, None), (24, 3.0), (24, 3.0)):
    call(tokens, soft_cap)
    counts.append(compilations("_gradients"))
found["cross-entropy"] = counts
found["cross-entropy, everything again"] = (compiled.clear(), call(24), call(40), [*compiled])[-1]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found(printed_on):
    return printed_on("jax", PROGRAM)


def test_several_steps_per_call_end_with_the_losses_weights_and_seeds_of_single_steps(found):
    assert found["together"] == found["single"]


def test_groups_of_any_length_are_compiled_once(found):
    assert found["steps"] == 1
    assert found["single steps"] == 0
    assert found["ragged"] == 2  # the last batch has another shape


def test_the_cross_entropy_is_compiled_once_for_each_shape_and_setting(found):
    assert found["cross-entropy"] == [1, 1, 2, 2, 2, 3, 3]
    assert found["cross-entropy, everything again"] == []
