import keras
import pytest

from keras_tying.layers import TiedDense, TiedEmbedding
from keras_tying.models import BackboneModel, JointLanguageModel, LanguageModel, Translator

V, H = 13, 4


class Doubling(TiedEmbedding):
    def call(self, inputs, reverse=False):
        return 2 * super().call(inputs, reverse=reverse)


class DoublingLast(TiedEmbedding):
    def finish(self, logits):
        return 2 * super().finish(logits)


class OtherOutput(TiedEmbedding):
    @property
    def output_embeddings(self):
        return 2 * super().output_embeddings


@pytest.mark.parametrize(
    ("embedding", "message"),
    [
        (Doubling(V, H), "that scores words as they do"),
        (DoublingLast(V, H), "that scores words as they do"),
        (OtherOutput(V, H), "that scores words as they do"),
        (TiedEmbedding(V, H, activity_regularizer="l2"), "no activity_regularizer"),
    ],
)
def test_an_embedding_whose_scores_the_loss_cannot_know_is_refused(embedding, message):
    units, backbone = keras.layers.Dense(H), keras.Sequential([keras.Input((H,)), keras.layers.Dense(H)])
    for make in (
        lambda: LanguageModel(embedding, [units]),
        lambda: JointLanguageModel(embedding, [units]),
        lambda: Translator(embedding, units=H),
        lambda: BackboneModel(backbone, TiedDense(embedding)),
    ):
        with pytest.raises(ValueError, match=message):
            make()
