"""Trains skip-gram word vectors: `python train/word2vec.py --help`. The same as `keras-tying word2vec`."""

import sys

from keras_tying.commands.train import train_command
from keras_tying.tasks import SkipGramTask

if __name__ == "__main__":
    sys.exit(train_command(SkipGramTask, sys.argv[1:]))
