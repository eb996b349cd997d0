"""Errors that end a training, and the exit code of one that can be continued."""

from pathlib import Path

RESUMABLE = 75
"""Exit code of a process whose run can be continued by the same command (EX_TEMPFAIL)."""


class TrainingDiverged(ArithmeticError):
    """The loss, a perplexity or a weight is NaN or infinite."""


class TrainingInterrupted(Exception):
    """Training stopped on request, after a checkpoint.

    Attributes:
        run: Folder of the run, or of the runs that one command resumes. `None`: the same command continues, which
            trains several new runs.
        options: Options that the command that continues needs.
    """

    def __init__(self, message: str = "Stopped.", run: Path | None = None):
        super().__init__(message)
        self.run = run
        self.options: list[str] = []


class WorkersMissing(TimeoutError):
    """Workers of the cluster have not come up."""
