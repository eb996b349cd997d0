"""`python -m keras_tying`: see `keras_tying.commands`."""

import sys

from keras_tying.commands import main

if __name__ == "__main__":
    sys.exit(main(prog="python -m keras_tying"))
