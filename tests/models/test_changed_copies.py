"""Copies of language models with other words, tied, untied and without LoRA, and the optimizers that come along."""

import functools

import keras
import numpy as np
import pytest

import keras_tying as kt
from tests.models.copies import H, V, logits, train

OPTIMIZERS = {
    "Adam": lambda: keras.optimizers.Adam(0.01),
    "AMSGrad": lambda: keras.optimizers.Adam(0.01, amsgrad=True),
    "momentum": lambda: keras.optimizers.SGD(0.1, momentum=0.9),
    "loss scale": lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.01)),
    "averages": lambda: kt.optimizers.ClippedAdam(0.01, average_momentum=0.9),
    "averaged gradients": lambda: keras.optimizers.RMSprop(0.01, centered=True),
    "Ftrl": lambda: keras.optimizers.Ftrl(0.01),
}


def trained(text, optimizer="Adam", tied=True, lora=None, run_eagerly=True):
    """A model after a pass over the text. Eager steps need no tracing."""
    keras.utils.set_random_seed(0)
    model = kt.zoo.recurrent_language_model(V, H, tied=tied, num_layers=1, initializer_range=0.5)
    if lora:
        model.embedding.enable_lora(lora)
    model.compile(OPTIMIZERS[optimizer](), run_eagerly=run_eagerly)
    train(model, text)
    return model


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("tied", [True, False])
def test_a_copy_of_all_rows_trains_on_as_the_model(text, optimizer, tied):
    model = trained(text, optimizer, tied, run_eagerly=optimizer != "Adam")
    copy = model.with_rows(range(V))
    state = [keras.ops.convert_to_numpy(each) for each in model.optimizer.variables]
    for before, after in zip(state, copy.optimizer.variables, strict=True):
        np.testing.assert_array_equal(after, before)
    assert train(copy, text) == train(model, text)
    for ours, its in zip(copy.weights, model.weights, strict=True):
        np.testing.assert_array_equal(ours, its)


@pytest.mark.parametrize("optimizer", ["Adam", "averages"])
@pytest.mark.parametrize("tied", [True, False])
def test_moments_and_averages_follow_their_words(text, optimizer, tied):
    model = trained(text, optimizer, tied)
    embedding, rows = model.embedding, [5, 1, 3, 5]
    places = {each.path: i for i, each in enumerate(model.trainable_variables)}
    copy = model.with_rows(rows)
    for old, new in zip(embedding.trainable_variables, copy.embedding.trainable_variables, strict=True):
        names = ["_momentums", "_velocities", *(["averages"] if optimizer == "averages" else [])]
        for name in names:
            before, after = (np.array(getattr(each.optimizer, name)[places[old.path]]) for each in (model, copy))
            words = 1 if old.name == "reverse_embeddings" else 0
            expected = np.take(before, rows, words)
            np.moveaxis(expected, words, 0)[3] *= name == "averages"  # the second copy of word 5 is a new word
            if old.name == "bias" and name == "averages":
                expected[[0, 3]] -= np.log(2)
            np.testing.assert_allclose(after, expected, rtol=1e-6)
            assert new.shape == after.shape
    assert int(copy.optimizer.iterations) == int(model.optimizer.iterations) == 2


@pytest.mark.parametrize("tied", [True, False])
def test_a_larger_model_has_the_mean_of_all_words(text, tied):
    model = trained(text, tied=tied)
    larger = model.resized(V + 3)
    assert larger.vocabulary_size == V + 3
    # products of other sizes may be summed in another order
    np.testing.assert_allclose(logits(larger, text)[..., :V], logits(model, text), atol=1e-6)
    for role, matrix in model.embedding_matrices().items():
        mean = np.array(matrix).mean(0)
        np.testing.assert_allclose(np.array(larger.embedding_matrices()[role])[V:], [mean] * 3, rtol=1e-5)
    assert not np.any(np.array(larger.optimizer._momentums[0])[V:])
    assert np.isfinite(train(larger, text))
    smaller = larger.resized(V)
    assert smaller.vocabulary_size == V


