"""Runs of translation models: settings, text, figures."""

from typing import Any

import keras

from keras_tying import zoo
from keras_tying.data import (
    SPLITS,
    ParallelCorpus,
    PreparedPairs,
    SentencePairs,
    Subwords,
    load_parallel,
    parallel_files,
)
from keras_tying.files import check_fingerprint
from keras_tying.metrics import translation_scores
from keras_tying.tables import Table, load_table
from keras_tying.training.runs import Run
from keras_tying.training.translation_evaluation import pair_perplexity, translate_sentences
from keras_tying.training.translation_recipes import (
    TranslationRecipe,
    load_translation_recipe,
    translation_recipe_folder,
)
from keras_tying.zoo.recipes import Precision, check_unchanged, write_results


class TranslationRunSettings(Table):
    """Everything that decided a run: `config.toml` of its folder."""

    recipe_name: str
    seed: int
    command: str
    subwords_sha256: str = ""
    data_dir: str | None = None
    files: dict[str, list[list[str]]] | None = None
    """Of each split, pairs of source and target file."""
    prepared: str | None = None
    """Folder of prepared pairs to train on."""
    precision: Precision = "float32"
    """Of computation; variables stay float32."""
    recipe: TranslationRecipe

    def corpus(self) -> ParallelCorpus:
        """The run's text: its recipe's, or files given instead."""
        files, data = self.files, self.recipe.data
        if files:
            return parallel_files(
                {split: [(pair[0], pair[1]) for pair in files[split]] for split in SPLITS if split in files}
            )
        return load_parallel(data.corpus, data.source, data.target, self.data_dir)

    def open_subwords(self, run: Run) -> Subwords:
        """The subwords in the run's folder.

        Raises:
            ValueError: If they are not those the run was made with.
        """
        subwords = Subwords.load(run.subwords)
        what = "sentencepiece model this run was made with"
        check_fingerprint(run.subwords, what, self.subwords_sha256, subwords.sha256)
        return subwords

    def pairs_to_train_on(self, corpus: ParallelCorpus, subwords: Subwords) -> SentencePairs:
        if self.prepared:
            return PreparedPairs(self.prepared).pairs("train", subwords)
        return SentencePairs.encode(corpus.pairs("train"), subwords, subwords, self.recipe.data.longest)

    def build_model(self, subwords: Subwords, **changes: Any) -> keras.Model:
        """The recipe's model, with other arguments where `changes` has them."""
        recipe, size = self.recipe.model, len(subwords)
        sizes = {"source_vocabulary_size": size, "target_vocabulary_size": size}
        return zoo.create_model(recipe.name, **sizes, **{**recipe.arguments, **changes})


def open_trained(run: Run) -> tuple[TranslationRunSettings, keras.Model, Subwords]:
    """Settings, model and subwords of a run that has ended.

    Raises:
        FileNotFoundError: If it has not.
    """
    settings = load_table(TranslationRunSettings, run.config)
    return settings, run.load_model(), settings.open_subwords(run)


def pairs_to_measure_on(corpus: ParallelCorpus, subwords: Subwords) -> dict[str, SentencePairs]:
    splits = (split for split in corpus.splits if split != "train")
    return {split: SentencePairs.encode(corpus.pairs(split), subwords, subwords) for split in splits}


def measure_translator(
    model: keras.Model, corpus: ParallelCorpus, pairs: dict[str, SentencePairs], subwords: Subwords, beam_size: int = 5
) -> dict[str, Any]:
    """BLEU, chrF and perplexity of the splits of `pairs`, which are those of `corpus` encoded."""
    figures: dict[str, Any] = {}
    for split, encoded in pairs.items():
        sources, references = zip(*corpus.pairs(split), strict=True)
        scores = translation_scores(translate_sentences(model, subwords, sources, beam_size), references)
        figures |= {f"{split}_perplexity": pair_perplexity(model, encoded)}
        figures |= {f"{split}_{name}": score for name, score in scores.items()}
    return {**figures, "beam": beam_size}


def record_translation(settings: TranslationRunSettings, results: dict[str, Any]) -> None:
    """Writes what a run gave beside its recipe.

    Raises:
        ValueError: If the run was not made by the recipe as it stands.
    """
    name = settings.recipe_name
    check_unchanged(name, load_translation_recipe(name), settings.recipe)
    write_results(translation_recipe_folder(), name, results)
