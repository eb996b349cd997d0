"""`train/embeddings.py`: measures what embeddings have learned."""

import argparse

from keras_tying.commands.keras_setup import import_keras
from keras_tying.commands.options import Command, Option, file_option, model_name, name, whole

DESCRIPTION = """Measures what embeddings have learned.

{command} runs/word2vec runs/word2vec_tied          trained runs of one text
{command} runs/ptb_small_untied runs/ptb_small_tied --data-dir DIR
{command} word2vec word2vec_tied                    trained models of the zoo
{command} vectors.bin                               a file in word2vec's format
"""
QUERIES = ["company", "man", "money", "said", "good", "city"]


def work(arguments: argparse.Namespace) -> int:
    import_keras()
    from studies.embeddings import measure
    from studies.results import recorded_command

    return measure(arguments, recorded_command("train/embeddings.py", arguments.given, "runs"))


COMMAND = Command(
    "measure what embeddings have learned",
    DESCRIPTION,
    (
        Option(
            "runs",
            "trained model of the zoo, folder of a run, or word2vec file",
            positional=True,
            settings={"nargs": "+", "type": model_name, "metavar": "RUN"},
        ),
        file_option("set", "own similarity sets: two words and a score per line", "+", excludes=("data-dir",)),
        Option("words", "words whose neighbours are shown", default=QUERIES, settings={"nargs": "+"}),
        Option(
            "most-frequent", "number of words whose pairs are correlated (default: all)", settings={"type": whole(3)}
        ),
        file_option(
            "output",
            "folder of the files (default: embeddings in the first RUN)",
            metavar="FOLDER",
            excludes=("record",),
        ),
        Option(
            "record",
            "write the results into the zoo, as a study of its page",
            settings={"type": name, "metavar": "NAME"},
        ),
        file_option("data-dir", "folder with the similarity sets, instead of a download", metavar="DIR"),
    ),
    work,
)
