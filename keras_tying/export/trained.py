"""Export of trained models with their text, of any kind."""

from pathlib import Path

from keras_tying.export.joint_language_model import ServedJointLanguageModel
from keras_tying.export.language_model import ServedLanguageModel
from keras_tying.export.saving import Served, check_backend, write_saved_model
from keras_tying.export.skip_gram import ServedWords
from keras_tying.export.text import TextInGraph
from keras_tying.export.translator import ServedTranslator
from keras_tying.inference import TrainedJointLanguageModel, TrainedLanguageModel, TrainedTranslator, TrainedWordVectors

Trained = TrainedLanguageModel | TrainedTranslator | TrainedJointLanguageModel | TrainedWordVectors


def export_trained(trained: Trained, path: str | Path) -> None:
    """Writes a trained model with its text as a SavedModel that does not need this library.

    Its signatures are those of the function for its kind: `export_language_model`, `export_translator`,
    `export_joint_language_model` or `export_skip_gram`. Translations are searched with the defaults of
    `export_translator`.

    Args:
        trained: What `kt.load` returns, or another object of `keras_tying.inference`.
        path: Folder of the SavedModel, for TensorFlow Serving `.../NAME/1`. An existing one is replaced.

    Raises:
        TypeError: If `trained` is not a trained model with its text.
        RuntimeError: If the backend of Keras is not TensorFlow.
        FileExistsError: If `path` holds something other than a SavedModel.

    Example:

    >>> import tempfile, tensorflow as tf, keras_tying as kt
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     kt.export.export_trained(kt.load("embedded_small_tied"), folder + "/lm/1")
    ...     sorted(tf.saved_model.load(folder + "/lm/1").signatures)
    ['generate', 'next_word', 'score', 'serving_default']
    """
    write_saved_model(served(trained), path)


def served(trained: Trained) -> Served:
    """The functions of the SavedModel of a trained model.

    Raises:
        TypeError: If it is not a trained model with its text.
        RuntimeError: If the backend of Keras is not TensorFlow.
    """
    check_backend()
    match trained:
        case TrainedLanguageModel():
            return ServedLanguageModel(trained.model, TextInGraph(trained.vocabulary, trained.tokenization))
        case TrainedJointLanguageModel():
            vocabularies = trained.source_vocabulary, trained.vocabulary
            source, target = (TextInGraph(vocabulary, trained.tokenization) for vocabulary in vocabularies)
            return ServedJointLanguageModel(trained.model, source, target)
        case TrainedTranslator():
            return ServedTranslator(trained.model, trained.subwords)
        case TrainedWordVectors():
            return ServedWords(trained.words, next(iter(trained.matrices.values())))
    raise TypeError(f"Expected a trained model with its text, as `kt.load` returns. Received: {trained!r}")
