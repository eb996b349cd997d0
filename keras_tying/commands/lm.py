"""Trains a language model, resumes a run, or evaluates one.

python train/lm.py                                                      embedded corpus, minutes
python train/lm.py --recipe ptb_small_tied_projection --data-dir DIR    a published configuration
python train/lm.py --train-file A --valid-file B --test-file C          your own UTF-8 text
python train/lm.py --prepared DIR                                       text of any size, see train/prepare.py
python train/lm.py --resume runs/NAME
python train/lm.py --evaluate runs/NAME                                 exact; --mc-passes 50 also with dropout
"""

from collections.abc import Sequence

from keras_tying.commands.train import train_command
from keras_tying.tasks import LanguageModelTask


def main(arguments: Sequence[str]) -> int:
    return train_command(LanguageModelTask, __doc__, arguments)