def test_a_smaller_model_has_the_first_words(text):
    model = trained(text)
    np.testing.assert_array_equal(model.resized(V - 5)(text[0] % 9), model(text[0] % 9)[..., : V - 5])


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_an_untied_copy_computes_the_same_and_has_the_moments_in_both_matrices(text, optimizer):
    model = trained(text, optimizer)
    copy = model.untied_copy()
    assert not copy.tied
    np.testing.assert_array_equal(logits(copy, text), logits(model, text))
    assert len(copy.trainable_variables) == len(model.trainable_variables) + 1
    again = copy.tied_copy("mean")
    np.testing.assert_array_equal(logits(again, text), logits(model, text))
    for before, after in zip(model.optimizer.variables, again.optimizer.variables, strict=True):
        np.testing.assert_allclose(after, before, rtol=1e-6)
    assert train(copy, text) == pytest.approx(train(model, text), rel=0.05)


def test_a_model_whose_output_embedding_has_its_own_initializer_can_be_tied():
    model = kt.zoo.recurrent_language_model(V, H, tied=False, kernel_initializer="glorot_uniform")
    tied = model.tied_copy("input")
    assert tied.tied
    assert tied.embedding.get_config()["reverse_embeddings_initializer"] is None


@pytest.mark.parametrize("values", [np.array, keras.ops.convert_to_tensor, list], ids=["array", "tensor", "list"])
def test_initializers_that_are_arrays_of_the_old_size(text, values):
    matrix, bias = np.random.default_rng(0).normal(size=(V, H)).astype("float32"), np.arange(V, dtype="float32")
    given = {"embeddings_initializer": matrix, "bias_initializer": bias}
    given = {name: keras.initializers.Constant(values(array)) for name, array in given.items()}
    arguments = {"return_sequences": True, "return_state": True, "bias_initializer": keras.initializers.Constant(0.5)}
    model = kt.models.LanguageModel(kt.layers.TiedEmbedding(V, H, **given), [kt.layers.LSTM(H, **arguments)])
    for copy, rows in [(model.resized(V + 3), slice(V)), (model.with_rows(range(9)), slice(9))]:
        np.testing.assert_array_equal(np.array(copy.embedding.embeddings)[rows], matrix[: copy.vocabulary_size])
        np.testing.assert_array_equal(np.array(copy.embedding.bias)[rows], bias[: copy.vocabulary_size])
        assert copy.hidden_layers[0].get_config()["bias_initializer"]["config"] == {"value": 0.5}
    untied = model.untied_copy()
    np.testing.assert_array_equal(np.array(untied.embedding.reverse_embeddings), matrix.T)
    np.testing.assert_array_equal(logits(untied, text), logits(model, text))


@pytest.mark.parametrize("matrix", ["input", "output", "mean"])
def test_a_tied_copy_has_the_matrix_that_was_asked_for(text, matrix):
    model = trained(text, tied=False)
    old = {role: np.array(each) for role, each in model.embedding_matrices().items()}
    copy = model.tied_copy(matrix)
    expected = {**old, "mean": (old["input"] + old["output"]) / 2}[matrix]
    np.testing.assert_array_equal(copy.embedding_matrices()["tied"], expected)
    assert np.isfinite(train(copy, text))


@pytest.mark.parametrize("tied", [True, False])
def test_merged_lora_computes_the_same(text, tied):
    model = trained(text, tied=tied, lora=2)
    assert np.any(np.array(model.embedding.lora_embeddings_b))
    merged = model.without_lora()
    assert merged.tied == tied
    assert not merged.embedding.lora_enabled
    np.testing.assert_allclose(logits(merged, text), logits(model, text), atol=1e-5)
    assert merged.embedding.embeddings.trainable
    assert np.isfinite(train(merged, text))


def test_lora_follows_its_words(text):
    model = trained(text, lora=2)
    np.testing.assert_allclose(model.resized(9)(text[0] % 9), model(text[0] % 9)[..., :9], atol=1e-6)


