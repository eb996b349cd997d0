"""Trains a language model: `python train/lm.py --help`. The same as `keras-tying lm`."""

import sys

from keras_tying.commands import main

if __name__ == "__main__":
    sys.exit(main(["lm", *sys.argv[1:]]))
