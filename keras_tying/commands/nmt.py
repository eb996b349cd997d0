"""Trains a translator, resumes a run, evaluates one, or translates.

python train/nmt.py                                                     phrases from CLDR, minutes
python train/nmt.py --recipe multi30k_en_de_three_way --data-dir DIR    Multi30k
python train/nmt.py --source A.en --target A.de --valid V.en V.de --test T.en T.de     your own UTF-8 text
python train/nmt.py --prepared DIR --valid V.en V.de --test T.en T.de   text of any size, see train/prepare.py
python train/nmt.py --resume runs/NAME
python train/nmt.py --evaluate runs/NAME                                BLEU and chrF by sacrebleu, perplexity
python train/nmt.py --translate runs/NAME < in > out                    one sentence per line
python train/nmt.py --translate runs/NAME --attention plot.png < in     also plots the attention of the first sentence
python train/nmt.py --overlap [--recipe NAME --data-dir DIR]            subwords that the languages share

Text has one sentence per line and may be gzipped; --source and --target take several files.
"""

import sys
from argparse import Namespace
from collections.abc import Callable, Sequence

from keras_tying.commands.train import open_run, train_command
from keras_tying.tasks import TranslationTask
from keras_tying.tasks.translation import print_overlap, translate_stream
from keras_tying.training.runs import Run


def main(arguments: Sequence[str]) -> int:
    modes = {
        "translate": ("RUN: translate the lines of standard input", _translate),
        "overlap": ("print how many subwords the languages share", _overlap),
    }
    return train_command(TranslationTask, __doc__, arguments, modes)


def _translate(arguments: Namespace, new_task: Callable[[], TranslationTask]) -> int:
    task, run = open_run(TranslationTask, Run.open(arguments.translate))
    translate_stream(task.subwords, run.load_model(), sys.stdin.buffer, arguments.beam, arguments.attention)
    return 0


def _overlap(arguments: Namespace, new_task: Callable[[], TranslationTask]) -> int:
    print_overlap(new_task(), arguments.record)
    return 0
