"""Tasks: everything that is particular to a kind of model and text."""

from keras_tying.tasks.joint_language_model import JointLanguageModelTask
from keras_tying.tasks.language_model import LanguageModelTask
from keras_tying.tasks.skip_gram import SkipGramTask
from keras_tying.tasks.translation import TranslationTask
from keras_tying.training.task import Task

TASKS: dict[str, type[Task]] = {
    task.name: task for task in (JointLanguageModelTask, LanguageModelTask, SkipGramTask, TranslationTask)
}
"""Tasks by their name in recipes."""

__all__ = ["TASKS", "JointLanguageModelTask", "LanguageModelTask", "SkipGramTask", "TranslationTask"]
