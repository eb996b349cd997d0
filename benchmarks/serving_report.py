"""Tables and the plot of the measurements of a service under load, for docs/serving.md."""

import json
from pathlib import Path

from matplotlib.axes import Axes

from benchmarks.serving_load import CLIENTS
from studies.pages import NOT_MEASURED, made_by, table
from studies.plots import COLOURS, panels, write_png

PARTS = "speed", "killed", "memory"
TASKS = "scoring", "next words", "translation"
KEYS = "sentences_per_second", "p50_milliseconds", "p99_milliseconds"


def section(results: Path) -> str:
    """The text about speed, killed processes and memory."""
    found = read(results)
    makers = {"speed": speed, "killed": killed, "memory": memory}
    parts = [part for name, make in makers.items() for part in (make(found[name]) if name in found else [NOT_MEASURED])]
    if found:
        parts.insert(
            0, "![Speed and latency by clients, answers per second, memory](../benchmarks/results/serving.png)"
        )
    return "\n\n".join(parts)


def speed(measured: dict) -> list[str]:
    results = measured["results"]
    rows = [
        [task, mode, str(clients), *(f"{each[key]:,.0f}" for key in KEYS)]
        for task in TASKS
        for mode in results["modes"]
        for clients, each in results[task][mode].items()
    ]
    columns = ["", "requests", "clients", "sentences per second", "p50, ms", "p99, ms"]
    return [table(columns, "|---|---|" + "--:|" * 4, rows), made_by(measured)]


def killed(measured: dict) -> list[str]:
    results = measured["results"]
    (_, model), (_, gate) = results["killed"]
    after = results["statuses_after"]
    requests, right, wrong = (results[key] for key in ("requests", "answered_as_before", "answered_otherwise"))
    text = (
        f"{results['clients']} clients ask {results['replicas']} replicas through {results['gates']} gates. "
        f"A replica of {model} is killed, and later a gate. Statuses of the answers: {_statuses(after['start'])} "
        f"before, {_statuses(after[f'{model} killed'])} after the replica was killed, "
        f"{_statuses(after[f'{gate} killed'])} after the gate was killed. {right:,} of {requests:,} answers equal "
        f"those given before (to 0.1%), {wrong:,} differ, and {requests - right - wrong:,} are errors. The longest "
        f"wait was {results['longest_seconds']:.1f} seconds."
    )
    return [text, made_by(measured)]


def memory(measured: dict) -> list[str]:
    results = measured["results"]
    rows = [
        [f"`{name}`", f"{results['memory'][0][2][name]:,}", f"{results['memory'][-1][2][name]:,}", f"{growth:+.1f}"]
        for name, growth in results["growth_mebibytes_per_100000_requests"].items()
    ]
    columns = ["process", "MiB at the start", "MiB at the end", "growth, MiB per 100,000 requests"]
    text = (
        f"Memory over {results['requests']:,} requests of {results['clients']} clients, "
        f"{results['minutes']:g} minutes. Statuses of the answers: {_statuses(results['statuses'])}. "
        "The growth is that after the first fifth of the requests."
    )
    return [text, table(columns, "|---|--:|--:|--:|", rows), made_by(measured)]


def draw(found: dict[str, dict], path: Path) -> None:
    """Plots what was measured."""
    figure, (rate, latency, answers, resident) = panels(2, 2, (5, 3.4))
    if "speed" in found:
        _draw_speed(rate, latency, found["speed"]["results"])
    if "killed" in found:
        _draw_killed(answers, found["killed"]["results"])
    if "memory" in found:
        _draw_memory(resident, found["memory"]["results"])
    write_png(figure, path, dpi=90, data={name: each["results"] for name, each in found.items()})


def _draw_speed(rate: Axes, latency: Axes, results: dict) -> None:
    places = range(len(CLIENTS))
    for task, colour in zip(TASKS, COLOURS, strict=False):
        for mode, line in zip(results["modes"], ("-", "--"), strict=True):
            each = [results[task][mode][str(clients)] for clients in CLIENTS]
            style = {"color": colour, "linestyle": line, "marker": "o", "label": f"{task}, {mode}"}
            rate.plot(places, [point["sentences_per_second"] for point in each], **style)
            latency.plot(places, [point["p99_milliseconds"] for point in each], **style)
    for axes, label in (rate, "sentences per second"), (latency, "p99 latency, ms"):
        axes.set(xlabel="clients", ylabel=label, xticks=places, xticklabels=CLIENTS, ylim=0)
    latency.legend(fontsize=8)


def _draw_killed(axes: Axes, results: dict) -> None:
    axes.plot(results["answers_per_second"][:-1], color=COLOURS[0])  # the last second is not a whole one
    for place, (at, name) in enumerate(results["killed"]):
        label = "gate killed" if name == "Gate" else "replica killed"
        axes.axvline(at, color=COLOURS[1 + place], linestyle="--", label=label)
    axes.set(xlabel="seconds", ylabel="answers per second", ylim=0)
    axes.legend(fontsize=8)


def _draw_memory(axes: Axes, results: dict) -> None:
    for name in results["growth_mebibytes_per_100000_requests"]:
        points = [(count, each[name]) for count, _, each in results["memory"]]
        axes.plot(*zip(*points, strict=True), label=name.removeprefix("ServeReplica:keras-tying:"))
    axes.set(xlabel="requests", ylabel="MiB", ylim=0)
    axes.legend(fontsize=6)


def read(results: Path) -> dict[str, dict]:
    """The recorded measurements by part."""
    paths = {name: results / f"serving_{name}.json" for name in PARTS}
    return {name: json.loads(path.read_text()) for name, path in paths.items() if path.exists()}


def _statuses(counts: dict[str, int]) -> str:
    """Counts of answers by status.

    >>> _statuses({"200": 1117, "503": 2})
    '1,117 with 200, 2 with 503'
    """
    return ", ".join(f"{count:,} with {status}" for status, count in counts.items())
