"""Layers, losses, models, zoo and data without TensorFlow."""

import importlib.util
import json

import numpy as np
import pytest

WITHOUT_TENSORFLOW = """
import json, sys, tempfile
sys.modules["tensorflow"] = None  # importing it fails
import keras, numpy as np
import keras_tying as kt
from keras_tying import tasks, training
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
print(json.dumps([float(number) for number in numbers]))
"""


# A small learning rate: at the recipes' rate, rounding grows to a percent within an epoch.


def figures(run_python, backend):
    code = WITHOUT_TENSORFLOW
    if backend == "tensorflow":
        code = code.replace('sys.modules["tensorflow"] = None', "")
    output = run_python("-c", code, KERAS_BACKEND=backend).stdout
    return np.array(json.loads(output.splitlines()[-1]))


@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_training_without_tensorflow_equals_training_with_it(run_python, backend):
    if importlib.util.find_spec(backend) is None:
        pytest.skip(f"{backend} is not installed")
    np.testing.assert_allclose(figures(run_python, backend), figures(run_python, "tensorflow"), rtol=1e-4)
