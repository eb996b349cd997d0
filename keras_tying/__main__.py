"""`python -m keras_tying`: see `keras_tying.commands`."""

import sys

from keras_tying.commands import main

sys.exit(main())
