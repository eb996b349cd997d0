"""The options of all commands: none is ignored, wrong ones are named in one line, and none of it needs Keras."""

import json
import os
import re
import shlex
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from keras_tying.commands import COMMANDS, start
from keras_tying.commands.options import Command, make_parser, parse

REPOSITORY = Path(__file__).parents[2]
STUDIES = {name: f"studies.commands.{name}" for name in ("compare", "embeddings", "nnjm_grid", "subspace")}
PARSED = {
    f"{name} {part}".strip(): command
    for name, module in (COMMANDS | STUDIES).items()
    for part, command in getattr(import_module(module).COMMAND, "by_name", {"": import_module(module).COMMAND}).items()
}
"""Every command that takes options."""

NNJM = "nnjm --train a b --valid a b --test a b"
PAIRS = "nmt --source a --target b --valid a b --test a b"
TEXT = "lm --train-file a --valid-file b --test-file c"


@pytest.mark.parametrize(
    ("line", "named"),
    [
        *(
            (f"{command} --resume runs/x {option}", f"Received also: {option.split()[0]}")
            for command in ("lm", "nmt", "nnjm", "word2vec")
            for option in ("--seed 1", "--precision float32", "--set data.x=1", "--recipe x", "--run x")
        ),
        *((f"{command} --resume runs/x --tied", "Received also: --tied") for command in ("lm", "nnjm", "word2vec")),
        *(
            (f"{command} --evaluate runs/x {option}", f"Received also: {option.split()[0]}")
            for command in ("lm", "nmt", "nnjm", "word2vec")
            for option in (
                "--epochs 3",
                "--seed 2",
                "--strategy one",
                "--checkpoint-minutes 1",
                "--record",
                "--restartable",
            )
        ),
        (
            "lm --evaluate runs/x --resume runs/x",
            "Expected one of --resume, --evaluate, --export, --generate, --score. Received: --resume, --evaluate",
        ),
        ("lm --length 3", "--length needs --generate"),
        ("lm --score m --seed 3", "Received also: --seed"),
        ("lm --generate m --score m", "Received: --generate, --score"),
        ("lm --generate m a --top-p 1.5", "expected a number from 0 to 1. Received: '1.5'"),
        ("lm --generate m a --temperature nan", "expected a number of at least 0. Received: 'nan'"),
        (
            "lm --generate m a --temperature 0 --seed 3 --top-k 5",
            "--top-k, --top-p and --seed need one above 0. Received also: --top-k, --seed. Leave them out",
        ),
        ("lm --generate m a --temperature 0.0 --top-p 0.5", "Received also: --top-p. Leave them out"),
        ("lm --score ", "expected one argument"),
        ("lm --add-words", "--add-words needs other options too. Missing: --from"),
        ("lm --from m --recipe r", "--from and --recipe do not go together"),
        ("lm --from m --tied", "--from and --tied do not go together"),
        ("lm --from m --set data.minimum_count=3", "--set data.minimum_count=3 has no effect beside --from"),
        ("lm --from m --resume r", "Received also: --from"),
        ("word2vec --number 3", "--number needs --similar"),
        ("publish runs/x ../name", "expected a name without folders. Received: '../name'"),
        ("list --recipe r", "unrecognized arguments: --recipe"),
        ("lm --mc-passes 3", "--mc-passes needs --evaluate"),
        ("lm --resume runs/x --mc-passes 2", "Received also: --mc-passes"),
        ("lm --train-file a", "Missing: --valid-file, --test-file"),
        (f"{TEXT} --corpus ptb", "--corpus and --train-file, --valid-file, --test-file do not go together"),
        (f"{TEXT} --data-dir d", "--train-file and --data-dir do not go together"),
        (f"{TEXT} --prepared d", "--train-file and --prepared do not go together"),
        ("lm --prepared d --tokenization plain", "--tokenization and --prepared do not go together"),
        ("lm --prepared d --data-dir d", "--prepared and --data-dir do not go together"),
        ("lm --prepared d --set data.minimum_count=2", "--set data.minimum_count=2 has no effect beside --prepared"),
        ("word2vec --prepared d --set data.tokenization=plain", "has no effect beside --prepared"),
        ("lm --recipe a b a", "Each recipe is trained once. Received: --recipe a b a"),
        *(
            (f"{command} --set data.x=1 {key}=3", f"what decides a training, not its results. Received: {key}=3")
            for command in ("lm", "nmt", "word2vec", NNJM)
            for key in ("published.test_perplexity", "measured.seed")
        ),
        ("lm --replicas 2", "--replicas needs --strategy mirrored"),
        ("lm --strategy mirrored --wait-minutes 2", "--wait-minutes needs several workers"),
        ("nmt --beam 3", "--beam needs --evaluate or --translate"),
        ("nmt --attention a.png", "--attention needs --translate"),
        ("nmt --evaluate runs/x --attention a.png", "Received also: --attention"),
        ("nmt --translate m --attention a.xyz", "--attention takes a file that ends in one of"),
        ("nmt --translate m --attention a.pgf", "--attention takes a file that ends in one of"),
        ("nmt --translate m --attention .", "--attention takes the path of a file. Received: the folder ."),
        ("nmt --overlap --resume runs/x", "Received: --resume, --overlap"),
        ("nmt --overlap --seed 2", "Received also: --seed"),
        ("nmt --overlap --set model.units=3", "takes only values of [data]. Received: --set model.units=3"),
        ("nmt --valid a b --test a b", "without --source and --target, or --prepared"),
        ("nmt --valid a b", "Missing: --test"),
        ("nmt --source a --valid a b --test a b", "Missing: --target"),
        ("nmt --source a --target b", "Missing: --valid, --test"),
        (f"{PAIRS} --data-dir d", "and --data-dir do not go together"),
        (f"{PAIRS} --corpus multi30k", "--corpus and --source do not go together"),
        ("nmt --prepared d --subwords m", "--prepared and --subwords do not go together"),
        ("nmt --prepared d --set data.maximum_length=9", "data.maximum_length=9 has no effect beside --prepared"),
        ("nmt --subwords m --set data.vocabulary_size=9", "has no effect beside --subwords"),
        (f"{PAIRS} --set data.target_language=fr", "data.target_language=fr has no effect beside --valid"),
        (
            "nmt --prepared d --valid a b --test a b --set data.source_language=fr",
            "data.source_language=fr has no effect beside --valid",
        ),
        ("nmt --translate runs/x --record", "Received also: --record"),
        (f"{NNJM} --data-dir d", "unrecognized arguments: --data-dir d"),
        (f"{NNJM} --bootstrap r --source-vectors v", "--bootstrap and --source-vectors do not go together"),
        ("nnjm --train a b --valid a", "--valid needs two or three files"),
        ("prepare text d --corpus ptb --train-file a", "--corpus and --train-file do not go together"),
        ("prepare text d --data-dir d", "Missing: --corpus"),
        ("prepare text d --corpus embedded --data-dir d", "'embedded' has no files of its own"),
        (
            "prepare text d --train-file a --vocabulary v --minimum-count 2",
            "--vocabulary and --minimum-count do not go together",
        ),
        ("prepare pairs d --source a", "Missing: --target"),
        ("prepare pairs d --source a --target b --languages en fr", "--languages and --source do not go together"),
        ("prepare pairs d --subwords m --vocabulary-size 9", "--subwords and --vocabulary-size do not go together"),
        ("embeddings r --set s --data-dir d", "--set and --data-dir do not go together"),
        ("embeddings r --output o --record n", "--output and --record do not go together"),
        ("embeddings r --record ../n", "expected a name without folders. Received: '../n'"),
        ("subspace --output o --record", "--output and --record do not go together"),
        ("nnjm_grid --seeds 2", "--seeds needs other options too. Missing: GRID"),
        ("nnjm_grid sweeps", "GRID needs other options too. Missing: --data-dir"),
        ("lm --epochs -1", "expected a whole number of at least 0. Received: '-1'"),
        ("lm --seed -1", "expected a whole number from 0 to 4294967295. Received: '-1'"),
        ("lm --replicas -1 --strategy mirrored", "expected a whole number of at least 1"),
        ("lm --checkpoint-minutes nan", "expected a number of at least 0. Received: 'nan'"),
        ("lm --run ''", "expected a path. Received: ''"),
        ("lm --run caf\udce9", "expected a path in UTF-8. Received: 'caf\\udce9'"),
        ("lm --evaluate runs/caf\udce9", "expected a path in UTF-8. Received: 'runs/caf\\udce9'"),
        ("nmt --evaluate r --beam 0", "expected a whole number of at least 1. Received: '0'"),
        ("subspace --betas 2", "expected a number from 0 to 1. Received: '2'"),
        ("cluster --workers 0 -- a", "expected a whole number of at least 1"),
        ("compare curves", "the following arguments are required: RUN"),
        ("compare nothing", "There is no command 'nothing'. Known: curves, next-words, weights"),
    ],
)
def test_an_option_without_effect_and_a_wrong_value_are_named(line, named, monkeypatch):
    for name in ("TF_CONFIG", "SLURM_NTASKS"):
        monkeypatch.delenv(name, raising=False)
    command, *argv = shlex.split(line)
    module = (COMMANDS | STUDIES)[command]
    with pytest.raises(ValueError, match=re.escape(named)) as error:
        start_without_work(import_module(module).COMMAND, argv, command)
    assert "\n" not in str(error.value)


