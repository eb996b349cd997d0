"""Tokenizes a text of any size once: `python train/prepare.py --help`. The same as `keras-tying prepare`."""

import sys

from keras_tying_cli import run_script

if __name__ == "__main__":
    sys.exit(run_script("keras_tying.commands.prepare"))
