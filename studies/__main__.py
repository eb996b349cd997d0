"""Makes all pages and tables of the zoo from recipes and recorded results: python -m studies"""

from pathlib import Path

from keras_tying.files import write_atomically
from keras_tying.zoo.recipes import recipe_folder
from studies import cards, translation
from studies.augmented_loss import augmentation_page
from studies.cells import cell_page, cell_table, read_cells
from studies.embeddings import embeddings_page
from studies.joint_language_models import joint_page
from studies.low_perplexity import curves, draw_budget, low_perplexity_page
from studies.recipe_keys import with_recipe_keys
from studies.trained_models import trained_page


def all_pages(folder: Path) -> dict[Path, str]:
    """Text of every page and table that is made from the recipes and results of the zoo's folder, by its path.

    The README beside that folder and the pages on translation and training are the existing ones with new tables.
    """
    readme, translations = folder.parent / "README.md", folder / "translation.md"
    training = folder.parent / "docs" / "training.md"
    recipes, cells = cards.read_recipes(folder), read_cells(folder)
    lines = cell_table(cells)
    with_bleu = translation.with_bleu(readme.read_text(encoding="utf-8"), folder)
    return {
        **cards.card_pages(recipes, cells, folder),
        readme: cards.with_results(with_bleu, recipes, cells, folder),
        translations: translation.with_results(translations.read_text(encoding="utf-8"), folder),
        folder / "embeddings.md": embeddings_page(folder),
        folder / "nnjm.md": joint_page(folder),
        folder / "augmentation.md": augmentation_page(folder),
        folder / "low_perplexity.md": low_perplexity_page(folder),
        folder / "trained_models.md": trained_page(folder),
        folder / "results.csv": lines,
        folder / "results.md": cell_page(folder, cells, lines),
        training: with_recipe_keys(training.read_text(encoding="utf-8")),
    }


if __name__ == "__main__":
    cards.draw_curves(cards.read_recipes(recipe_folder()), recipe_folder())
    draw_budget(curves(recipe_folder()), recipe_folder() / "results" / "low_perplexity.png")
    for path, text in all_pages(recipe_folder()).items():
        write_atomically(path, text.encode())
