"""Trains a language model: `python train/lm.py --help`. The same as `keras-tying lm`."""

import sys

from keras_tying.commands.train import train_command
from keras_tying.tasks import LanguageModelTask

if __name__ == "__main__":
    sys.exit(train_command(LanguageModelTask, sys.argv[1:]))
