from studies.joint_study import load_study


def test_every_name_on_the_page_is_a_cell():
    study = load_study()

    def cells(grids):
        return {name for grid in grids for name, _, _ in study.todo(grid)}

    assert {study.pictures.weights, study.pictures.history} <= cells([study.pictures.grid])
    for table in study.tables:
        rows = set(table.rows or table.published) - {"NNJM-Global + BS-W2V"}
        assert rows <= cells(table.columns or study.columns), table.title
    for ordering in study.orderings:
        pairs = {cell for pair in ordering.pairs for cell in (pair.lower, pair.higher)}
        assert pairs <= cells(ordering.columns or study.columns), ordering.title


def test_the_orderings_asked_for_are_those_of_the_paper():
    study = load_study()
    published = {"valid": {}, "test": {}}
    for each in study.tables:
        published[each.split] |= each.published
    of_paper, of_tying = study.orderings
    for pair in of_paper.pairs:
        found = [cells for cells in published.values() if {pair.lower, pair.higher} <= set(cells)]
        assert found, f"the paper does not compare {pair}"
        assert all(cells[pair.lower] < cells[pair.higher] for cells in found), pair
    assert all(pair.lower.endswith("tied") for pair in of_tying.pairs)


def test_the_main_cells_are_trained_first_each_seed_through_all_of_them():
    todo = [(name, seed) for name, _, seed in load_study().todo("zh-en")]
    assert [seed for _, seed in todo] == [1] * 8 + [2] * 8 + [3] * 8 + [1] * 19 + [2] * 19
    assert todo[0] == ("NNLM", 1)
    assert [seed for _, _, seed in load_study().todo("zh-en", seeds=2, main_only=True)] == [1] * 8 + [2] * 8
    assert next(load_study().todo("sweeps"))[0] == "word vector size, 0"
