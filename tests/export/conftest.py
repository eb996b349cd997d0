import numpy as np
import pytest

import keras_tying as kt
from keras_tying import export


@pytest.fixture(scope="session")
def exports(tmp_path_factory, vocabulary):
    """A folder with an export of a small model of each kind, with weights so large that their answers differ."""
    folder = tmp_path_factory.mktemp("exports")
    words = [kt.data.Vocabulary([*names, "<unk>", "<eos>"]) for names in ("abc", "xyz")]
    named = kt.data.Vocabulary(["king", "queen", "tulip", "rose", "<unk>", "<eos>"])
    texts = ["a rose is a rose", "eine Rose ist eine Rose", "two dogs", "zwei Hunde"]
    subwords = kt.data.Subwords.learn(texts * 20, 45)
    language_model = kt.zoo.recurrent_language_model(len(vocabulary), units=16)
    translator = kt.zoo.dl4mt_small(len(subwords), len(subwords), "three_way", embedding_size=6, units=8)
    joint = kt.zoo.nnjm(len(words[0]), len(words[1]), embedding_size=4)
    skip_gram = kt.zoo.skip_gram(len(named), units=8)
    rng = np.random.default_rng(0)
    for model in (language_model, translator, joint, skip_gram):
        model.set_weights([rng.normal(size=weight.shape) for weight in model.get_weights()])
    export.export_language_model(language_model, vocabulary, folder / "language_model")
    export.export_translator(translator, subwords, folder / "translator")
    export.export_joint_language_model(joint, *words, folder / "joint_language_model")
    export.export_skip_gram(skip_gram, named, folder / "word_vectors")
    return folder
