import shutil

import pytest

from keras_tying.zoo import recipes


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder of a zoo with two recipes."""
    zoo = tmp_path / "zoo"
    zoo.mkdir()
    for name in ("ptb_small_tied", "multi30k_en_de_three_way"):
        shutil.copy(recipes.recipe_folder() / f"{name}.toml", zoo)
    monkeypatch.setattr(recipes, "__file__", str(tmp_path / "keras_tying" / "zoo" / "recipes.py"))
    return zoo
