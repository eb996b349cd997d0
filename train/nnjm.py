"""Trains joint language models: `python train/nnjm.py --help`. The same as `keras-tying nnjm`."""

import sys

from keras_tying.commands import main

if __name__ == "__main__":
    sys.exit(main(["nnjm", *sys.argv[1:]]))
