import copy

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_tying.layers import TiedDense, TiedEmbedding
from tests.layers.saved_models import saved_and_loaded

V, H = 20, 4


def words():
    return keras.Input((None,), dtype="int32")


def hidden_of(embedding, inputs):
    return keras.layers.LSTM(H, return_sequences=True)(embedding(inputs))


def sequential(embedding):
    return keras.Sequential(
        [words(), embedding, keras.layers.LSTM(H, return_sequences=True), TiedDense(embedding, activation="softmax")]
    )


def functional(embedding):
    inputs = words()
    return keras.Model(inputs, TiedDense(embedding)(hidden_of(embedding, inputs)))


def three_way(embedding, output=None):
    source, target = words(), words()
    state = keras.layers.LSTM(H)(embedding(source))
    hidden = keras.layers.LSTM(H, return_sequences=True)(embedding(target), initial_state=[state, state])
    return keras.Model([source, target], output(hidden) if output else embedding(hidden, reverse=True))


def nested(embedding):
    inputs, inner = words(), words()
    encoder = keras.Model(inner, embedding(inner))
    return keras.Model(inputs, TiedDense(embedding)(keras.layers.Dense(H)(encoder(inputs))))


def inside_nested(embedding):
    inputs = words()
    return keras.Model(inputs, sequential(embedding)(inputs))


def beside(embedding):
    """The output does not depend on the lookup."""
    inputs, features = words(), keras.Input((None, H))
    return keras.Model([features, inputs], [TiedDense(embedding)(features), embedding(inputs)])


def outside_nested(embedding):
    inputs = words()
    head = keras.Sequential([keras.Input((None, H)), keras.layers.Dense(H), TiedDense(embedding)])
    return keras.Model(inputs, head(embedding(inputs)))


def two_nested(embedding, output=None):
    """One nested model embeds, the other scores."""
    inputs, inner, features = words(), words(), keras.Input((None, H))
    encoder = keras.Model(inner, hidden_of(embedding, inner))
    decoder = keras.Model(features, output(features) if output else embedding(features, reverse=True))
    return keras.Model(inputs, decoder(encoder(inputs)))


MODELS = {
    "sequential": sequential,
    "functional": functional,
    "three-way": three_way,
    "three-way, TiedDense": lambda embedding: three_way(embedding, TiedDense(embedding)),
    "embedding in a nested model": nested,
    "nested": inside_nested,
}


def renamed(layer):
    config = layer.get_config()
    return type(layer).from_config({**config, "name": config["name"] + "_copy"})


def on_new_inputs(model):
    inputs = [words() for _ in model.inputs]
    return keras.models.clone_model(model, input_tensors=inputs if len(inputs) > 1 else inputs[0])


COPIES = {
    "clone": lambda model, _: keras.models.clone_model(model),
    "clone on new inputs": lambda model, _: on_new_inputs(model),
    "clone, nested models too": lambda model, _: keras.models.clone_model(model, recursive=True),
    "clone with other names": lambda model, _: keras.models.clone_model(model, clone_function=renamed),
    "configuration": lambda model, _: type(model).from_config(model.get_config()),
    "JSON": lambda model, _: keras.models.model_from_json(model.to_json()),
    "file": saved_and_loaded,
    "deepcopy": lambda model, _: copy.deepcopy(model),
}


def batch_for(model, rng):
    arrays = [
        rng.integers(1, V, (2, 3), np.int32) if each.dtype == "int32" else rng.normal(size=(2, 3, H)).astype("float32")
        for each in model.inputs
    ]
    return arrays if len(arrays) > 1 else arrays[0]


def gradients_of(model, batch):
    with tf.GradientTape() as tape:
        loss = sum(tf.reduce_sum(tf.square(output)) for output in keras.tree.flatten(model(batch)))
    return tape.gradient(loss, [variable.value for variable in model.trainable_variables])


def assert_same_model(received, model, batch):
    """Same variables and outputs."""
    assert received.count_params() == model.count_params()
    assert len(received.trainable_variables) == len(model.trainable_variables)
    received.set_weights(model.get_weights())
    for outputs in zip(*(keras.tree.flatten(each(batch)) for each in (received, model)), strict=True):
        np.testing.assert_array_equal(*outputs)


@pytest.mark.parametrize("name", MODELS)
def test_every_copy_of_a_model_shares_the_matrix(name, rng, tmp_path):
    model = MODELS[name](TiedEmbedding(V, H, embeddings_initializer="normal"))
    batch = batch_for(model, rng)
    for copied in COPIES.values():
        assert_same_model(copied(model, tmp_path), model, batch)


@pytest.mark.parametrize("name", ["sequential", "three-way, TiedDense"])
def test_the_gradient_of_a_clone_is_the_sum_of_all_roles(name, rng):
    model = MODELS[name](TiedEmbedding(V, H))
    again, batch = keras.models.clone_model(model), batch_for(model, rng)
    again.set_weights(model.get_weights())
    for gradients in zip(gradients_of(again, batch), gradients_of(model, batch), strict=True):
        np.testing.assert_allclose(*map(tf.convert_to_tensor, gradients), rtol=1e-5, atol=1e-6)


def test_a_copy_has_weights_of_its_own_that_files_of_weights_fill(rng, tmp_path):
    model = functional(TiedEmbedding(V, H))
    model.save_weights(tmp_path / "model.weights.h5")
    again = keras.models.clone_model(model)
    again.load_weights(tmp_path / "model.weights.h5")
    np.testing.assert_array_equal(again(batch := batch_for(model, rng)), model(batch))
    again.set_weights([weights + 1 for weights in model.get_weights()])
    assert not np.allclose(again(batch), model(batch))


