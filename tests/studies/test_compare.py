import json

import pytest
from matplotlib.axes import Axes

from keras_tying.data import Vocabulary
from keras_tying.inference import TrainedLanguageModel
from keras_tying.training import Run, RunSettings
from keras_tying.zoo import recurrent_language_model
from keras_tying.zoo.recipes import LanguageModelRecipe, Model
from studies.compare import draw_curves, draw_validation, next_words_table, read_history

HISTORY = [{"val_perplexity": 200.0}, {"val_perplexity": 120.0}]

SETTINGS = RunSettings(
    recipe_name="test", seed=1, command="", recipe=LanguageModelRecipe(model=Model(name="ptb_small"))
)


@pytest.fixture
def words():
    return Vocabulary(["the", "court", "federal", "<unk>", "<eos>"])


@pytest.fixture
def model(words):
    return recurrent_language_model(len(words), 4, initializer_range=1.0)


def test_history_is_read_from_results_and_from_a_run_that_is_not_finished(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps({"history": HISTORY}))
    run = Run.create(tmp_path / "b", SETTINGS, lambda _: None)
    run.checkpoints.mkdir()
    with pytest.raises(ValueError, match="finished no epoch yet"):
        read_history(run.folder)
    (run.checkpoints / "index.json").write_text(json.dumps([{"progress": {"history": HISTORY}}]))
    assert read_history(tmp_path / "a.json") == read_history(run.folder) == HISTORY


def test_validation_curves_are_drawn(tmp_path):
    draw_validation({"a": HISTORY, "b": HISTORY[:1]}, tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_curves_are_drawn_without_keras(tmp_path, run_python):
    (tmp_path / "keras.py").write_text("raise SystemExit('Keras is imported')")
    (tmp_path / "a.json").write_text(json.dumps({"history": HISTORY}))
    arguments = ["curves", tmp_path / "a.json", "--output", tmp_path / "curves.png"]
    run_python("train/compare.py", *arguments, PYTHONPATH=str(tmp_path))
    assert (tmp_path / "curves.png").exists()


def test_every_run_has_its_curve_and_those_left_out_are_named(tmp_path, capsys, monkeypatch):
    drawn = []
    monkeypatch.setattr(Axes, "plot", lambda self, *_, label, **__: drawn.append(label))
    paths = [tmp_path / place for place in ("a/lr0.1.json", "a/lr0.5.json", "b/lr0.5.json")]
    for path, lowest in zip(paths, (90.0, 120.0, 300.0), strict=True):
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"history": [{"val_perplexity": lowest}]}))
    draw_curves(paths, tmp_path / "curves.png")
    assert drawn == ["lr0.1: 90.0", "a/lr0.5: 120.0", "b/lr0.5: 300.0"]
    assert capsys.readouterr().err == ""
    draw_curves(paths, tmp_path / "curves.png", top=160)
    assert "stay above 160: b/lr0.5 (300.0)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[", "results.json is not JSON"),
        pytest.param("[" * 100_000, "results.json is not JSON: its values are nested too deeply", id="deep"),
        ("[1]", "results.json has no history"),
        ('{"history": 3}', "results.json has no history"),
        ('{"history": [{"loss": 3.0}]}', "has no finite validation perplexity"),
        ('{"history": [{"val_perplexity": null}]}', "has no finite validation perplexity"),
        ('{"history": [{"val_perplexity": Infinity}]}', "has no finite validation perplexity"),
        ('{"history": []}', "finished no epoch yet"),
    ],
)
def test_results_of_another_shape_are_named(tmp_path, content, message):
    (tmp_path / "results.json").write_text(content)
    with pytest.raises(ValueError, match=message):
        read_history(tmp_path / "results.json")


def test_table_marks_the_word_that_followed(model, words):
    trained = TrainedLanguageModel(model, words, "spaces")
    table = next_words_table({"a": trained, "b": trained}, ["the + court"], k=5).splitlines()
    assert table[0] == "| phrase | a | b |"
    assert table[2].startswith("| the + court |")
    assert table[2].count("**court**") == 2
    assert "`<unk>`" in table[2]


def test_words_with_a_bar_stay_in_their_cells_of_the_table():
    words = Vocabulary(["|", "a|b", "<unk>", "<eos>"])
    trained = TrainedLanguageModel(recurrent_language_model(len(words), 4), words, "spaces")
    table = next_words_table({"x|y": trained}, ["| + a|b"], k=4).splitlines()
    assert table[0] == r"| phrase | x\|y |"
    assert table[2].startswith(r"| \| + a\|b | ")
    assert r"**a\|b**" in table[2]
    assert [line.replace(r"\|", "").count("|") for line in table] == [3, 3, 3]
