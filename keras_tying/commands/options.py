"""Options of commands, declared with the modes that take them. No option that is given is ignored.

Nothing here imports Keras, so `--help` and wrong arguments are answered at once.
"""

import argparse
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from keras_tying.zoo.presets import model_at

DEFAULT_MODE = ""
"""The mode of a command without an option that names another one."""


@dataclass(frozen=True)
class Option:
    """An option of a command.

    Attributes:
        name: Its name without dashes, or the name of a positional argument.
        help: What it does.
        modes: Modes of the command that take it; a mode is the name of the option that chooses it.
        default: Its value where it is not given.
        needs: Other options, all of which it needs.
        excludes: Options that cannot be given with it.
        group: Title of its group in the help.
        positional: Whether it is given by its place, without its name.
        settings: Further arguments of `ArgumentParser.add_argument`.
    """

    name: str
    help: str
    modes: tuple[str, ...] = (DEFAULT_MODE,)
    default: Any = None
    needs: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    group: str = "options"
    positional: bool = False
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def flag(self) -> str:
        """What the user types."""
        return self.settings.get("metavar", self.name) if self.positional else f"--{self.name}"

    @property
    def attribute(self) -> str:
        """Its name in the parsed arguments."""
        return self.name.replace("-", "_")


@dataclass(frozen=True)
class Command:
    """A command: its options and its work, whose modules are imported when it begins.

    Attributes:
        purpose: What it does, in a few words.
        description: The text of its help; `{command}` in it becomes the command as the user typed it.
        options: Its options.
        work: Does the work with the parsed arguments; returns the exit code.
        modes: Options that choose another mode than the default.
        check: Checks the arguments beyond what the options declare.
        to_continue: How it is continued after Ctrl-C; see `run_command`.
    """

    purpose: str
    description: str
    options: tuple[Option, ...]
    work: Callable[[argparse.Namespace], int]
    modes: tuple[str, ...] = ()
    check: Callable[[argparse.Namespace], None] = lambda arguments: None
    to_continue: str = "The same command continues."


@dataclass(frozen=True)
class Commands:
    """Several commands, of which the first argument names one."""

    purpose: str
    by_name: dict[str, "Command | Commands"]


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, and whose result has only what was given."""

    def __init__(self, prog: str, description: str):
        super().__init__(
            prog=prog,
            description=description.replace("{command}", prog),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            argument_default=argparse.SUPPRESS,
            allow_abbrev=False,
        )

    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message}. See {self.prog} --help")


def make_parser(command: Command, prog: str) -> Parser:
    """The parser of a command, which is called `prog` in its help."""
    parser = Parser(prog, command.description)
    groups = {each.title: each for each in parser._action_groups}
    for option in command.options:
        if option.group not in groups:
            groups[option.group] = parser.add_argument_group(option.group)
        settings = {"help": _help_of(option), **option.settings}
        if option.positional:
            groups["positional arguments"].add_argument(option.name, **settings)
        else:
            groups[option.group].add_argument(f"--{option.name}", dest=option.attribute, **settings)
    return parser


def _help_of(option: Option) -> str:
    default = option.default
    if default is None or default is False or default == []:
        return option.help
    words = default if isinstance(default, list | tuple) else [default]
    return f"{option.help} (default: {' '.join(map(str, words))})".replace("%", "%%")


def parse(command: Command, argv: Sequence[str], prog: str) -> argparse.Namespace:
    """The arguments of a command, checked.

    Returns:
        The value of each option. The attribute `given` is a dictionary of those that were given, in the order in
        which they are declared; `mode` is the mode that they choose.

    Raises:
        ValueError: If an argument is wrong, or an option would have no effect.
    """
    received = vars(make_parser(command, prog).parse_args(argv))
    given = {option.attribute: received[option.attribute] for option in command.options if option.attribute in received}
    mode = check_options(command, given)
    defaults = {option.attribute: option.default for option in command.options}
    arguments = argparse.Namespace(**{**defaults, **given}, given=given, mode=mode)
    command.check(arguments)
    return arguments


def check_options(command: Command, given: Iterable[str]) -> str:
    """Checks that every given option has an effect beside the others.

    Returns:
        The mode that the options choose.

    Raises:
        ValueError: If one has none, or lacks another.
    """
    given = set(given)
    flags = {option.name: option.flag for option in command.options}

    def shown(names: Iterable[str], between: str = ", ") -> str:
        return between.join(flags[name] for name in names)

    def is_given(name: str) -> bool:
        return name.replace("-", "_") in given

    modes = list(filter(is_given, command.modes)) or [DEFAULT_MODE]
    if len(modes) > 1:
        raise ValueError(f"Expected one of {shown(command.modes)}. Received: {shown(modes)}")
    options = [option for option in command.options if is_given(option.name) and option.name not in command.modes]
    others = [option for option in options if modes[0] not in option.modes]
    names = shown(option.name for option in others)
    if others and modes == [DEFAULT_MODE]:
        raise ValueError(f"{others[0].flag} needs {shown(others[0].modes, ' or ')}. Received without it: {names}")
    if others:
        raise ValueError(f"{flags[modes[0]]} does not take all of these options. Received also: {names}")
    for option in options:
        if clash := list(filter(is_given, option.excludes)):
            raise ValueError(f"{option.flag} and {shown(clash)} do not go together. Choose one of them")
        if missing := [name for name in option.needs if not is_given(name)]:
            raise ValueError(f"{option.flag} needs other options too. Missing: {shown(missing)}")
    return modes[0]


def whole(least: int, most: float = math.inf) -> Callable[[str], int]:
    """The type of a whole number in a range."""
    return _in_range(int, "a whole number", least, most)


def real(least: float, most: float = math.inf) -> Callable[[str], float]:
    """The type of a finite number in a range."""
    return _in_range(float, "a number", least, most)


def _in_range(kind: Callable[[str], Any], what: str, least: float, most: float) -> Callable[[str], Any]:
    limits = f"of at least {least}" if most == math.inf else f"from {least} to {most}"

    def number(text: str) -> Any:
        try:
            value = kind(text)
        except ValueError:
            value = math.nan
        if not (least <= value <= most and value < math.inf):
            raise argparse.ArgumentTypeError(f"expected {what} {limits}. Received: {text!r}")
        return value

    return number


def path(text: str) -> Path:
    """The type of a path."""
    if not text:  # as an unset variable of a shell gives
        raise argparse.ArgumentTypeError("expected a path. Received: ''")
    try:
        text.encode()
    except UnicodeEncodeError:  # the settings of a run could not name it
        raise argparse.ArgumentTypeError(
            f"expected a path in UTF-8. Received: {text!a}. Give the file or folder another name."
        ) from None
    return Path(text)


def model_name(text: str) -> str | Path:
    """The type of a trained model; see `model_at`."""
    path(text)
    try:
        return model_at(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def name(text: str) -> str:
    """The type of a name of files that are written into a fixed folder."""
    if Path(text).name != text:
        raise argparse.ArgumentTypeError(f"expected a name without folders. Received: {text!r}")
    return text


def file_option(name: str, help: str, count: str | int | None = None, metavar: Any = "FILE", **more) -> Option:
    """An option that takes paths: one, `count` of them, or all that are given (`"+"`), also at several places."""
    action = "extend" if count == "+" else "store"
    return Option(name, help, settings={"type": path, "metavar": metavar, "nargs": count, "action": action}, **more)
