"""Trains skip-gram word vectors, untied or tied, or resumes a run.

python train/word2vec.py                                            embedded corpus, a minute
python train/word2vec.py --recipe word2vec_tied                     input and output embeddings in one matrix
python train/word2vec.py --corpus text8                             or ptb; --data-dir DIR instead of a download
python train/word2vec.py --train-file A B --tokenization letters    your own UTF-8 text, of any length
python train/word2vec.py --prepared DIR                             text of any size, see train/prepare.py
python train/word2vec.py --set model.units=300 data.window=10       other settings than the recipe's
python train/word2vec.py --resume runs/NAME
"""

from collections.abc import Sequence

from keras_tying.commands.train import train_command
from keras_tying.tasks import SkipGramTask


def main(arguments: Sequence[str]) -> int:
    return train_command(SkipGramTask, __doc__, arguments)
