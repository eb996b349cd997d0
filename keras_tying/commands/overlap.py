"""`keras-tying nmt --overlap`: subwords that two languages share."""

import argparse

from keras_tying.commands.new_settings import new_settings
from keras_tying.tasks import TranslationTask
from keras_tying.training.environments import environment
from keras_tying.zoo.records import write_results


def overlap(arguments: argparse.Namespace) -> int:
    """Prints how many subwords of the training text occur in one language only and in both.

    Reference:
        Press and Wolf, Using the Output Embedding to Improve Language Models, table 1.
    """
    files = TranslationTask.given_files(arguments)
    task = TranslationTask(new_settings(TranslationTask, arguments, arguments.recipe[0], files))
    data = task.recipe.data
    task.vocabularies = task.learn_vocabularies()
    counts = task.training_pairs().overlap()
    # A recipe does not know the languages of other files.
    source, target = ("source", "target") if task.settings.files else (data.source_language, data.target_language)
    print(f"Subwords only in {source:<6}  {counts['only_source']:>8,}")
    print(f"Subwords only in {target:<6}  {counts['only_target']:>8,}")
    print(f"Subwords in both         {counts['both']:>8,}")
    if arguments.record:
        results = {
            "corpus": data.corpus,
            "source": source,
            "target": target,
            "subwords": len(task.subwords),
            **counts,
            **environment(),
            "command": task.settings.command,
        }
        print(write_results(f"overlap_{data.corpus}_{source}_{target}", results))
    return 0
