"""`keras-tying word2vec`: trains skip-gram word vectors."""

from keras_tying.commands.options import Option, whole
from keras_tying.commands.text import check_text, text_options
from keras_tying.commands.training_options import model_option, training_command

DESCRIPTION = """Trains skip-gram word vectors, untied or tied, resumes a run, or shows similar words.

{command}                                               embedded corpus, a minute
{command} --recipe word2vec_tied                        input and output embeddings in one matrix
{command} --corpus text8                                or ptb; --data-dir DIR instead of a download
{command} --train-file A B                              your own UTF-8 text, of any length
{command} --prepared DIR                                text of any size, see keras-tying prepare
{command} --set model.units=300 data.window=10          other settings than the recipe's
{command} --resume runs/NAME                            after Ctrl-C
{command} --evaluate runs/NAME                          words and those nearest to them
{command} --similar word2vec king queen                 words most similar to each word

MODEL is a trained model of the zoo (see keras-tying list) or the folder of a run.
"""

COMMAND = training_command(
    "SkipGramTask",
    "train skip-gram word vectors",
    DESCRIPTION,
    ("word2vec",),
    (
        *text_options(("train",)),
        Option("number", "with --similar: number of words", ("similar",), 8, settings={"type": whole(1)}),
    ),
    (model_option("similar", "show the words most similar to each of some words", "WORD"),),
    check=check_text,
)
