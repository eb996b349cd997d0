import json
import shutil

import pytest

from keras_tying.zoo.recipes import recipe_folder
from studies.translation import bleu_table, schedule_table, with_results

MEASURED = {"parameters": 1_234_567, "validation_bleu": 40.126, "test_bleu": 38.5, "test_chrf": 60.0}


@pytest.fixture
def folder(tmp_path):
    """The zoo's translation recipes and page, without results."""
    for path in [recipe_folder() / "translation.md", *recipe_folder().glob("*.toml")]:
        shutil.copy(path, tmp_path)
    (tmp_path / "results").mkdir()
    return tmp_path


def made(folder):
    return with_results((folder / "translation.md").read_text(), folder)


def row(folder, name):
    (line,) = [line for line in made(folder).splitlines() if name in line and "BLEU" not in line]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_a_recipe_shows_what_was_published_and_that_nothing_is_measured(folder):
    cells = row(folder, "wmt14_en_fr_three_way")
    assert cells[1:] == ["80M", "not measured", "29.43", "not measured", "33.46", "not measured", "not measured"]


def test_a_result_stands_in_its_row(folder):
    (folder / "results" / "wmt15_en_de_untied.json").write_text(json.dumps(MEASURED))
    assert row(folder, "wmt15_en_de_untied")[1:] == ["165M", "1,234,567", "20.96", "40.13", "16.79", "38.50", "60.00"]


def test_several_seeds_give_their_mean_and_range(folder):
    for ending, scores in {"": {1: 38.0, 2: 38.6}, "_12_epochs": {1: 39.0}}.items():
        for tying in ("untied", "decoder", "three_way"):
            for seed, bleu in scores.items():
                name = f"multi30k_en_de_{tying}{ending}" + (f"_s{seed}" if seed > 1 else "")
                shift = {"untied": 0, "decoder": 1, "three_way": 2}[tying]
                results = {**MEASURED, "epochs": 12 if ending else 25, "test_bleu": bleu + shift}
                (folder / "results" / f"{name}.json").write_text(json.dumps(results))
    assert row(folder, "[multi30k_en_de_untied]")[1:3] == ["—", "1,234,567"]
    assert row(folder, "[multi30k_en_de_untied]")[6] == "38.30 (38.00 to 38.60)"
    text = schedule_table(folder)
    assert "| untied | 1,234,567 | 40.1 (40.1 to 40.1) | 40.1 | 38.3 (38.0 to 38.6) | 39.0 |" in text
    assert "| decoder tied | 1,234,567 | 39.3 (39.0 to 39.6) | 2 |" in bleu_table(folder)
    assert bleu_table(folder).endswith("The three-way tied model is the best.")
    assert text.endswith("Seeds: 2 (25 epochs); 1 (12 epochs).")
    (folder / "results" / "multi30k_en_de_decoder_s2.json").unlink()
    assert bleu_table(folder).endswith("The three-way tied model has the highest BLEU, but one seed may be chance.")


def test_subwords_of_a_corpus_stand_beside_the_published(folder):
    counts = {"corpus": "tiny", "source": "en", "target": "fr", "only_source": 1_001, "only_target": 2, "both": 3}
    (folder / "results" / "overlap_tiny_en_fr.json").write_text(json.dumps(counts))
    text = made(folder)
    assert "| WMT14 en to fr, published | 2,000 | 7,000 | 85,000 |" in text
    assert "| [tiny en to fr](results/overlap_tiny_en_fr.json) | 1,001 | 2 | 3 |" in text
    assert with_results(text, folder) == text
