"""How commands end: one line and a code for each way."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from keras_tying.commands.exit_codes import run_command
from keras_tying.training import TrainingInterrupted

REPOSITORY = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (ValueError("first\n  second"), 2, "error: first second"),
        (FileNotFoundError(2, "No such file", "there"), 2, "error: [Errno 2] No such file: 'there'"),
        (MemoryError("array"), 2, "error: there is not enough memory (array)."),
        (KeyboardInterrupt(), 130, "Stopped."),
        (RuntimeError("RESOURCE_EXHAUSTED: No space left on device"), 2, "error: No space left on device"),
        (RuntimeError("RESOURCE_EXHAUSTED: there; Disk quota exceeded"), 2, "error: Disk quota exceeded: RES"),
        (RuntimeError("RESOURCE_EXHAUSTED: there; Too many open files"), 2, "error: Too many open files: RES"),
        (RuntimeError("saved_model.pb; File too large"), 2, "error: File too large: saved_model.pb"),
    ],
)
def test_an_error_is_one_line_and_a_code(error, code, line, capsys):
    def fail():
        raise error

    assert run_command(fail) == code
    (printed,) = capsys.readouterr().err.strip().splitlines()
    assert printed.startswith(line)


def test_how_to_go_on_is_said_also_where_the_path_of_a_command_has_braces(capsys):
    def stop():
        raise TrainingInterrupted(run=Path("runs/a b"))

    assert run_command(stop, "Continue with /{lab}/lm.py --resume {run}{options}") == 75
    assert capsys.readouterr().out == "\nStopped. Continue with /{lab}/lm.py --resume 'runs/a b'\n"


def test_a_mistake_in_the_code_is_not_hidden():
    with pytest.raises(AttributeError):
        run_command(lambda: None.nothing)


def test_a_reader_that_leaves_gets_no_traceback():
    command = [sys.executable, "-m", "keras_tying", "--help"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=REPOSITORY)
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait() == 141


@pytest.mark.parametrize("closed", ["0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"])
def test_streams_that_the_shell_closed_are_empty(closed, tmp_path):
    command = f"{sys.executable} -m keras_tying list > {tmp_path / 'out'} {closed}"
    assert subprocess.run(command, shell=True, cwd=REPOSITORY).returncode == 0


def test_ctrl_c_while_keras_is_imported_leaves_no_traceback(tmp_path):
    (tmp_path / "keras.py").write_text(
        "import signal, time; signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a background job ignores it
        "signal.raise_signal(signal.SIGINT); time.sleep(9)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(REPOSITORY)])}
    command = [sys.executable, "train/lm.py", "--evaluate", "none"]
    process = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True)
    assert process.returncode == 128 + signal.SIGINT
    assert process.stderr.split() == ["Stopped."]
