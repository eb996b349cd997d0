"""Trains skip-gram word vectors: `python train/word2vec.py --help`. The same as `keras-tying word2vec`."""

import sys

from keras_tying_cli import run_script

if __name__ == "__main__":
    sys.exit(run_script("keras_tying.commands.word2vec"))
