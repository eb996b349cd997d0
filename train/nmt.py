"""Trains a translator, or translates: `python train/nmt.py --help`. The same as `keras-tying nmt`."""

import sys

from keras_tying_cli import run_script

if __name__ == "__main__":
    sys.exit(run_script("keras_tying.commands.nmt"))
