import os

import pytest

import keras_tying as kt
from keras_tying.data import Bitext, Corpus, PreparedCorpus, prepare_aligned, prepare_pairs, prepare_text
from keras_tying.data.prepared.shards import write_shard
from keras_tying.data.prepared.writing import in_order, open_pool
from keras_tying.files import write_atomically

SHARD = 20_000
"""Characters per shard, for several shards."""


class Stop(Exception):
    pass


def test_an_interrupted_preparation_is_resumed(text, uninterrupted, tmp_path, files):
    done = []

    def stop_after_three_shards(stage, tokens):
        done.append(stage)
        if done.count("train") == 3:
            raise Stop

    folder = tmp_path / "stopped"
    with pytest.raises(Stop):
        prepare_text(folder, text, size=300, report=stop_after_three_shards, characters=SHARD)
    with pytest.raises(ValueError, match=r"train is not complete: .* interrupted. Run the command again"):
        PreparedCorpus(folder).ids("train", uninterrupted.vocabulary())

    index, first = folder / "train" / "index.jsonl", folder / "train" / "00000.array_record"
    index.write_text(index.read_text()[:-30])  # interrupted while the index was written
    written = first.stat().st_mtime_ns
    prepare_text(folder, text, characters=SHARD)
    assert first.stat().st_mtime_ns == written
    assert files(folder) == files(uninterrupted.folder)


@pytest.mark.parametrize("kind", ["text", "pairs", "aligned"])
def test_an_attempt_that_wrote_no_shard_leaves_no_words(kind, pairs, tmp_path, monkeypatch, files):
    def prepare(name, changed, **size):
        some = [(changed(source), changed(target)) for source, target in pairs.pairs("valid")]
        paths = [tmp_path / each for each in ("source", "target", "links")]
        for path, lines in zip(paths, [*zip(*some, strict=True), [""] * len(some)], strict=True):
            path.write_text("".join(f"{line}\n" for line in lines))
        if kind == "text":
            prepare_text(tmp_path / name, Corpus("some", {"train": paths[0]}, "plain"), **size)
        elif kind == "pairs":
            prepare_pairs(tmp_path / name, kt.data.ParallelCorpus("some", {"train": some}), **size)
        else:
            prepare_aligned(tmp_path / name, {"train": Bitext(*paths)}, **size)

    def full(*_):
        raise OSError("no space")

    with monkeypatch.context() as context:
        context.setattr("keras_tying.data.prepared.writing.write_shard", full)
        with pytest.raises(OSError, match="no space"):
            prepare("text", str.upper, size=210)
    prepare("text", str, size=200)
    prepare("expected", str, size=200)
    assert files(tmp_path / "text") == files(tmp_path / "expected")


def test_a_complete_text_that_goes_on_can_be_interrupted(tmp_path):
    def corpus(lines):
        return Corpus("files", {"train": [f"a rose {number}" for number in range(lines)]}, "spaces")

    done = []

    def stop_after_five(*_):
        done.append(1)
        if len(done) == 5:
            raise OSError("no space")

    vocabulary = prepare_text(tmp_path / "text", corpus(3), characters=1).vocabulary()
    with pytest.raises(OSError, match="no space"):
        prepare_text(tmp_path / "text", corpus(6), vocabulary, characters=1, report=stop_after_five)
    prepare_text(tmp_path / "text", corpus(6), vocabulary, characters=1)
    prepare_text(tmp_path / "expected", corpus(6), vocabulary, characters=1)
    assert (tmp_path / "text/train/index.jsonl").read_bytes() == (tmp_path / "expected/train/index.jsonl").read_bytes()


@pytest.fixture
def damaged(text, tmp_path):
    """A damaged file of a prepared text, with one changed byte."""
    prepare_text(tmp_path, text, size=300, characters=SHARD)
    path = tmp_path / "train" / "00002.array_record"
    content = bytearray(path.read_bytes())
    content[200] ^= 255
    path.write_bytes(content)
    return path


