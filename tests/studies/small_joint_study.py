"""A small study of joint language models, and results of it, for tests."""

import json

from studies.joint_study import load_study, results_file

STUDY = """
title = "Page"
text = "Intro."
columns = ["own-text", "other"]
sentence_length = 8

[grids.own-text]
title = "Own"
groups = ["main", "variants"]
data = { source_vocabulary_size = 12, target_vocabulary_size = 12 }
optimisation = { epochs = 2, batch_size = 32 }
[grids.own-text.files]
train = ["train.src", "train.tgt", "train.align"]
valid = ["valid.src", "valid.tgt", "valid.align"]
test = ["test.src", "test.tgt", "test.align"]

[grids.other]
title = "Other"
groups = ["sweeps"]
data = {}
files = {}

[groups.main]
seeds = 2
[groups.main.cells]
"NNJM" = { model = "nnjm", arguments = { window = 3, embedding_size = 4, hidden_units = [5], learning_rate = 1.0 } }

[groups.variants]
seeds = 1
[groups.variants.cells."NNJM-Global + BS"]
model = "nnjm_global"
arguments = { window = 3, embedding_size = 4, hidden_units = [5], trainable_embeddings = false }
word_vectors = "NNJM"

[sweeps]
"n-gram" = [{ at = 2, model = "nnlm", arguments = { order = 2 } }, { at = 3, model = "nnlm" }]

[[tables]]
title = "Table 1"
published = { "NNJM" = 9.51, "NNLM" = 95.06 }

[[tables]]
title = "Table 2"
text = "Not the paper's."
split = "valid"
rows = ["NNJM"]

[[orderings]]
title = "Ordering"
text = "Lower?"
lower = "one"
higher = "other"
pairs = [{ lower = "NNJM", higher = "NNLM" }]

[pictures]
grid = "own-text"
weights = "NNJM"
window = 3
history = "NNJM"
captions = { nnjm_positions = "Positions", nnjm_weights = "Weights", nnjm_sweeps = "Curves" }
"""


def results_of(folder, grid, cells):
    """Writes results with the given test perplexities."""
    run = {"valid": 7.0, "valid_by_epoch": [8.0, 7.0], "position_weights": [0.1, 0.3, 0.1, 0.1, 0.1, 0.2]}
    results = {
        "command": f"python train/nnjm_grid.py {grid} --data-dir DIR",
        "data": load_study(folder).grids[grid].data.model_dump(),
        "optimisation": load_study(folder).grids[grid].optimisation.model_dump(),
        "samples": {"train": 1000, "valid": 100, "test": 100},
        "device": "a processor",
        "versions": {"python": "3"},
        "cells": {
            name: {"runs": {str(seed): {**run, "test": value} for seed, value in enumerate(values, start=1)}}
            for name, values in cells.items()
        },
    }
    path = results_file(folder, grid)
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(results))