@pytest.mark.parametrize("optimizer", ["averaged gradients", "Ftrl"])
def test_what_an_optimizer_starts_with_is_that_of_new_and_of_merged_weights(text, optimizer):
    for copy in (trained(text, optimizer).resized(V + 5), trained(text, optimizer, lora=2).without_lora()):
        train(copy, text)
        assert all(np.isfinite(weight).all() for weight in copy.get_weights())


def test_a_model_that_is_not_compiled_gives_one_that_is_not():
    model = kt.zoo.recurrent_language_model(V, H)
    assert not model.untied_copy().compiled


def test_policies_and_frozen_layers_stay(text):
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        model = kt.zoo.recurrent_language_model(V, H)
    finally:
        keras.config.set_dtype_policy("float32")
    model.hidden_layers[0].trainable = False
    copy = model.untied_copy()
    assert copy.dtype_policy.name == copy.embedding.dtype_policy.name == "mixed_bfloat16"
    assert not copy.hidden_layers[0].trainable


WRONG = {
    "tied twice": (lambda: kt.zoo.recurrent_language_model(V, H).tied_copy("input"), "must be untied"),
    "untied twice": (lambda: kt.zoo.recurrent_language_model(V, H, tied=False).untied_copy(), "must be tied"),
    "no such matrix": (
        lambda: kt.zoo.recurrent_language_model(V, H, tied=False).tied_copy("both"),
        r"one of \['input', 'output', 'mean'\]. Received: matrix='both'",
    ),
    "no words": (lambda: kt.zoo.recurrent_language_model(V, H).resized(0), "`vocabulary_size` must be at least 1"),
    "no LoRA": (lambda: kt.zoo.recurrent_language_model(V, H).without_lora(), "must have LoRA"),
}


@pytest.mark.parametrize(("call", "message"), WRONG.values(), ids=WRONG)
def test_wrong_calls_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_lora_must_be_merged_before_a_model_is_untied():
    model = kt.zoo.recurrent_language_model(V, H)
    model.embedding.enable_lora(2)
    with pytest.raises(ValueError, match=r"Call without_lora\(\) first"):
        model.untied_copy()


def test_layers_of_one_name_keep_their_own_weights(text):
    def layer():
        return kt.layers.LSTM(H, return_sequences=True, return_state=True, name="recurrent")

    model = kt.models.LanguageModel(kt.layers.TiedEmbedding(V, H), [layer(), layer()])
    np.testing.assert_array_equal(logits(model.untied_copy(), text), logits(model, text))


def test_a_copy_of_a_model_whose_layers_another_model_built(text):
    layers = trained(text).hidden_layers
    model = kt.models.LanguageModel(kt.layers.TiedEmbedding(V, H), layers)
    np.testing.assert_array_equal(logits(model.with_rows(range(V)), text), logits(model, text))


@pytest.mark.parametrize("change", ["copy", "file", "untied"])
def test_layers_that_a_model_makes_itself_stay_frozen(change, tmp_path):
    model = kt.zoo.dl4mt_small(V, V, "three_way", embedding_size=H, units=H)
    model.forwards.trainable = model.decoder.trainable = False
    matrices = {"copy": 1, "file": 1, "untied": 3}[change]
    if change == "file":
        model.save(tmp_path / "model.keras")
        other = keras.saving.load_model(tmp_path / "model.keras")
    else:
        other = model.resized(V + 2) if change == "copy" else model.untied_copy()
    assert not other.decoder.trainable_variables
    assert not other.forwards.trainable_variables
    assert other.backwards.trainable_variables
    assert len(other.trainable_variables) == len(model.trainable_variables) + matrices - 1


