"""Export of models as SavedModels with text inputs and outputs. Needs TensorFlow."""

from keras_tying.export.joint_language_model import export_joint_language_model
from keras_tying.export.language_model import export_language_model
from keras_tying.export.skip_gram import export_skip_gram
from keras_tying.export.trained import export_trained
from keras_tying.export.translator import export_translator

__all__ = [
    "export_joint_language_model",
    "export_language_model",
    "export_skip_gram",
    "export_trained",
    "export_translator",
]
