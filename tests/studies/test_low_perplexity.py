import json
import shutil

import pytest

from keras_tying.zoo.recipes import recipe_folder
from studies.low_perplexity import curves, hours, low_perplexity_page

TEN_MILLION, SMALL = "Ten million parameters", "2.7 million parameters"
START = "single_layer_mogrifier_tied_30_epochs"
CONTINUED = "single_layer_mogrifier_tied_continued"
HISTORY = [{"val_perplexity": 200.0, "words_per_second": 1000.0}, {"val_perplexity": 100.0, "words_per_second": 3000.0}]


@pytest.fixture
def folder(tmp_path):
    """A zoo with two seeds of one run, one that only chooses settings, one of a recipe, and one that continues it."""
    (tmp_path / "studies").mkdir()
    shutil.copy(recipe_folder() / "studies" / "low_perplexity.toml", tmp_path / "studies")
    (tmp_path / "results" / "small_size").mkdir(parents=True)
    for name, valid in {"wide_s1": 90.0, "wide_s2": 92.0, "narrow_screening_s1": 89.0}.items():
        results = {"validation_perplexity": valid, "test_perplexity": valid - 5, "parameters": 2_668_304, "epochs": 2}
        results |= {"wall_time_seconds": 7200.0, "history": HISTORY, "device": "AMD EPYC, 1 core"}
        results |= {"seed": int(name[-1])}
        if name == "wide_s2":
            results |= {"validation_perplexity_dynamic": 71.0, "test_perplexity_dynamic": 70.0}
        results |= {"processor_seconds": 3600.0} if name == "narrow_screening_s1" else {}
        (tmp_path / "results" / "small_size" / f"{name}.json").write_text(json.dumps(results))
    results = {"validation_perplexity": 70.0, "test_perplexity": 66.0, "parameters": 9_932_996, "epochs": 2}
    results |= {"wall_time_seconds": 7200.0, "processor_seconds": 3600.0, "history": HISTORY, "seed": 1}
    on_gpu = results | {"device": "NVIDIA H100 80GB HBM3", "parameters": 9_932_995}
    (tmp_path / "results" / "single_layer_mogrifier_tied.json").write_text(json.dumps(on_gpu))
    results |= {"device": "AMD EPYC, 2 cores"}
    (tmp_path / "results" / "ten_million_parameters").mkdir()
    (tmp_path / "results" / "ten_million_parameters" / f"{START}_s1.json").write_text(json.dumps(results))
    results |= {"validation_perplexity": 68.0, "epochs": 5, "parameters": 9_932_997}
    (tmp_path / "results" / "ten_million_parameters" / f"{CONTINUED}_s1.json").write_text(json.dumps(results))
    return tmp_path


def test_a_run_is_a_row_and_a_curve(folder):
    rows = [line for line in low_perplexity_page(folder).splitlines() if "9,932,996" in line]
    assert rows == [f"| {START} | 9,932,996 | 2 | 1.0 | 70.0 | 66.0 | | | | 1 |"]
    assert curves(folder)[TEN_MILLION][START] == [(pytest.approx(0.75), 200.0), (pytest.approx(1.0), 100.0)]


def test_the_result_of_a_recipe_on_a_gpu_is_a_row_with_the_hours_of_the_gpu_and_no_curve(folder):
    rows = [line for line in low_perplexity_page(folder).splitlines() if "9,932,995" in line]
    hours = "2.0 (NVIDIA H100 80GB HBM3)"
    assert rows == [f"| single_layer_mogrifier_tied | 9,932,995 | 2 | {hours} | 70.0 | 66.0 | | | | 1 |"]
    assert "single_layer_mogrifier_tied" not in curves(folder)[TEN_MILLION]


def test_hours_on_several_devices_name_them():
    first = {"wall_time_seconds": 7200.0, "processor_seconds": 3600.0, "device": "AMD EPYC, 1 core"}
    seed = {"wall_time_seconds": 1800.0, "processor_seconds": 60.0, "device": "a GPU", "starts": [first]}
    assert hours([seed, seed]) == "2.5 (AMD EPYC, 1 core and a GPU)"
    assert hours([first]) == "1.0"


def test_a_continued_run_has_the_time_of_both(folder):
    rows = [line for line in low_perplexity_page(folder).splitlines() if "9,932,997" in line]
    assert rows == [f"| {CONTINUED} | 9,932,997 | 2 + 5 | 2.0 | 68.0 | 66.0 | | | | 1 |"]
    assert curves(folder)[TEN_MILLION][CONTINUED] == [(pytest.approx(1.75), 200.0), (pytest.approx(2.0), 100.0)]


def test_a_continued_run_without_the_seed_of_its_start_is_an_error(folder):
    results = folder / "results" / "ten_million_parameters"
    seed = json.loads((results / f"{CONTINUED}_s1.json").read_text()) | {"seed": 2}
    (results / f"{CONTINUED}_s2.json").write_text(json.dumps(seed))
    with pytest.raises(ValueError, match=f"continues {START}, which has no results of seed 2"):
        low_perplexity_page(folder)


def test_a_mean_of_runs_has_the_time_of_all_that_it_comes_from(folder):
    study, results = folder / "studies" / "low_perplexity.toml", folder / "results" / "ten_million_parameters"
    lines = study.read_text().splitlines()
    lines.insert(
        lines.index(f'continued.{CONTINUED} = "{START}"'),
        f'continued.again = "{START}_s1"\ncontinued.mean = ["again_s2", "again_s3"]',
    )
    study.write_text("\n".join(lines))
    first = json.loads((results / f"{START}_s1.json").read_text())
    for seed in (2, 3):
        (results / f"again_s{seed}.json").write_text(json.dumps(first | {"seed": seed, "epochs": 5}))
    mean = first | {"parameters": 9_932_998, "epochs": 0, "history": [], "processor_seconds": 0.0}
    (results / "mean_s1.json").write_text(json.dumps(mean))
    rows = [line for line in low_perplexity_page(folder).splitlines() if "9,932,998" in line]
    assert rows == ["| mean | 9,932,998 | 2 + 5 + 5 + 0 | 3.0 | 70.0 | 66.0 | | | | 1 |"]
    assert "mean" not in curves(folder)[TEN_MILLION]


def test_the_best_validation_perplexity_comes_first_and_screening_shows_no_test_perplexity(folder):
    rows = [line for line in low_perplexity_page(folder).splitlines() if "2,668,304" in line]
    dynamic = "70.0 (seed 2: 87.0 without)"
    assert rows == [
        "| narrow_screening | 2,668,304 | 2 | 1.0 | 89.0 | — | — | — | — | 1 |",
        f"| wide | 2,668,304 | 2 | 2.0† | 91.0 (90.0 to 92.0) | 86.0 (85.0 to 87.0) | | | {dynamic} | 2 |",
    ]


def test_an_epoch_takes_its_share_of_the_time(folder):
    assert curves(folder)[SMALL]["wide"] == [(pytest.approx(1.5), 200.0), (pytest.approx(2.0), 100.0)]
