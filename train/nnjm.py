"""Trains joint language models: `python train/nnjm.py --help`. The same as `keras-tying nnjm`."""

import sys

from keras_tying.commands.train import train_command
from keras_tying.tasks import JointLanguageModelTask

if __name__ == "__main__":
    sys.exit(train_command(JointLanguageModelTask, sys.argv[1:]))