def test_a_damaged_file_is_named_and_prepared_again(text, damaged, uninterrupted, run_python, files):
    prepared = PreparedCorpus(damaged.parents[1])
    ids = prepared.ids("train", prepared.vocabulary())
    with pytest.raises(ValueError, match=r"00002.array_record is damaged .* Remove it and prepare the text again"):
        ids[:]
    with pytest.raises(AssertionError, match=r"00002.array_record is damaged"):
        run_python("train/prepare.py", "check", prepared.folder)

    damaged.unlink()
    with pytest.raises(FileNotFoundError, match=r"00002.array_record is missing. Prepare the text again"):
        prepared.ids("train", prepared.vocabulary())
    prepare_text(prepared.folder, text, characters=SHARD)
    assert files(prepared.folder) == files(uninterrupted.folder)


def test_a_truncated_file_is_named(damaged):
    damaged.write_bytes(damaged.read_bytes()[:1000])
    prepared = PreparedCorpus(damaged.parents[1])
    with pytest.raises(ValueError, match=r"00002.array_record is damaged \(expected 2 records, received 0\)"):
        prepared.ids("train", prepared.vocabulary())[:]


def test_a_full_disk_leaves_no_truncated_file(text, tmp_path, run_python):
    code = (
        "import resource, sys; from keras_tying import data\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))\n"
        "text = data.Corpus('some', {'train': [f'{i} {i * 7 % 20_000}' for i in range(20_000)] * 5})\n"
        "data.prepare_text(sys.argv[1], text, data.Vocabulary(['<unk>', '<eos>', *map(str, range(20_000))]))"
    )
    with pytest.raises(AssertionError, match=r"OSError: .*00000.array_record cannot be written: .*File too large"):
        run_python("-c", code, tmp_path, KERAS_BACKEND="numpy")
    assert [path.name for path in (tmp_path / "train").iterdir()] == []


def test_what_a_killed_process_left_is_removed(text, tmp_path):
    left = tmp_path / "train" / ".00003.array_record.abcd.unfinished"
    prepare_text(tmp_path, text, size=300, characters=SHARD)
    left.mkdir()
    prepare_text(tmp_path, text, characters=SHARD)
    assert not left.exists()


def test_a_process_of_the_pool_that_is_killed_is_named():
    with open_pool(2) as pool, pytest.raises(OSError, match=r"A process was killed. Run the command again"):
        list(in_order(lambda code: pool.submit(os._exit, code), [1], ahead=3))


def test_an_interrupted_shard_leaves_no_file(tmp_path):
    def broken():
        yield b"one"
        raise Stop

    with pytest.raises(Stop):
        write_shard(tmp_path / "shard", broken(), "", {})
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_another_process_prepares_is_refused(text, tmp_path):
    def meanwhile(stage, tokens):
        if stage == "train":
            prepare_text(tmp_path, text, characters=SHARD)

    with pytest.raises(BlockingIOError, match=r"is being prepared by another process"):
        prepare_text(tmp_path, text, size=300, report=meanwhile, characters=SHARD)
    prepare_text(tmp_path, text, characters=SHARD)


def test_of_two_processes_on_a_new_folder_one_is_refused(text, tmp_path, monkeypatch):
    began = []

    def meanwhile(path, content):
        if not began:
            began.append(path)
            with pytest.raises(BlockingIOError, match=r"is being prepared by another process"):
                prepare_text(tmp_path, text, size=200, characters=SHARD)
        write_atomically(path, content)

    monkeypatch.setattr("keras_tying.data.prepared.folder.write_atomically", meanwhile)
    prepared = prepare_text(tmp_path, text, size=300, characters=SHARD)
    assert began
    assert len(prepared.vocabulary()) == 300


def test_a_text_goes_on_that_was_killed_in_its_first_write(text, tmp_path):
    left = tmp_path / ".prepared.toml.abcd.unfinished"
    left.touch()
    (tmp_path / "prepare.lock").touch()
    prepare_text(tmp_path, text, size=300, characters=SHARD)
    assert not left.exists()


def test_a_text_of_an_earlier_version_without_a_lock_goes_on(text, tmp_path, files):
    prepare_text(tmp_path, text, size=300, characters=SHARD)
    before = files(tmp_path)
    (tmp_path / "prepare.lock").unlink()
    prepare_text(tmp_path, text, characters=SHARD)
    assert files(tmp_path) == before
