"""Recipes of translation models."""

from pathlib import Path
from typing import Literal

from pydantic import Field

from keras_tying.tables import Table
from keras_tying.zoo.recipes import Model, find_recipe, recipe_folder


class TranslationData(Table):
    corpus: str = "embedded"
    """Name of a parallel corpus, or `"files"`."""
    source: str = "en"
    """Language to translate from."""
    target: str = "de"
    subwords: int = Field(default=8_000, ge=3)
    """Size of the joint vocabulary."""
    longest: int | None = Field(default=None, ge=1)
    """Training pairs with more subwords on a side are left out; `None` keeps all."""


class TranslationSchedule(Table):
    """How a translation model is trained."""

    optimizer: Literal["adam", "adadelta"] = "adam"
    """Adadelta as published: rho 0.95, epsilon 1e-6."""
    learning_rate: float = Field(default=1e-3, gt=0)
    final_learning_rate: float | None = Field(default=None, ge=0)
    """The rate falls linearly to this at the end; `None` keeps it."""
    clip_norm: float = Field(default=1.0, gt=0)
    """The gradient's global norm is cut down to this."""
    label_smoothing: float = Field(default=0.0, ge=0, lt=1)
    batch_tokens: int = Field(default=1200, ge=1)
    """Positions of a batch on a side, filled-up ones counted."""
    epochs: int = Field(default=10, ge=1)
    patience: int | None = Field(default=None, ge=1)
    """Epochs without a better validation perplexity before training stops; `None` never stops."""


class PublishedTranslation(Table):
    source: str
    parameters: str | None = None
    """As printed, for example `"168M"`."""
    validation_bleu: float | None = None
    test_bleu: float | None = None


class TranslationRecipe(Table):
    title: str = ""
    description: str = ""
    notes: str = ""
    model: Model
    data: TranslationData = TranslationData()
    optimisation: TranslationSchedule = TranslationSchedule()
    published: PublishedTranslation | None = None


def translation_recipe_folder() -> Path:
    return recipe_folder() / "translation"


def load_translation_recipe(name_or_path: str | Path) -> TranslationRecipe:
    """Reads a recipe by name, or from a TOML file of one's own.

    Raises:
        ValueError: If there is no such recipe, or a key is unknown or has a value of the wrong type.
    """
    return find_recipe(TranslationRecipe, translation_recipe_folder(), name_or_path)
