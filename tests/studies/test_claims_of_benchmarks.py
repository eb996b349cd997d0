"""Sentences on speed and time state what was measured."""

import pytest

from benchmarks.run import RESULTS as BENCHMARKS
from tests.studies.claims import check, gpu_minutes, results


def communication_claims():
    steps = results("communication", BENCHMARKS)["steps_of"]

    def row(variant, workers, key):
        return steps[variant][workers][f"{key}_a_step"], steps[variant][workers][f"predicted_{key}_a_step"]

    def ratio(*place):
        measured, predicted = row(*place)
        return measured / predicted

    several = [(variant, workers) for variant in steps for workers in ("2", "4")]
    assert all(abs(ratio(*place, "bytes_sent") - 1) <= 0.01 for place in several)
    seconds = [ratio(*place, "seconds") for place in several]
    (two, predicted_two), (four, predicted_four) = (
        [
            untied - rows
            for untied, rows in zip(*(row(v, workers, "seconds") for v in ("untied", "untied, rows")), strict=True)
        ]
        for workers in ("2", "4")
    )
    return [
        f"The measured seconds are {min(seconds):.1f} to {max(seconds):.1f} times the predicted ones",
        f"rows save {two:.2f} seconds per step on two workers and {four:.2f} on four; their bytes predict "
        f"{predicted_two:.2f} and {predicted_four:.2f}.",
    ]


def precision_claims():
    slow, *fast = (
        [each["words_per_second"]["keras-tying"] for each in results(name, BENCHMARKS)["results"].values()]
        for name in ("training", "superseded/training_in_bfloat16_5", "training_in_bfloat16")
    )
    ratios = [[speed / plain for speed in speeds] for plain, *speeds in zip(slow, *fast, strict=True)]
    cores = results("cores", BENCHMARKS)["results"]
    for runs in ("one run on all cores", "a run on each core"):  # of the large model
        by_precision = [cores[f"{precision}, {runs}"]["words_per_second"] for precision in ("bfloat16", "float32")]
        ratios[-1].append(by_precision[0] / by_precision[1])
    assert [len(each) for each in ratios] == [2, 2, 4]
    small, medium, large = (f"{min(each):.1f} to {max(each):.1f} times" for each in ratios)
    gain, narrow_gain = (
        cores[f"{precision}, a run on each core"]["million_words_per_core_hour"]
        / cores[f"{precision}, one run on all cores"]["million_words_per_core_hour"]
        for precision in ("float32", "bfloat16")
    )
    return [
        f"the small model {small} as fast, the medium one {medium} (two measurements each) and the large one {large} "
        "(four).",
        f"train {gain:.1f} times as many words of the large model in float32 as one run on all cores, and "
        f"{narrow_gain:.1f} times as many",
    ]


def growth_claims():
    grown = results("growth", BENCHMARKS)["results"]["units"]["seconds_a_step"]["PyTorch"]["200"]
    words_per_second = results("training", BENCHMARKS)["results"]["small"]["words_per_second"]["PyTorch"]
    less = 1 - 1 / words_per_second / (grown / (20 * 20))  # a step has 20 rows of 20 words
    return [
        f"The {1000 * grown:.0f} ms of PyTorch with 200 units are probably an outlier: in training, a step with 200 "
        f"units takes {100 * less:.0f}% less time per word."
    ]


def training_claims():
    large = results("ptb_large_tied")
    return [*precision_claims(), f"took {gpu_minutes()[0]} minutes for its {large['epochs']} epochs"]


CLAIMS = {
    "../benchmarks/README.md": growth_claims,
    "../docs/distributed.md": communication_claims,
    "../docs/training.md": training_claims,
}


@pytest.mark.parametrize("page", CLAIMS)
def test_what_a_page_says_is_what_was_measured(page):
    check(page, CLAIMS[page]())
