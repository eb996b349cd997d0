"""What the tests of claims share: recorded results, the text of pages, and runs that started alike.

A claim is a sentence with figures computed from recorded results.
"""

import json

from keras_tying.zoo.recipes import recipe_folder
from studies.results import read_seeds

ZOO = recipe_folder()
ROWS = ("untied", "tied", "untied_projection", "tied_projection")
STARTED_ALIKE = ["ptb_small_untied", "ptb_small_untied_projection"]
"""Measured language models with two embeddings, which started from the same numbers in another order."""
COMMITS_THAT_STARTED_ALIKE = {
    None,  # not recorded: older than the others
    "60a2ad0a362bf4d41e30aa1a4c86196209334abd",
    "ccd02c96ef9efd0f0ccd80575c0bcad9e5aee3c6",
    "386dc9179b655faa297af626d6bb5ba2cee23746",
    "62273750e001ead80cd653b6742b46423b4cf609",
}
"""Commits of untied results when one initializer drew both matrices of a `TiedEmbedding`."""


def results(name, folder=ZOO / "results"):
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))


def text(page):
    return " ".join((ZOO / page).read_text(encoding="utf-8").split())


def check(page, claims):
    """Each claim must be on its page word by word."""
    for claim in claims:
        assert claim in text(page), f"{page} does not say: {claim}"


def commits(names):
    return {seed.get("commit") for name in names for seed in read_seeds(ZOO / "results", name)}


def gpu_minutes():
    names = ("ptb_large_tied", "single_layer_mogrifier_tied", "single_layer_mogrifier_tied_s2")
    found = [results(name) for name in names]
    assert {each["device"] for each in found} == {"NVIDIA H100 80GB HBM3"}
    minutes = [round(each["wall_time_seconds"] / 60) for each in found]
    assert minutes == [11, 10, 10]  # the words on the README's page
    return minutes