def test_averages_before_the_first_update_are_not_used(tmp_path):
    model = kt.zoo.recurrent_language_model(V, H, num_layers=1)
    model.compile(OPTIMIZERS["averages"]())
    model.save(tmp_path / "model.keras")  # Keras builds the optimizer of a model that it loads
    for other in (keras.saving.load_model(tmp_path / "model.keras"), model.untied_copy()):
        own = other.get_weights()
        kt.optimizers.use_averaged_weights(other)
        for before, after in zip(own, other.get_weights(), strict=True):
            np.testing.assert_array_equal(after, before)


def test_a_frozen_matrix_stays_frozen():
    model = kt.zoo.recurrent_language_model(20, 4, tied=False)
    model.embedding.reverse_embeddings.trainable = False
    copy = model.resized(25)
    assert [each.trainable for each in copy.embedding.weights] == [each.trainable for each in model.embedding.weights]


def test_a_weight_that_is_frozen_beside_lora_stays_frozen():
    model = kt.zoo.recurrent_language_model(V, H)
    model.embedding.enable_lora(2)
    model.embedding.bias.trainable = False
    resized, merged = model.resized(V + 1), model.without_lora()
    assert not resized.embedding.bias.trainable
    assert not merged.embedding.bias.trainable
    assert merged.embedding.embeddings.trainable


