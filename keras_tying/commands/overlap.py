"""`keras-tying nmt --overlap`: subwords that two languages share."""

from keras_tying.tasks import TranslationTask
from keras_tying.training.runs import environment
from keras_tying.zoo.recipes import write_results


def overlap(task: TranslationTask, record: bool) -> int:
    """Prints how many subwords of the training text occur in one language only and in both.

    Reference:
        Press and Wolf, Using the Output Embedding to Improve Language Models, table 1.
    """
    data = task.recipe.data
    task.vocabularies = task.learn_vocabularies()
    counts = task.training_pairs().overlap()
    source, target = data.source_language.upper(), data.target_language.upper()
    print(f"Subwords only in {source}  {counts['only_source']:>8,}")
    print(f"Subwords only in {target}  {counts['only_target']:>8,}")
    print(f"Subwords in both     {counts['both']:>8,}")
    if record:
        results = {
            "corpus": data.corpus,
            "source": data.source_language,
            "target": data.target_language,
            "subwords": len(task.subwords),
            **counts,
            **environment(),
            "command": task.settings.command,
        }
        print(write_results(f"overlap_{data.corpus}_{source}_{target}".lower(), results))
    return 0
