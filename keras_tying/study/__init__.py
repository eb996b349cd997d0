"""The study of what embeddings learn: figures, plots and the page that shows them."""

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
