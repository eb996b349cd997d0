"""Signals that ask a process to stop."""

import fcntl
import os
import pty
import signal
import subprocess
import sys
import termios
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
WAIT = """
import signal, sys, time
if "ignored" not in sys.argv:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests themselves may run under nohup
from keras_tying.signals import handling_stop_signals
received = []
with handling_stop_signals(received.append):
    print("ready", flush=True)
    for _ in range(600):
        time.sleep(0.1)
        if received:
            break
print("stopped", flush=True)
with open(sys.argv[1], "w") as file:
    file.write(received[0].name)
"""


def test_a_process_whose_terminal_is_closed_ends_in_its_own_time(tmp_path):
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", WAIT, tmp_path / "received"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=REPOSITORY,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(theirs)
    printed = b""
    while b"ready" not in printed:
        printed += os.read(ours, 1000)
    os.close(ours)
    assert process.wait(60) == 0
    assert (tmp_path / "received").read_text() == "SIGHUP"


def test_a_process_whose_output_goes_to_a_closed_pipe_ends_in_its_own_time(tmp_path):
    command = [sys.executable, "-c", WAIT, tmp_path / "received"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=REPOSITORY)
    assert any(b"ready" in line for line in process.stdout)
    process.stdout.close()  # as `tee` does, which gets the signal too
    process.send_signal(signal.SIGHUP)
    assert process.wait(60) == 0
    assert (tmp_path / "received").read_text() == "SIGHUP"


def test_nohup_goes_on_ignoring_that_the_terminal_was_closed(tmp_path):
    command = ["nohup", sys.executable, "-c", WAIT, tmp_path / "received", "ignored"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=REPOSITORY)
    assert any(b"ready" in line for line in process.stdout)
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGTERM)
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert b"stopped" in printed
    assert (tmp_path / "received").read_text() == "SIGTERM"
