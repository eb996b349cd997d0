import argparse
from pathlib import Path

from studies.results import read_results, recorded_command, write_results


def test_results_survive_their_file(tmp_path):
    path = tmp_path / "results" / "one.json"
    assert read_results(path) is None
    write_results(path, {"distance": 0.5})
    assert read_results(path) == {"distance": 0.5}


def test_a_recorded_command_has_no_paths_and_no_defaults():
    parser = argparse.ArgumentParser(prog="some.py")
    parser.add_argument("runs", nargs="+", type=Path)
    for name, kind in (("set", Path), ("taus", float), ("words", int), ("output", Path), ("data-dir", Path)):
        parser.add_argument(f"--{name}", type=kind, nargs="+" if kind is float else None)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--record", action="store_true")
    given = "here/a here/b --set here/own.txt --taus 1 0.5 --output here/out --data-dir here --seeds 2 --record"
    command = recorded_command(parser, parser.parse_args(given.split()), "runs")
    assert command == "python train/some.py a b --set own.txt --taus 1 0.5 --data-dir DIR --record"
