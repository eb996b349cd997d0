"""Run by test_other_backends.py in a fresh process: one_process.py COMMAND ...

Each COMMAND is the arguments of keras-tying as JSON. A number before them is the visit to the callbacks at which the
process gets SIGTERM. The last line of the output has the exit codes. TensorFlow cannot be imported.
"""

import io
import json
import signal
import sys


def run(arguments):
    from keras_tying.commands import main
    from keras_tying.training.callbacks import StopOnNaN

    visits = arguments.pop(0) if isinstance(arguments[0], int) else 0
    original = StopOnNaN.on_train_batch_end

    def visited(self, batch, logs=None):
        nonlocal visits
        visits -= 1
        if visits == 0:
            signal.raise_signal(signal.SIGTERM)
        original(self, batch, logs)

    StopOnNaN.on_train_batch_end = visited
    sys.stdin = io.TextIOWrapper(io.BytesIO(b"3 days\nJanuary\n"))  # to be translated
    try:
        return main(arguments)
    finally:
        StopOnNaN.on_train_batch_end = original


if __name__ == "__main__":
    sys.modules["tensorflow"] = None  # type: ignore[assignment]
    codes = [run(json.loads(command)) for command in sys.argv[1:]]
    print(json.dumps(codes))
