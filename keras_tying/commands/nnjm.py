"""Trains NNLM, NNJM and NNJM-Global on aligned text, resumes runs, or evaluates them.

python train/nnjm.py --train F E [LINKS] --valid F E [LINKS] --test F E [LINKS]     all three
python train/nnjm.py --recipe nnjm --tied --set model.window=11 ...                 one of them, tied
python train/nnjm.py --resume runs
python train/nnjm.py --evaluate runs/nnjm

F and E are source and target text, one sentence per line, with spaces between the tokens (`--tokenization plain` for
running text), gzipped or not. LINKS holds `i-j` pairs, one line per sentence; without it the text is aligned by
eflomal (pip install keras-tying[align]).
"""

from collections.abc import Sequence

from keras_tying.commands.train import train_command
from keras_tying.tasks import JointLanguageModelTask


def main(arguments: Sequence[str]) -> int:
    return train_command(JointLanguageModelTask, __doc__, arguments)
