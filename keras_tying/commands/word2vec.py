"""`keras-tying word2vec`: trains skip-gram word vectors."""

from keras_tying.commands.text import check_text, text_options
from keras_tying.commands.training import training_command

DESCRIPTION = """Trains skip-gram word vectors, untied or tied, or resumes a run.

{command}                                               embedded corpus, a minute
{command} --recipe word2vec_tied                        input and output embeddings in one matrix
{command} --corpus text8                                or ptb; --data-dir DIR instead of a download
{command} --train-file A B                              your own UTF-8 text, of any length
{command} --prepared DIR                                text of any size, see train/prepare.py
{command} --set model.units=300 data.window=10          other settings than the recipe's
{command} --resume runs/NAME                            after Ctrl-C
{command} --evaluate runs/NAME                          words and those nearest to them
"""

COMMAND = training_command(
    "SkipGramTask",
    "train skip-gram word vectors",
    DESCRIPTION,
    ("word2vec",),
    text_options(("train",)),
    check=check_text,
)
