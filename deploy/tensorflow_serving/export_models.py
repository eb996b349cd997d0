"""Writes trained models of the zoo as SavedModels, in the folders that models.config names.

python deploy/tensorflow_serving/export_models.py saved_models
"""

import argparse
from pathlib import Path

import keras_tying as kt

MODELS = {
    "lm/1": "embedded_small_tied",
    "lm/2": "ptb_small_tied",
    "nmt/1": "embedded_en_de",
    "nnjm/1": "nnjm_tied",
    "words/1": "word2vec_tied",
}
"""Trained models by folder: a name and a version."""


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="folder of the SavedModels")
    folder = parser.parse_args(arguments).folder
    for place, name in MODELS.items():
        kt.export.export_trained(kt.load(name), folder / place)
        print(f"{folder / place}: {name}", flush=True)


if __name__ == "__main__":
    main()
