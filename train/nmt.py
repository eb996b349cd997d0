"""Trains a translator, or translates: `python train/nmt.py --help`. The same as `keras-tying nmt`."""

import sys

from keras_tying.commands.train import train_command
from keras_tying.tasks import TranslationTask

if __name__ == "__main__":
    sys.exit(train_command(TranslationTask, sys.argv[1:]))
