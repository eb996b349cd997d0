"""Trains skip-gram word vectors: `python train/word2vec.py --help`. The same as `keras-tying word2vec`."""

import sys

from keras_tying.commands import main

if __name__ == "__main__":
    sys.exit(main(["word2vec", *sys.argv[1:]]))
