"""Tables of the measurements with several workers and of large texts, for docs/distributed.md and docs/training.md."""

import json
from math import inf
from pathlib import Path

from benchmarks.step_time import CLUSTER, GIGABIT, MANY, break_even, compute_seconds
from studies.pages import NOT_MEASURED, made_by, number, table

MEGABYTE = 1e6


def sections(results: Path) -> dict[str, str]:
    """The text of each section, by the name of its measurement."""
    makers = {"communication": communication, "soak": soak, "corpora": corpora, "stragglers": stragglers}
    paths = {name: results / f"{name}.json" for name in makers}
    return {
        name: "\n\n".join(make(json.loads(paths[name].read_text()))) if paths[name].exists() else NOT_MEASURED
        for name, make in makers.items()
    }


def communication(measured: dict) -> list[str]:
    steps_of, network = measured["steps_of"], measured["network"]
    steps = [
        [
            variant,
            workers,
            f"{row['bytes_sent_a_step'] / MEGABYTE:.2f}",
            f"{row['predicted_bytes_sent_a_step'] / MEGABYTE:.2f}",
            f"{row['seconds_a_step']:.3f}",
            f"{row['predicted_seconds_a_step']:.3f}",
            f"{row['seconds_a_step_alone']:.3f}",
        ]
        for variant, rows in steps_of.items()
        for workers, row in rows.items()
    ]
    columns = ["", "workers", "MB per worker and step", "predicted", "seconds per step", "predicted"]
    columns += ["without communication"]
    compute = compute_seconds(steps_of)
    curves = [break_even(variant, compute, rows["1"]["parameters"]) for variant, rows in steps_of.items()]
    bandwidths = [
        [f"{workers:,}", *(f"{curve[place]:.2f}" if curve[place] < inf else "none" for curve in curves)]
        for place, workers in enumerate(MANY[1:])
        if workers in (2, 16, 128, 1024)
    ]
    return [
        table(columns, "|---|" + "--:|" * 6, steps),
        "Between processes of the measured machine the latency of a transfer is "
        f"{1e3 * network['latency']:.2f} ms and the bandwidth is {network['bandwidth'] / GIGABIT:.1f} Gbit/s, fitted "
        "to sums of arrays of 1 KiB to 16 MiB. Predicted bytes are those of the arrays; measured bytes are those of "
        "the network interface.",
        "Break-even: the bandwidth in Gbit/s at which communication takes as long as computing on one worker "
        f"({compute:.3f} seconds, the mean of the variants, which compute the same), at "
        f"{1e6 * CLUSTER['latency']:.0f} µs per transfer; none where latency alone takes longer:",
        table(["workers", *steps_of], "|--:" * (1 + len(steps_of)) + "|", bandwidths),
        made_by(measured),
    ]


def stragglers(measured: dict) -> list[str]:
    seconds = measured["seconds_a_step"]
    columns = ["pause, seconds", *(f"seconds per step, {kind}" for kind in seconds)]
    rows = [
        [f"{float(pause):g}", *(f"{steps[pause]:.3f}" for steps in seconds.values())]
        for pause in next(iter(seconds.values()))
    ]
    return [table(columns, "|--:" * len(columns) + "|", rows), made_by(measured)]


def soak(measured: dict) -> list[str]:
    rows = []
    for name, run in {"killed repeatedly": measured["killed"], "not interrupted": measured["left_alone"]}.items():
        signals = [how for *_, how in run["kills"]]
        counts = [f"{signals.count(each)}" for each in ("SIGKILL", "SIGTERM")]
        growth = number(run["memory_growth_mebibytes_a_minute"], "+.2f", NOT_MEASURED)
        rows.append([name, f"{run['minutes']}", *counts, f"{run['test_perplexity']:.6f}", growth])
    columns = ["two workers", "minutes", "killed", "asked to stop", "test perplexity", "memory growth, MiB per minute"]
    same = {True: "the same", False: "not the same"}
    difference = measured["largest_relative_difference_of_training_perplexities"]
    return [
        table(columns, "|---|" + "--:|" * 5, rows),
        f"Weights and optimizer at the end, bit for bit: {same[measured['same_weights']]}. Validation perplexities of "
        f"all epochs: {same[measured['same_validation_perplexities']]}. Training perplexities: the relative difference "
        f"is at most {difference:.0e}, because their sums are rounded where a run is continued.",
        made_by(measured),
    ]


def corpora(measured: dict) -> list[str]:
    rows = []
    for text in measured["texts"]:
        preparing, reading, training = text["preparing"], text["reading"], text["training_for_a_minute"]
        rows.append(
            [
                f"{text['gibibytes']:g}",
                f"{text['tokens']:,}",
                f"{text['prepared_gibibytes']:.2f}",
                f"{preparing['tokens_per_second']:,}",
                f"{preparing['largest_process_mebibytes']:,}",
                f"{preparing['together_mebibytes']:,}",
                f"{reading['tokens_per_second']:,}",
                f"{reading['largest_process_mebibytes']:,}",
                f"{training['largest_process_mebibytes']:,}",
            ]
        )
    columns = ["text, GiB", "tokens", "prepared, GiB", "preparing: tokens per second", "MiB, largest process"]
    columns += ["MiB, all processes", "reading: tokens per second", "MiB", "training: MiB"]
    return [table(columns, "|" + "--:|" * 9, rows), made_by(measured)]