def start_without_work(command, argv, prog):
    """Checks the arguments of a command as `start` does."""
    if not isinstance(command, Command):
        if argv[0] not in command.by_name:
            return start(command, argv, prog)
        return start_without_work(command.by_name[argv[0]], argv[1:], prog)
    arguments = parse(command, argv, prog)
    if hasattr(arguments, "strategy"):
        from keras_tying.distribution.strategies import resolve_strategy

        resolve_strategy(arguments.strategy, arguments.replicas, arguments.wait_minutes)
    return arguments


@pytest.mark.parametrize("name", PARSED)
def test_every_mode_need_and_exclusion_is_an_option_of_the_command(name):
    command = PARSED[name]
    names = {option.name for option in command.options}
    for option in command.options:
        assert set(option.modes) - {""} <= set(command.modes) <= names
        assert {*option.needs, *option.excludes} <= names - {option.name}


@pytest.mark.parametrize("name", PARSED)
def test_help_shows_each_option_and_its_default_in_one_style(name):
    text = " ".join(make_parser(PARSED[name], f"keras-tying {name}").format_help().split())
    assert text.startswith(f"usage: keras-tying {name}")
    assert "{command}" not in text
    assert not re.search(r"default:(?![^()]*\))|None|[Dd]efault is", text.replace("(default:", "("))
    for option in PARSED[name].options:
        assert option.flag in text
        if isinstance(option.default, int | float | str) and not isinstance(option.default, bool):
            assert f"(default: {option.default})" in text


