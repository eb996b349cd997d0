"""Studies of the zoo: what embeddings learn, how joint language models compare; figures, plots and their pages."""

from keras_tying.study.embeddings import Embedding, Update, read_embeddings, updates_by_frequency
from keras_tying.study.figures import measure_embeddings, table
from keras_tying.study.plots import draw

__all__ = [
    "Embedding",
    "Update",
    "draw",
    "measure_embeddings",
    "read_embeddings",
    "table",
    "updates_by_frequency",
]