def test_a_clone_exports_one_matrix(rng, tmp_path):
    model = keras.models.clone_model(functional(TiedEmbedding(V, H)))
    model.export(tmp_path, verbose=False)
    exported = tf.saved_model.load(tmp_path)
    np.testing.assert_allclose(exported.serve(batch := batch_for(model, rng)), model(batch), atol=1e-6)
    assert sum(variable.shape == (V, H) for variable in exported.variables) == 1


@pytest.mark.parametrize(
    "make", [beside, outside_nested, lambda embedding: two_nested(embedding, TiedDense(embedding))]
)
def test_a_copy_that_cannot_share_raises_unless_it_is_loaded(make, rng, tmp_path):
    model = make(TiedEmbedding(V, H, name="words"))
    for name in ("clone", "configuration", "JSON"):
        with pytest.raises(ValueError, match=r"copy\.deepcopy.*Expected: one embedding 'words'\. Received: \[\]"):
            COPIES[name](model, tmp_path)
    for name in ("file", "deepcopy"):
        assert_same_model(COPIES[name](model, tmp_path), model, batch_for(model, rng))


def test_two_nested_models_share_the_matrix_in_a_recursive_clone(rng):
    model = two_nested(TiedEmbedding(V, H))
    assert_same_model(keras.models.clone_model(model, recursive=True), model, batch_for(model, rng))


def test_a_clone_does_not_choose_between_embeddings_of_one_name():
    """Two nested models can have layers of one name."""
    one, other = (TiedEmbedding(9, 4, name="words") for _ in range(2))
    words = keras.Input((None,), dtype="int32")
    nested = [keras.Model(words, each(words), name=name)(words) for name, each in (("one", one), ("other", other))]
    model = keras.Model(words, TiedDense(other)(keras.layers.Add()(nested)))
    with pytest.raises(ValueError, match=r"one embedding 'words'. Received: \['words', 'words'\]"):
        keras.models.clone_model(model)


def test_two_embeddings_are_told_apart(rng):
    first, second = (TiedEmbedding(V, H, use_bias=False, embeddings_initializer="normal") for _ in range(2))
    inputs = words()
    model = keras.Model(inputs, TiedDense(first)(keras.layers.Add()([first(inputs), second(inputs)])))
    assert_same_model(keras.models.clone_model(model), model, batch_for(model, rng))
    with pytest.raises(ValueError, match="_copy"):
        keras.models.clone_model(model, clone_function=renamed)


def test_a_copy_within_another_layer_says_what_to_do():
    words = keras.Input((3, 2), dtype="int32")
    embedding = TiedEmbedding(9, 4)
    model = keras.Model(words, keras.layers.TimeDistributed(TiedDense(embedding))(embedding(words)))
    with pytest.raises(ValueError, match=r"needs the embedding that it shares.*copy\.deepcopy"):
        keras.models.clone_model(model)


def test_a_layer_from_its_configuration_alone_is_not_called():
    layer = TiedDense.from_config(TiedDense(TiedEmbedding(V, H)).get_config())
    for states in (np.zeros((2, H), "float32"), keras.KerasTensor((2, H))):
        with pytest.raises(ValueError, match="needs the embedding that it shares"):
            layer(states)


def test_output_has_the_dtype_of_the_layer_or_of_the_reverse_role():
    states = np.zeros((2, H), "float32")
    embedding = TiedEmbedding(V, H, dtype="mixed_bfloat16")
    for layer, expected in (
        (TiedDense(embedding, dtype="mixed_bfloat16"), "bfloat16"),
        (TiedDense(embedding, activation="softmax", dtype="float32"), "float32"),
        (TiedDense(TiedEmbedding(V, H, dtype="mixed_bfloat16", reverse_dtype="float32")), "float32"),
    ):
        received = (layer(states), layer(keras.KerasTensor((2, H))))
        assert [keras.backend.standardize_dtype(each.dtype) for each in received] == [expected] * 2


def test_scores_keep_the_mask():
    embedding = TiedEmbedding(V, H, mask_zero=True)
    model = keras.Sequential([words(), embedding, keras.layers.LSTM(H, return_sequences=True), TiedDense(embedding)])
    targets, inputs = np.array([[1, 2, 3]]), np.array([[4, 5, 0]])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    assert model.evaluate(inputs, targets, verbose=0) == pytest.approx(
        model.evaluate(inputs[:, :2], targets[:, :2], verbose=0), rel=1e-5
    )


def test_raises_for_another_width():
    with pytest.raises(ValueError, match=rf"size {H}\. Received: input_shape=\(2, 9\)"):
        TiedDense(TiedEmbedding(V, H))(np.zeros((2, 9), "float32"))


def test_is_given_a_reversible_embedding():
    with pytest.raises(ValueError, match="must be a TiedEmbedding"):
        TiedDense(keras.layers.Embedding(V, H))


@pytest.mark.parametrize("width", [None, 7])
def test_a_width_that_is_unknown_or_not_that_of_the_embedding_is_refused(width):
    with pytest.raises(ValueError, match=rf"the embedding's size 6. Received: input_shape=\(None, None, {width}\)"):
        TiedDense(TiedEmbedding(11, 6))(keras.Input((None, width)))
