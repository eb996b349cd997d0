"""Pages and tables of the measurements are made from them, and the contenders have the same settings."""

import os

import pytest

from benchmarks import cores, language_models, measure, operations, report, run
from benchmarks.work import Size
from keras_tying.training.engine import STEPS_PER_EXECUTION

TINY = Size(vocabulary=11, units=3, batch_size=2, sequence_length=2)


@pytest.fixture(scope="module")
def made():
    return report.all_pages()


@pytest.mark.parametrize(
    "name", ["benchmarks/README.md", "README.md", "docs/distributed.md", "docs/serving.md", "docs/training.md"]
)
def test_every_table_is_made_from_the_measurements(made, name):
    path = report.RESULTS.parents[1] / name
    assert made[path] == path.read_text(encoding="utf-8")


def test_stock_keras_trains_as_many_steps_per_call_as_this_library():
    models = [language_models.tied_model(TINY), language_models.stock_keras_model(TINY)]
    assert [model.steps_per_execution for model in models] == [STEPS_PER_EXECUTION] * 2
    assert language_models.train_stock_keras(TINY)(3) > 0


def test_measurements_without_a_commit_are_said_to_be_earlier():
    results = {"small": {"words_per_second": {"keras-tying": 2.0}, "speed_ratio": {}}}
    measured = {"results": results, "device": "some", "versions": {}, "command": "some"}
    assert report.EARLIER in report.page({"evaluation": measured})
    assert report.EARLIER not in report.page({"evaluation": {**measured, "commit": "0" * 40}})


def test_where_others_are_faster_the_pages_say_so():
    ratios = {"medium": {"PyTorch": 0.944, "stock Keras": 1.3}, "large": {"PyTorch": 0.998}}
    found = {"evaluation": {"results": {size: {"speed_ratio": each} for size, each in ratios.items()}}}
    assert "Others are faster: Evaluation (medium 0.94 of PyTorch)." in report.better_section(found)
    training = {"small": {"words_per_second": {"keras-tying": 2.0}, "speed_ratio": {}}}
    readme = report.summary({**found, "training": {"results": training}})
    assert (
        "Others are faster in some cases of: Evaluation. [All these cases](benchmarks/README.md#where-others" in readme
    )
    del found["evaluation"]["results"]["medium"]
    assert report.better_section(found) == []
    assert "Others" not in report.summary({**found, "training": {"results": training}})


def test_where_others_take_less_memory_the_pages_say_so():
    ratios = {"10,000 words": {"memory returned": 1.2, "PyTorch": 0.6}, "20,000 words": {"PyTorch": 1.52}}
    results = {size: {"memory_ratio": each} for size, each in ratios.items()}
    found = {"joint_language_model": {"results": results}}
    named = "Others take less memory: Joint language models (20,000 words 1.52 of PyTorch)."
    assert report.better_section(found)[-1] == named
    unreliable = "Memory was not measured reliably: Translation."
    assert report.better_section({**found, "translation": {"results": results}})[-3:] == [named, "", unreliable]
    assert report.better_section({"joint_language_model": {"results": {"10,000 words": results["10,000 words"]}}}) == []


def test_where_the_speed_of_pytorch_is_not_reliable_the_page_says_so():
    found = {"output_layer": {"results": {"10,000 words": {"speed_ratio": {"PyTorch": 1.25}}}}}
    assert report.better_section(found)[-1] == "The speed of PyTorch was not measured reliably: Output layer."


def test_the_profile_counts_the_operations_of_a_step():
    found = operations.profile("evaluation", TINY, 5)
    assert found["operations"]["matrix products"] >= TINY.layers * TINY.sequence_length + 1
    assert 0 < found["milliseconds"]["matrix products"] < 1000
    table = report.operations_table({"small": found})
    assert f"({found['operations']['matrix products']})" in table


def test_runs_on_cores_begin_each_round_together(monkeypatch):
    calls = []

    class Worker:
        def __init__(self, kind, name, size, work):
            self.cores = os.sched_getaffinity(0)

        def begin_turn(self):
            calls.append(("begin", *self.cores))

        def end_turn(self):
            calls.append(("end", *self.cores))
            return 0.5

        def close(self):
            calls.append(("close", *self.cores))

    affinity = [{0, 1}]
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: affinity[-1])
    monkeypatch.setattr(os, "sched_setaffinity", lambda process, cores: affinity.append(cores))
    monkeypatch.setattr(cores, "Worker", Worker)
    assert cores.words_per_second("training", [[0], [1]], TINY, steps=3) == 2 * TINY.words * 3 / 0.5
    together = [("begin", 0), ("begin", 1), ("end", 0), ("end", 1)]
    assert calls == together * cores.ROUNDS + [("close", 0), ("close", 1)]
    assert affinity[-1] == {0, 1}


def test_a_contender_works_in_its_own_process():
    worker = measure.Worker("training", "keras-tying", TINY, 2)
    assert worker.turn() > 0
    assert worker.close() >= 0


def test_the_table_of_cores_rounds_its_figures():
    rows = report.cores_table({"float32": {"words_per_second": 1234.5, "million_words_per_core_hour": 2.346}})
    assert "| float32 | 1,234 | 2.35 |" in rows


@pytest.fixture
def made_parts(monkeypatch):
    """Runs `python -m benchmarks.run` with parts that measure nothing. Returns what it records, by part."""
    monkeypatch.setattr(run, "PARTS", {"training": lambda rounds: {"rounds": rounds}})
    monkeypatch.setattr(run, "ON_GPU", {"training_on_gpu": lambda rounds: {"rounds": rounds}})
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "true")
    recorded = {}
    monkeypatch.setattr(run, "record", lambda name, command, results: recorded.update({name: command}))

    def made(*parts):
        recorded.clear()
        monkeypatch.setattr("sys.argv", ["run", *parts])
        run.main()
        return recorded

    return made


def test_a_part_on_a_gpu_is_made_where_there_is_one_and_it_is_asked_for(made_parts, monkeypatch, capsys):
    assert made_parts() == {"training": "python -m benchmarks.run training --rounds 5"}
    with pytest.raises(SystemExit):
        made_parts("training_on_gpu")
    assert "needs KERAS_BACKEND=jax and a GPU. Received: " in capsys.readouterr().err
    monkeypatch.setattr(run, "BACKEND", "jax")
    monkeypatch.setattr(run, "accelerators", lambda: ["a GPU"])
    command = "KERAS_BACKEND=jax python -m benchmarks.run training_on_gpu --rounds 5"
    assert made_parts("training_on_gpu") == {"training_on_gpu": command}


def test_a_comparison_on_a_gpu_has_no_memory(monkeypatch):
    monkeypatch.setattr(run, "compare", lambda *rest: {"speed_ratio": {}, "memory_ratio": {}, "peak_memory_mib": {}})
    assert run.training_on_gpu(3) == {"medium": {"speed_ratio": {}}, "large": {"speed_ratio": {}}}
