import pytest

from keras_tying.zoo.recipes import recipe_folder
from studies.__main__ import all_pages
from studies.pages import between_marks

ZOO = recipe_folder()
PAGES = [*sorted(ZOO.glob("*.md")), ZOO.parent / "README.md"]


@pytest.fixture(scope="module")
def made():
    return all_pages(ZOO)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ZOO.parent)))
def test_every_page_is_made_from_recipes_and_results(made, path):
    assert made[path] == path.read_text(encoding="utf-8")


def test_every_page_that_is_made_is_in_the_repository(made):
    assert set(made) == set(PAGES)


def test_only_the_text_between_marks_is_replaced():
    page = "before\n<!-- sizes, made by `make zoo` -->\nold\n<!-- end of sizes -->\nafter\n"
    made = between_marks(page, "sizes", "new")
    assert made == page.replace("old", "new")
    assert between_marks(made, "sizes", "new") == made


def test_a_page_without_marks_is_refused():
    with pytest.raises(ValueError, match=r"Expected the marks <!-- sizes.* Received a page without them"):
        between_marks("<!-- sizes, made by `make zoo` -->", "sizes", "new")
