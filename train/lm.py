"""Trains a language model: `python train/lm.py --help`. The same as `keras-tying lm`."""

import sys

from keras_tying_cli import run_script

if __name__ == "__main__":
    sys.exit(run_script("keras_tying.commands.lm"))
