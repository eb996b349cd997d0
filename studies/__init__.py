"""Studies of the zoo: experiments, the plots and metrics they record, and the pages made from recorded results."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # no log messages of TensorFlow below errors
