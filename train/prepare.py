"""Tokenizes a text of any size once: `python train/prepare.py --help`. The same as `keras-tying prepare`."""

import sys

from keras_tying.commands import main

if __name__ == "__main__":
    sys.exit(main(["prepare", *sys.argv[1:]]))
