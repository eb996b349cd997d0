"""Tokenizes a text of any size once: `python train/prepare.py --help`. The same as `keras-tying prepare`."""

import os
import sys

os.environ["KERAS_BACKEND"] = "numpy"  # tokenizing needs no other, and TensorFlow takes 200 MiB per process

from keras_tying.commands import main

if __name__ == "__main__":
    sys.exit(main(["prepare", *sys.argv[1:]]))
