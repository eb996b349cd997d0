"""Measures the trained models on one backend: see `--help` and studies/trained_models.py."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from keras_tying_cli import run_script

if __name__ == "__main__":
    sys.exit(run_script("studies.commands.trained_models"))