@pytest.mark.parametrize("scaled", [False, True])
def test_a_copy_decays_the_weights_that_its_model_decays(text, scaled):
    model = trained(text)
    optimizer = keras.optimizers.AdamW(0.1, weight_decay=0.5)
    optimizer.exclude_from_weight_decay(var_list=[model.embedding.embeddings], var_names=["bias"])
    model.compile(keras.optimizers.LossScaleOptimizer(optimizer) if scaled else optimizer, run_eagerly=True)
    copies = [model.with_rows(range(V))]  # before the optimizer has trained, and after
    train(model, text)
    train(copies[0], text)
    copies.append(model.with_rows(range(V)))
    for each in (model, copies[1]):
        train(each, text)
    train(copies[0], text)
    for copy in copies:
        for one, other in zip(model.get_weights(), copy.get_weights(), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_what_is_frozen_or_excluded_from_decay_stays_so_when_the_tying_changes():
    def decayed(copy):
        return {each.name for each in copy.trainable_variables if copy.optimizer._use_weight_decay(each)}

    tied, untied = (kt.zoo.recurrent_language_model(V, H, tied=tied, num_layers=1) for tied in (True, False))
    for model, excluded in ((tied, tied.embedding.embeddings), (untied, untied.embedding.reverse_embeddings)):
        model.compile(keras.optimizers.AdamW(0.1, weight_decay=0.5))
        model.optimizer.exclude_from_weight_decay(var_list=[excluded])
    assert {"embeddings", "reverse_embeddings"} & decayed(tied.untied_copy()) == set()
    assert "embeddings" not in decayed(untied.tied_copy("output"))
    assert "embeddings" in decayed(untied.tied_copy("input"))

    for model, frozen in ((tied, tied.embedding.embeddings), (untied, untied.embedding.reverse_embeddings)):
        frozen.trainable = False
        model.compile("sgd")
    copy = tied.untied_copy().embedding
    assert not copy.embeddings.trainable
    assert not copy.reverse_embeddings.trainable
    assert not untied.tied_copy("output").embedding.embeddings.trainable
    assert untied.tied_copy("input").embedding.embeddings.trainable


def mean_score(targets, scores):
    return keras.ops.mean(scores)


class MeanScore(keras.losses.Loss):
    def call(self, targets, scores):
        return keras.ops.mean(scores)


@pytest.mark.parametrize("loss", [mean_score, MeanScore()], ids=["function", "class"])
def test_a_copy_has_losses_and_metrics_that_are_not_registered(text, loss):
    model = trained(text)
    model.compile("sgd", loss, metrics=[mean_score], run_eagerly=True)
    copy = model.with_rows(range(V))
    values = [each.test_on_batch(text[0][:8], text[1][:8], return_dict=True) for each in (model, copy)]
    assert values[0] == pytest.approx(values[1], rel=1e-5)


def test_losses_of_one_name_that_are_not_registered_are_refused():
    def made(factor):
        def loss(targets, scores):
            return factor * keras.ops.mean(scores)

        return loss

    model = kt.zoo.recurrent_language_model(V, H)
    model.compile("sgd", made(1), metrics=[made(2)])
    with pytest.raises(ValueError, match=r"different names, or registered ones. Received: two named 'loss'"):
        model.resized(V + 1)


class OwnSGD(keras.optimizers.SGD):
    pass


def test_a_copy_has_an_optimizer_that_is_not_registered(text):
    model = trained(text)
    model.compile(OwnSGD(0.1), run_eagerly=True)
    assert type(model.resized(V + 1).optimizer) is OwnSGD


def test_a_copy_has_no_loss_scale_if_its_model_refused_one():
    model = kt.zoo.recurrent_language_model(V, H, dtype="mixed_float16")
    for scale in (False, True):
        model.compile(keras.optimizers.SGD(0.1), auto_scale_loss=scale)
        for copy in (model.resized(V + 1), model.untied_copy()):
            assert type(copy.optimizer) is type(model.optimizer)
    model.compile(keras.optimizers.SGD(0.1), auto_scale_loss=False)
    assert type(model.with_precision("float32").optimizer) is keras.optimizers.SGD


def test_lora_does_not_hide_that_a_file_has_another_matrix(tmp_path):
    def models(tied):
        words, hidden = keras.Input((None,), dtype="int32"), keras.layers.Dense(H)
        embedding = kt.layers.TiedEmbedding(V, H, tied, use_bias=False)
        functional = keras.Model(words, embedding(hidden(embedding(words)), reverse=True))
        own = kt.models.LanguageModel(kt.layers.TiedEmbedding(V, H, tied, use_bias=False), [keras.layers.Dense(H)])
        return (functional, embedding), (own, own.embedding)

    for (untied, _), (tied, embedding) in zip(models(False), models(True), strict=True):
        embedding.enable_lora(H)
        tied.save_weights(tmp_path / "tied.weights.h5")
        tied.load_weights(tmp_path / "tied.weights.h5")
        before = tied.get_weights()
        untied.save_weights(tmp_path / "untied.weights.h5")
        with pytest.raises(ValueError, match="tying"):
            tied.load_weights(tmp_path / "untied.weights.h5")
        np.testing.assert_array_equal(tied.get_weights()[0], before[0])


def test_weights_in_several_files_are_checked_too(tmp_path):
    make = functools.partial(kt.zoo.skip_gram, 2000, units=40)
    make(tied=False).save_weights(tmp_path / "model.weights.json", max_shard_size=0.0004)
    assert len([*tmp_path.glob("*.h5")]) > 1
    with pytest.raises(ValueError, match=r"must be of a model with the same sizes, tying"):
        make(tied=True).load_weights(tmp_path / "model.weights.json")
    ours = make(tied=False)
    ours.load_weights(tmp_path / "model.weights.json")


@pytest.mark.parametrize("quantized", [False, True])
def test_a_matrix_of_a_saved_model_is_not_left_out(tmp_path, quantized):
    def make(tied):
        model = kt.zoo.skip_gram(20, units=4, tied=tied)
        if quantized:
            model.quantize("int8")
        return model

    make(tied=False).save(tmp_path / "model.keras")
    make(tied=False).load_weights(tmp_path / "model.keras")
    with pytest.raises(ValueError, match=r"must be of a model with the same sizes, tying"):
        make(tied=True).load_weights(tmp_path / "model.keras")


def test_the_weights_of_an_untied_model_in_bfloat16_are_no_tied_ones(tmp_path):
    make = functools.partial(kt.zoo.skip_gram, 20, units=4, dtype="bfloat16")
    make(tied=False).save_weights(tmp_path / "model.weights.h5")
    with pytest.raises(ValueError, match=r"must be of a model with the same sizes, tying"):
        make(tied=True).load_weights(tmp_path / "model.weights.h5")
