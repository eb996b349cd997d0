"""What the training commands share: modes, options, and how their work begins."""

import argparse
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, get_args

from keras_tying.commands.keras_setup import import_keras
from keras_tying.commands.options import DEFAULT_MODE, Command, Option, file_option, model_name, real, whole
from keras_tying.distribution.strategies import DEFAULT_WAIT_MINUTES, STRATEGIES, resolve_strategy
from keras_tying.zoo.recipes import Precision

TRAINED = (DEFAULT_MODE, "resume")
"""Modes in which a model is trained."""
LARGEST_SEED = 2**32 - 1
FLAG = {"action": "store_true"}


def training_command(
    task: str,
    purpose: str,
    description: str,
    default_recipes: tuple[str, ...],
    own: Iterable[Option],
    modes: Iterable[Option] = (),
    check: Callable[[argparse.Namespace], None] = lambda arguments: None,
) -> Command:
    """The command that trains one task.

    Args:
        task: Name of its class in `keras_tying.tasks`.
        purpose: What the command does, in a few words.
        description: The text of its help.
        default_recipes: What it trains without `--recipe`.
        own: Options of this task. Those that have the group `"options"` are put into the group of text and model.
        modes: Options that choose modes of this task.
        check: Checks its arguments beyond what the options declare.
    """
    modes = tuple(modes)
    new = (DEFAULT_MODE, *(mode.name for mode in modes if mode.settings == FLAG))
    using = ("evaluate", "export", *(mode.name for mode in modes if mode.name not in new))

    def work(arguments: argparse.Namespace) -> int:
        resolve_strategy(arguments.strategy, arguments.replicas, arguments.wait_minutes)
        import_keras()
        from keras_tying import tasks
        from keras_tying.commands.train import run_training

        return run_training(getattr(tasks, task), arguments)

    def check_all(arguments: argparse.Namespace) -> None:
        if len(set(arguments.recipe)) < len(arguments.recipe):
            raise ValueError(f"Each recipe is trained once. Received: --recipe {' '.join(arguments.recipe)}")
        if arguments.from_scratch and not (arguments.resume or arguments.restartable):
            raise ValueError("--from-scratch needs --resume or --restartable. Received: --from-scratch without them")
        if results := [each for each in arguments.set if each.startswith(("published.", "measured."))]:
            raise ValueError(f"--set changes what decides a training, not its results. Received: {' '.join(results)}")
        check(arguments)

    choices = (
        file_option("resume", "continue a run, or all runs in a folder", metavar="RUN"),
        model_option("evaluate", "measure a trained model, a run, or all runs in a folder"),
        file_option("export", "write the SavedModel of a trained run; needs the TensorFlow backend", metavar="RUN"),
        *modes,
    )
    command = Command(
        purpose,
        description,
        (
            *choices,
            Option(
                "recipe",
                "names of recipes, or TOML files",
                new,
                list(default_recipes),
                settings={"nargs": "+", "action": "extend", "metavar": "RECIPE"},
            ),
            *_run_options(new, using),
            *(replace(option, group="text and model") if option.group == "options" else option for option in own),
            *_DISTRIBUTION,
        ),
        work,
        tuple(choice.name for choice in choices),
        check_all,
        "Continue with: {command} --resume {run}{options}",
    )
    return command


def _run_options(new: tuple[str, ...], using: tuple[str, ...]) -> tuple[Option, ...]:
    """Options of a run, by the modes that train new models and those that use trained ones."""
    drawing = ("generate",) if "generate" in using else ()
    computing = () if "similar" in using else using  # word vectors are only looked up
    options = (
        file_option(
            "run", "folder of the run, or of the runs of several recipes (default: runs/RECIPE)", metavar="FOLDER"
        ),
        Option(
            "seed",
            "seed of weights, order and dropout"
            + ("; with --generate, of drawn words, which without it differ each time" if drawing else ""),
            (DEFAULT_MODE, *drawing),
            default=1,
            settings={"type": whole(0, LARGEST_SEED)},
        ),
        Option("epochs", "number of epochs, instead of the recipe's", TRAINED, settings={"type": whole(0)}),
        Option(
            "precision",
            "type of computation (default: float32, with a trained model that of its training)",
            (DEFAULT_MODE, *computing),
            settings={"choices": get_args(Precision)},
        ),
        Option(
            "set",
            "change values of the recipe, for example optimisation.learning_rate=0.5",
            new,
            default=[],
            settings={"nargs": "+", "action": "extend", "metavar": "KEY=VALUE"},
        ),
        Option("checkpoint-minutes", "time between checkpoints", TRAINED, 5.0, settings={"type": real(0)}),
        Option("restartable", "continue the run if its folder exists", default=False, settings=FLAG),
        Option(
            "from-scratch",
            "begin an existing run again if all of its checkpoints are lost; a run with checkpoints is refused",
            TRAINED,
            False,
            settings=FLAG,
        ),
        Option("record", "write the results into the zoo", (*TRAINED, *new[1:]), False, settings=FLAG),
    )
    return tuple(replace(option, group="run") for option in options)


_DISTRIBUTION = tuple(
    replace(option, group="distribution, see docs/distributed.md", modes=TRAINED)
    for option in (
        Option("strategy", "devices to train on", default="auto", settings={"choices": STRATEGIES}),
        Option(
            "replicas",
            "with --strategy mirrored: number of GPUs, or of parts of the CPU (default: all)",
            settings={"type": whole(1)},
        ),
        Option(
            "wait-minutes",
            f"with several workers: maximum wait for the others (default: {DEFAULT_WAIT_MINUTES:g})",
            settings={"type": real(0)},
        ),
    )
)


def data_dir_option(modes: tuple[str, ...] = (DEFAULT_MODE, "evaluate")) -> Option:
    return file_option("data-dir", "folder of the corpus, instead of a download", metavar="DIR", modes=modes)


def model_option(name: str, help: str, further: str | None = None, **more: Any) -> Option:
    """An option that names a trained model: one of the zoo, or the folder of a run.

    Args:
        name: Its name.
        help: What it does.
        further: What the same option takes after the model, as shown in the help. Default: nothing.
        **more: Further attributes of the option.
    """
    if further:
        return Option(name, help, settings={"nargs": "+", "metavar": ("MODEL", further)}, **more)
    return Option(name, help, settings={"type": model_name, "metavar": "MODEL"}, **more)


def check_not_set(arguments: argparse.Namespace, option: str, *keys: str) -> None:
    """Raises ValueError if `--set` has keys that have no effect beside an option that is given."""
    if option in arguments.given:
        ignored = [each for each in arguments.set if each.partition("=")[0].strip() in keys]
        if ignored:
            raise ValueError(f"--set {' '.join(ignored)} has no effect beside --{option}. Leave it out")