def test_an_option_given_with_its_default_is_given():
    arguments = parse(PARSED["lm"], ["--seed", "1"], "lm")
    assert arguments.given == {"seed": 1}
    assert (arguments.epochs, arguments.recipe, arguments.mode) == (None, ["embedded_small_tied"], "")


def test_an_option_that_takes_several_values_can_be_given_several_times():
    files = [each for name in ("a.txt", "b.txt") for each in ("--train-file", name)]
    others = ["--valid-file", "v.txt", "--test-file", "t.txt"]
    arguments = parse(PARSED["lm"], [*files, *others, "--recipe", "one", "--recipe", "two"], "lm")
    assert list(map(str, arguments.train_file)) == ["a.txt", "b.txt"]
    assert arguments.recipe == ["one", "two"]


WITHOUT_KERAS = """
import contextlib, io, json, sys
from keras_tying_cli import main, run_script
for command in ("lm", "nmt", "word2vec", "nnjm", "prepare", "cluster"):
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.suppress(SystemExit):
        main([command, "--help"])
    assert f"usage: keras-tying {command}" in out.getvalue(), out.getvalue()
    assert main([command, "--nothing"]) == 2
sys.argv = ["train/prepare.py", "text", sys.argv[2] + "/prepared", "--corpus", "embedded", "--processes", "1"]
assert run_script("keras_tying.commands.prepare") == 0
for name in ("compare", "embeddings", "nnjm_grid", "subspace"):
    sys.argv = [f"train/{name}.py", "--help"]
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.suppress(SystemExit):
        run_script(f"studies.commands.{name}")
    assert f"usage: python train/{name}.py" in out.getvalue(), out.getvalue()
import keras_tying.tables, keras_tying.zoo.recipes
assert not {"keras", "tensorflow", "jax", "torch"} & set(sys.modules)
"""


