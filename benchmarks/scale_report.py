"""Tables of the measurements with several workers and of large texts, for docs/distributed.md and docs/training.md."""

import json
from math import inf
from pathlib import Path

from benchmarks.step_time import CLUSTER, GIGABIT, MANY, break_even, compute_seconds
from studies.pages import NOT_MEASURED, origin

MEGABYTE = 1e6


def sections(results: Path) -> dict[str, list[str]]:
    """Lines of each section, by the name of its measurement."""
    makers = {"communication": communication, "soak": soak, "corpora": corpora, "stragglers": stragglers}
    paths = {name: results / f"{name}.json" for name in makers}
    return {
        name: make(json.loads(paths[name].read_text())) if paths[name].exists() else [NOT_MEASURED]
        for name, make in makers.items()
    }


def communication(measured: dict) -> list[str]:
    lines = [
        "| | workers | MB per worker and step | predicted | seconds per step | predicted | without communication |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for variant, rows in measured["steps_of"].items():
        for workers, row in rows.items():
            lines.append(
                f"| {variant} | {workers} | {row['bytes_sent_a_step'] / MEGABYTE:.2f} "
                f"| {row['predicted_bytes_sent_a_step'] / MEGABYTE:.2f} "
                f"| {row['seconds_a_step']:.3f} | {row['predicted_seconds_a_step']:.3f} "
                f"| {row['seconds_a_step_alone']:.3f} |"
            )
    network, compute = measured["network"], compute_seconds(measured["steps_of"])
    lines += [
        "",
        "Between processes of the measured machine the latency of a transfer is "
        f"{1e3 * network['latency']:.2f} ms and the bandwidth is {network['bandwidth'] / GIGABIT:.1f} Gbit/s, fitted "
        "to sums of arrays of 1 KiB to 16 MiB. Predicted bytes are those of the arrays; measured bytes are those of "
        "the network interface.",
        "",
        "Break-even: the bandwidth in Gbit/s at which communication takes as long as computing on one worker "
        f"({compute:.3f} seconds, the mean of the variants, which compute the same), at "
        f"{1e6 * CLUSTER['latency']:.0f} µs per transfer; none where latency alone takes longer:",
        "",
        "| workers | " + " | ".join(measured["steps_of"]) + " |",
        "|--:" * (1 + len(measured["steps_of"])) + "|",
    ]
    curves = {
        variant: break_even(variant, compute, rows["1"]["parameters"]) for variant, rows in measured["steps_of"].items()
    }
    for place, workers in enumerate(MANY[1:]):
        if workers in (2, 16, 128, 1024):
            cells = (f"{curve[place]:.2f}" if curve[place] < inf else "none" for curve in curves.values())
            lines.append(f"| {workers:,} | {' | '.join(cells)} |")
    lines += ["", *_made_by(measured)]
    return lines


def stragglers(measured: dict) -> list[str]:
    lines = [
        "| pause, seconds | " + " | ".join(f"seconds per step, {kind}" for kind in measured["seconds_a_step"]) + " |"
    ]
    lines += ["|--:" * (1 + len(measured["seconds_a_step"])) + "|"]
    for pause in next(iter(measured["seconds_a_step"].values())):
        cells = (f"{steps[pause]:.3f}" for steps in measured["seconds_a_step"].values())
        lines.append(f"| {float(pause):g} | {' | '.join(cells)} |")
    return [*lines, "", *_made_by(measured)]


def soak(measured: dict) -> list[str]:
    rows = {"killed repeatedly": measured["killed"], "not interrupted": measured["left_alone"]}
    lines = [
        "| two workers | minutes | killed | asked to stop | test perplexity | memory growth, MiB per minute |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for name, run in rows.items():
        signals = [how for *_, how in run["kills"]]
        growth = run["memory_growth_mebibytes_a_minute"]
        lines.append(
            f"| {name} | {run['minutes']} | {signals.count('SIGKILL')} | {signals.count('SIGTERM')} "
            f"| {run['test_perplexity']:.6f} | {NOT_MEASURED if growth is None else f'{growth:+.2f}'} |"
        )
    same = {True: "the same", False: "not the same"}
    difference = measured["largest_relative_difference_of_training_perplexities"]
    return [
        *lines,
        "",
        f"Weights and optimizer at the end, bit for bit: {same[measured['same_weights']]}. Validation perplexities of "
        f"all epochs: {same[measured['same_validation_perplexities']]}. Training perplexities: the relative difference "
        f"is at most {difference:.0e}, because their sums are rounded where a run is continued.",
        "",
        *_made_by(measured),
    ]


def corpora(measured: dict) -> list[str]:
    lines = [
        "| text, GiB | tokens | prepared, GiB | preparing: tokens per second | MiB, largest process "
        "| MiB, all processes | reading: tokens per second | MiB | training: MiB |",
        "|" + "--:|" * 9,
    ]
    for text in measured["texts"]:
        preparing, reading, training = text["preparing"], text["reading"], text["training_for_a_minute"]
        lines.append(
            f"| {text['gibibytes']:g} | {text['tokens']:,} | {text['prepared_gibibytes']:.2f} "
            f"| {preparing['tokens_per_second']:,} | {preparing['largest_process_mebibytes']:,} "
            f"| {preparing['together_mebibytes']:,} | {reading['tokens_per_second']:,} "
            f"| {reading['largest_process_mebibytes']:,} | {training['largest_process_mebibytes']:,} |"
        )
    return [*lines, "", *_made_by(measured)]


def _made_by(measured: dict) -> list[str]:
    return [f"{origin(measured)}: `{measured['command']}`."]
