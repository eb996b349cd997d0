"""All builders of the zoo, which this module registers by name."""

from keras_tying.zoo.joint_language_models import nnjm, nnjm_global, nnlm
from keras_tying.zoo.language_models import (
    ptb_large,
    ptb_medium,
    ptb_small,
    rhn,
    vd_lstm_large,
    vd_lstm_medium,
    vd_lstm_small,
)
from keras_tying.zoo.recurrent_language_models import recurrent_language_model
from keras_tying.zoo.registry import create_model, list_models
from keras_tying.zoo.regularized_lstms import awd_lstm, mogrifier_lstm, single_layer_lstm
from keras_tying.zoo.skip_grams import skip_gram
from keras_tying.zoo.translators import dl4mt, dl4mt_small
from keras_tying.zoo.variational_dropout import VariationalDropout

__all__ = [
    "VariationalDropout",
    "awd_lstm",
    "create_model",
    "dl4mt",
    "dl4mt_small",
    "list_models",
    "mogrifier_lstm",
    "nnjm",
    "nnjm_global",
    "nnlm",
    "ptb_large",
    "ptb_medium",
    "ptb_small",
    "recurrent_language_model",
    "rhn",
    "single_layer_lstm",
    "skip_gram",
    "vd_lstm_large",
    "vd_lstm_medium",
    "vd_lstm_small",
]
