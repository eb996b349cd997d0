"""Trains a translator, or translates: `python train/nmt.py --help`. The same as `keras-tying nmt`."""

import sys

from keras_tying.commands import main

if __name__ == "__main__":
    sys.exit(main(["nmt", *sys.argv[1:]]))
