"""Layers, losses, models, zoo and data without TensorFlow."""

import contextlib
import io
import json

import numpy as np
import pytest

WITHOUT_TENSORFLOW = """
import json, sys, tempfile
sys.modules["tensorflow"] = None  # importing it fails
import keras, numpy as np
import keras_tying as kt
from keras_tying import tasks, training
from keras_tying.inference.language_model import mc_perplexity
from keras_tying.zoo import recipes

def settings(recipe):
    return training.RunSettings(recipe_name="test", seed=1, command="", recipe=recipe)

keras.utils.set_random_seed(1)
corpus = kt.data.load_corpus("embedded")
vocabulary = kt.data.Vocabulary.from_tokens(corpus.tokens("train"), 200)
ids = vocabulary.encode(corpus.tokens("train"))[:2000]
model = kt.zoo.ptb_small(vocabulary_size=len(vocabulary), projection=True)
rng = np.random.default_rng(0)
model.set_weights([rng.uniform(-0.1, 0.1, w.shape) for w in model.get_weights()])
optimisation = recipes.WindowOptimisation(batch_size=5, sequence_length=10, learning_rate=0.05, epochs=2,
                                          full_rate_epochs=1)
task = tasks.LanguageModelTask(settings(recipes.LanguageModelRecipe(
    model=recipes.Model(name="ptb_small"), optimisation=optimisation)))
task.vocabularies = {"vocabulary.txt": vocabulary}
task.ids = {"train": ids, "valid": ids[:500]}
with tempfile.TemporaryDirectory() as folder:
    progress = training.fit(task, model, training.Run(folder))
    model.save(folder + "/model.keras")
    again = keras.saving.load_model(folder + "/model.keras")
assert np.array_equal(again.score(ids[None, :9], ids[None, 1:10]), model.score(ids[None, :9], ids[None, 1:10]))
assert again.generate([[0]], 5, seed=1).shape == (1, 5)
history = [*progress.history]

starts = np.arange(0, 2001, 10)
samples = kt.data.JointSamples.join([(ids, starts, ids, starts, np.arange(2000))], 0, 0)
model = kt.zoo.nnjm_global(200, 200, window=3, sections=2, sentence_length=12, global_units=8, tied=True)
model.set_weights([rng.uniform(-0.1, 0.1, w.shape) for w in model.get_weights()])
task = tasks.JointLanguageModelTask(settings(recipes.JointLanguageModelRecipe(
    model=recipes.Model(name="nnjm_global"), optimisation=recipes.SampleOptimisation(epochs=2))))
task.vocabularies = {"source_vocabulary.txt": vocabulary, "vocabulary.txt": vocabulary}
task.samples = {"train": samples, "valid": samples}
with tempfile.TemporaryDirectory() as folder:
    progress = training.fit(task, model, training.Run(folder))
history += progress.history
numbers = [logs[name] for logs in history for name in ("perplexity", "val_perplexity")]

model = kt.zoo.dl4mt_small(50, 50, "three_way", embedding_size=8, units=8, dropout=0.0)
model.set_weights([rng.uniform(-0.3, 0.3, w.shape) for w in model.get_weights()])
model.compile(kt.optimizers.ClippedSGD(0.1), kt.losses.SequenceCrossEntropy(reduction="mean_with_sample_weight"))
inputs = {"source": ids[:400].reshape(40, 10) % 50, "target": ids[400:600].reshape(40, 5) % 50}
fitted = model.fit(inputs, ids[401:601].reshape(40, 5) % 50, batch_size=20, epochs=2, shuffle=False, verbose=0)
found = model.translate(inputs["source"][:3], 1, beam_size=2, maximum_length=4)
numbers += [*fitted.history["loss"], *found.scores[:, 0]]

from keras_tying.losses import fused_cross_entropy as fused

class Scorer(keras.Model):
    # It scores words from its inputs; its scalar loss depends differently on each token.

    def __init__(self):
        super().__init__()
        self.embedding = kt.layers.TiedEmbedding(13, 4)
        self.embedding.build()
        self.built = True

    def call(self, inputs):
        return inputs + 0 * self.embedding.bias[:4]

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        settings = {"soft_cap": 3.0, "temperature": 0.7, "label_smoothing": 0.1}
        losses = kt.losses.linear_cross_entropy(y_pred, y, self.embedding.embeddings, self.embedding.bias, **settings)
        return keras.ops.mean(losses) + keras.ops.sum(losses**2)

fused.LOGITS_PER_CHUNK = 26  # two tokens a chunk
scorer = Scorer()
scorer.embedding.set_weights([rng.normal(size=weight.shape) for weight in scorer.embedding.get_weights()])
scorer.compile(keras.optimizers.SGD(0.01))
batch = rng.normal(size=(3, 5, 4)).astype("float32"), rng.integers(0, 13, (3, 5))
numbers += [scorer.train_on_batch(*batch, return_dict=True)["loss"] for _ in range(2)]
model = kt.zoo.recurrent_language_model(13, 4, num_layers=1, tied=True)
model.set_weights([rng.uniform(-0.5, 0.5, w.shape) for w in model.get_weights()])
model.compile(keras.optimizers.SGD(0.1), kt.losses.AugmentedLoss(tau=2.0, target_gradient=True))
numbers += [model.train_on_batch(batch[1], batch[1], return_dict=True)["loss"] for _ in range(2)]
fused.LOGITS_PER_CHUNK = 2**25

embedding = kt.layers.TiedEmbedding(20, 8, mask_zero=True)
small = keras.Sequential([keras.Input((None,), dtype="int32"), embedding, kt.layers.TiedDense(embedding)])
assert keras.models.clone_model(small).count_params() == small.count_params() == 180
model = kt.models.LanguageModel(kt.layers.TiedEmbedding(20, 8, mask_zero=True), [keras.layers.Dense(8)])
model.set_weights([rng.uniform(-0.3, 0.3, w.shape) for w in model.get_weights()])
model.quantize("int8")
model.embedding.enable_lora(2)
model.embedding.lora_embeddings_a.assign(rng.normal(size=(20, 2)))
model.embedding.lora_embeddings_b.assign(rng.normal(size=(2, 8)))
model.compile(keras.optimizers.SGD(0.1))
padded = np.array([[3, 4, 0], [5, 0, 0]])
numbers += [model.train_on_batch(padded, padded, return_dict=True)["loss"] for _ in range(2)]

model = kt.models.LanguageModel(kt.layers.TiedEmbedding(20, 8, mask_zero=True), [
    kt.layers.LSTM(8, return_sequences=True, return_state=True), keras.layers.Dense(8), keras.layers.Dense(8)])
model.set_weights([rng.uniform(-0.3, 0.3, w.shape) for w in model.get_weights()])
left_padded, following = np.array([[0, 0, 3, 4]]), np.array([[0, 3, 4, 5]])
scores = [model.score(left_padded, following)]
before, (_, first, second) = model.get_weights(), model.hidden_layers
for frozen, trained in ((first, second), (second, first)):
    frozen.trainable, trained.trainable = False, True
    scores.append(model.score(left_padded, following))
assert all(np.array_equal(*pair) for pair in zip(before, model.get_weights()))
assert all(np.array_equal(scores[0], each) for each in scores)
losses = model(left_padded, targets=following).token_losses
np.testing.assert_allclose(scores[0], -keras.ops.convert_to_numpy(losses), rtol=1e-5)

model = kt.zoo.skip_gram(11, 6, tied=True)
for weight in model.trainable_weights:
    weight.assign(rng.normal(size=weight.shape))
batch = {
    "centres": rng.integers(0, 11, (6, 4), np.int32), "contexts": rng.integers(0, 11, (6, 8), np.int32),
    "pairs": rng.random((6, 4, 8)) < 0.3, "negatives": rng.integers(0, 11, (6, 7), np.int32),
}
model.compile(keras.optimizers.SGD(0.02))
for _ in range(3):
    model.train_on_batch(batch)
weights = [keras.ops.convert_to_numpy(weight).tolist() for weight in model.weights]

model = kt.zoo.recurrent_language_model(11, 8, num_layers=1)
model.set_weights([rng.uniform(-0.3, 0.3, w.shape) for w in model.get_weights()])
model.compile(keras.optimizers.Adam(0.01))
for each in (model, model.with_rows([3, 1, 3, *range(8)]), model.untied_copy().tied_copy("mean")):
    numbers += each.fit(padded + 1, padded + 2, epochs=2, verbose=0).history["loss"]

translator = kt.zoo.dl4mt_small(11, 11, "three_way", embedding_size=8, units=4, dropout=0.0)
pairs = {"source": padded, "target": padded + 1}
joint = kt.zoo.nnjm(11, 11, embedding_size=8, hidden_units=(8,), window=3)
context = {"history": padded, "window": padded + 1}
for model, inputs, targets, changes in (
    (translator, pairs, padded + 2, [
        lambda model: model.untied_copy(), lambda model: model.tied_copy("mean", tying="three_way"),
        lambda model: model.untied_copy(tying="decoder").resized(13, source_vocabulary_size=12)]),
    (joint, context, padded[:, 0], [lambda model: model.tied_copy("output"), lambda model: model.resized(13)]),
    (kt.zoo.skip_gram(11, 6, tied=True), batch, None, [
        lambda model: model.untied_copy(), lambda model: model.with_rows([*range(11), 3])]),
):
    model.set_weights([rng.uniform(-0.3, 0.3, w.shape) for w in model.get_weights()])
    # Adam of Keras on TensorFlow squares the gradients of a repeated word of keras.layers.Embedding one by one.
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9) if model is joint else keras.optimizers.Adam(0.01))
    for change in (lambda model: model, *changes):
        model = change(model)
        numbers.append(model.train_on_batch(inputs, targets, return_dict=True)["loss"])
model.embedding.enable_lora(2)
model.embedding.lora_embeddings_a.assign(rng.normal(size=(12, 2)))
model.embedding.lora_embeddings_b.assign(rng.normal(size=(2, 6)))
numbers.append(model.without_lora().train_on_batch(batch, None, return_dict=True)["loss"])

model = kt.zoo.recurrent_language_model(10, 4, num_layers=1)
model.set_weights([rng.uniform(-0.5, 0.5, w.shape) for w in model.get_weights()])
dynamic = kt.inference.DynamicEvaluation(model, ids % 10, segment=10)
dynamic.learning_rate = 1e-3
numbers.append(dynamic.perplexity(ids[:50] % 10))

assert model.generate([[1]], 3, seed=2**32 + 5).shape == (1, 3)
assert model.generate(np.zeros((0, 3), int), 2).shape == (0, 2)

dropout = kt.zoo.VariationalDropout(0.2, 0.3, 0.3, 0.3)
model = kt.zoo.recurrent_language_model(11, 8, dropout=dropout, initializer_range=0.5)
passes = [mc_perplexity(model, ids[:60] % 11, passes=1) for _ in range(2)]

lm, joint, lines = kt.load("embedded_small_tied"), kt.load("nnjm_tied"), list(corpus.lines("test"))[:30]
numbers += [lm.perplexity(lines), *(score.perplexity for score in lm.score(lines))]
found = [*lm.next_words("the value", 3), *joint.next_words("\u4e2d\u56fd \u7684", "0-0", "china", 3),
         *kt.load("word2vec").similar_words("king", 3)]
numbers += [number for _, number in found]
texts = [*(word for word, _ in found), lm.generate("the value", 4, temperature=0),
         *kt.load("embedded_en_de").translate(["Dutch, Danish, or Swedish"], beam=2)]
print(json.dumps({"numbers": [float(number) for number in numbers], "weights": weights, "passes": passes,
                  "texts": texts}))
"""


# A small learning rate: at the recipes' rate, rounding grows to a percent within an epoch.


@pytest.fixture(scope="module")
def expected():
    """What TensorFlow, here, comes to."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(WITHOUT_TENSORFLOW.replace('sys.modules["tensorflow"] = None', ""), {})
    return json.loads(printed.getvalue().splitlines()[-1])


@pytest.fixture(scope="module", params=["jax", "torch"])
def received(request, printed_on):
    return printed_on(request.param, WITHOUT_TENSORFLOW)


def test_training_without_tensorflow_equals_training_with_it(received, expected):
    np.testing.assert_allclose(received["numbers"], expected["numbers"], rtol=1e-4)


def test_skip_gram_trains_to_the_same_weights(received, expected):
    for one, other in zip(expected["weights"], received["weights"], strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-5)


def test_trained_models_give_the_same_texts(received, expected):
    assert received["texts"] == expected["texts"]
    assert expected["texts"][-1] == "Niederländisch, Dänisch oder Schwedisch"


def test_passes_with_dropout_differ_on_every_backend(received):
    first, second = received["passes"]
    assert first != second
