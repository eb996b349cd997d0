import pytest

from keras_tying import zoo
from studies.joint_language_models import draw_plots, is_lower, joint_page
from studies.joint_study import model_file
from tests.studies.small_joint_study import STUDY, results_of

PNG = b"\x89PNG"


def test_a_page_says_when_trainings_stop_before_the_last_epoch(folder):
    study = folder / "studies" / "nnjm.toml"
    study.write_text(STUDY.replace("epochs = 2,", "epochs = 8, patience = 5,"))
    results_of(folder, "own-text", {"NNJM": [9.0]})
    assert "; at most 8 epochs of SGD" in joint_page(folder)
    assert "and rate 0.3, stopped after 5 epochs without a better validation perplexity." in joint_page(folder)


def test_published_figures_stand_beside_measured_ones(folder):
    results_of(folder, "own-text", {"NNJM": [9.0, 9.2], "NNLM": [99.0]})
    text = joint_page(folder)
    assert text.startswith("# Page\n\nIntro.\n")
    assert "**Own**: all pairs of the training text, 1,000 target words" in text
    assert "python train/nnjm_grid.py own-text --data-dir DIR" in text
    assert "words at most; 2 epochs of SGD with batches of 32 and rate 0.3.\n" in text
    assert "**Other**: not measured." in text
    assert "| NNJM | 9.51 | 9.10 (9.00 to 9.20, 2 seeds) | — |" in text
    assert "| NNLM | 95.06 | 99.00 (1 seed) | — |" in text
    assert "| model | own-text |\n| --- | --: |\n| NNJM | 7.00 (7.00 to 7.00, 2 seeds) |\n" in text
    assert "| one | other | own-text |\n| --- | --- | --- |\n| NNJM | NNLM | yes, one seed, -90.8% |\n" in text


def test_rows_without_a_value_are_left_out_where_nothing_is_published(folder):
    study = folder / "studies" / "nnjm.toml"
    more = 'pairs = [{ lower = "NNJM-Global + BS", higher = "NNJM" }, '
    study.write_text(STUDY.replace('rows = ["NNJM"]', 'rows = ["NNJM-Global + BS", "NNJM"]').replace("pairs = [", more))
    results_of(folder, "own-text", {"NNJM": [9.0, 9.2], "NNLM": [99.0]})
    assert "| NNJM-Global + BS |" not in joint_page(folder)


def test_a_page_without_results_shows_no_figure_but_the_published(folder):
    text = joint_page(folder)
    assert "| NNJM | 9.51 | not measured | — |" in text
    assert "## Table 2\n\nNot the paper's.\n\nNot measured.\n" in text
    assert text.endswith("## Ordering\n\nLower?\n\nNot measured.\n")


@pytest.mark.parametrize(
    ("low", "high", "answer"),
    [
        ([9.0, 9.2], [9.3, 9.5], "yes, -3.2%"),
        ([9.3, 9.5], [9.0, 9.2], "no, +3.3%"),
        ([9.0, 9.4], [9.3, 9.5], "within the seeds, -2.1%"),
        ([9.0], [9.3, 9.2], "yes, one seed, -2.7%"),
        ([9.0], [9.3, 8.9], "within the seeds, one seed, -1.1%"),
        ([9.1, 9.3], [9.2], "within the seeds, one seed, +0.0%"),
        ([9.3], [9.0], "no, one seed, +3.3%"),
        ([9.3], [], "not measured"),
    ],
)
def test_an_ordering_holds_where_seeds_do_not_overlap(low, high, answer):
    assert is_lower(low, high) == answer


def test_pictures_are_drawn_from_results_and_from_a_model_that_is_still_there(folder, tmp_path):
    assert draw_plots(tmp_path / "runs", folder) == []
    results_of(folder, "own-text", {"NNJM": [9.0]})
    results_of(folder, "other", {"n-gram, 1": [9.0]})
    names = ["nnjm_sweeps.png", "nnjm_positions.png"]
    assert [path.name for path in draw_plots(tmp_path / "runs", folder)] == names
    model = model_file(tmp_path / "runs" / "own-text", "NNJM", 1)
    model.parent.mkdir(parents=True)
    zoo.nnjm(9, 9, window=3).save(model)
    paths = draw_plots(tmp_path / "runs", folder)
    assert [path.name for path in paths] == [*names, "nnjm_weights.png"]
    assert all(path.read_bytes().startswith(PNG) for path in paths)
    text = joint_page(folder)
    assert text.index("nnjm_positions.png") < text.index("nnjm_weights.png") < text.index("nnjm_sweeps.png")