def test_help_wrong_arguments_and_preparing_need_no_keras_and_print_no_remarks(tmp_path, run_python):
    finished = run_python("-c", WITHOUT_KERAS, "", tmp_path)
    errors = [line for line in finished.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 6
    assert "0000 00:00" not in finished.stderr


CLASSES = [
    "TiedEmbedding",
    "SequenceCrossEntropy",
    "Perplexity",
    "LanguageModel",
    "ClippedSGD",
    "ProjectionRegularizer",
]
REGISTERED = f"""
import keras
print([keras.saving.get_registered_object("keras_tying>" + name).__name__ for name in {CLASSES}])
"""


@pytest.mark.parametrize(
    "imports",
    [
        "import keras_tying",
        "import importlib.util; importlib.util.find_spec('keras'); import keras_tying",
        "import keras_tying_cli; from keras_tying.commands.keras_setup import import_keras; import_keras()",
    ],
)
def test_keras_knows_all_classes_after(imports, run_python):
    assert run_python("-c", imports + REGISTERED).stdout == f"{CLASSES}\n"


MEMORY = """
from keras_tying.commands.keras_setup import import_keras
import_keras()
import tensorflow as tf
try:
    tf.config.experimental.get_memory_info("CPU:0")  # known of the allocator that keeps memory only
    print("kept")
except ValueError:
    print("returned")
"""


@pytest.mark.parametrize(("environment", "memory"), [({}, "kept"), ({"TF_CPU_ALLOCATOR_USE_BFC": "0"}, "returned")])
def test_tensorflow_keeps_its_memory_in_commands_unless_the_user_forbids_it(
    environment, memory, run_python, monkeypatch
):
    monkeypatch.delenv("TF_CPU_ALLOCATOR_USE_BFC", raising=False)  # set by commands that ran in this process
    # oneDNN, which is on where the CPU has AVX-512, keeps memory by itself
    assert run_python("-c", MEMORY, TF_ENABLE_ONEDNN_OPTS="0", **environment).stdout == f"{memory}\n"


def test_the_module_starts_without_keras(tmp_path, run_python):
    (tmp_path / "keras.py").write_text("raise SystemExit('Keras is imported')")
    run_python("-u", "-m", "keras_tying", "--help", PYTHONPATH=str(tmp_path))


@pytest.mark.parametrize(
    ("environment", "settings", "message"),
    [
        ({"KERAS_BACKEND": "theano"}, {}, "KERAS_BACKEND=theano"),
        ({"KERAS_BACKEND": "numpy"}, {}, "Expected one of the backends tensorflow, jax, torch"),
        ({"KERAS_BACKEND": "jax"}, {"floatx": "float64"}, "floatx='float64'"),
        ({"KERAS_BACKEND": "jax"}, {"floatx": "float99"}, "keras.json"),
        (
            {"KERAS_BACKEND": "jax", "KERAS_MAX_EPOCHS": "1"},
            {},
            "Received: max_epochs=1 of Keras. Unset KERAS_MAX_EPOCHS",
        ),
    ],
)
def test_settings_of_keras_that_cannot_train_are_refused(environment, settings, message, tmp_path):
    (tmp_path / "keras.json").write_text(json.dumps(settings))
    process = subprocess.run(
        [sys.executable, "train/lm.py", "--run", tmp_path / "run"],
        cwd=REPOSITORY,
        env={**os.environ, "KERAS_HOME": str(tmp_path), **environment},
        capture_output=True,
        text=True,
    )
    assert process.returncode == 2
    assert message in process.stderr
    assert len(process.stderr.splitlines()) == 1
    assert not (tmp_path / "run").exists()
