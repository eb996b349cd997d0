import gzip
import json
from argparse import Namespace
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

import keras_tying as kt
from keras_tying.commands import main
from keras_tying.commands.prepare import check_files
from keras_tying.data import (
    Bitext,
    Corpus,
    PairBatches,
    PreparedAligned,
    PreparedCorpus,
    PreparedPairs,
    SentencePairs,
    Subwords,
    Vocabulary,
    prepare_aligned,
    prepare_pairs,
    prepare_text,
    sentences_of,
    windows,
)
from keras_tying.data.prepared import aligned
from keras_tying.data.prepared.shards import write_shard
from keras_tying.data.prepared.writing import open_pool
from keras_tying.files import write_atomically

SHARD = 20_000
"""Characters per shard, for several shards."""


@pytest.fixture(scope="module")
def text(corpus):
    return Corpus("some", {split: corpus.splits[split][:3000] for split in ("train", "valid")}, "plain")


@pytest.fixture(scope="module")
def uninterrupted(text, tmp_path_factory):
    return prepare_text(tmp_path_factory.mktemp("prepared"), text, size=300, characters=SHARD)


@pytest.fixture(scope="module")
def pairs():
    return kt.data.load_parallel("embedded", "en", "de")


@pytest.fixture(scope="module")
def subwords(pairs):
    return Subwords.learn(sentences_of(pairs.splits["valid"]), 200)


def files(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_prepared_text_equals_the_text(text, uninterrupted, rng):
    vocabulary = text.vocabulary(300)
    assert uninterrupted.vocabulary().words == vocabulary.words
    for split in text.splits:
        expected, received = text.ids(split, vocabulary), uninterrupted.ids(split, vocabulary)
        assert len(received.shards) > 1
        assert len(received) == len(expected)
        np.testing.assert_array_equal(received[:], expected)
        for start, stop in rng.integers(-len(expected), len(expected), (20, 2)):
            np.testing.assert_array_equal(received[start:stop], expected[start:stop])
        np.testing.assert_array_equal(windows(received, 7, 5).inputs, windows(expected, 7, 5).inputs)


def test_slices_cross_records(tmp_path, corpus):
    training = Corpus("training", {"train": corpus.splits["train"]}, "plain")
    prepared = prepare_text(tmp_path, training)
    vocabulary = prepared.vocabulary()
    received = prepared.ids("train", vocabulary)
    assert received.shards.shards[0].records > 10
    np.testing.assert_array_equal(received[4000:9000], training.ids("train", vocabulary)[4000:9000])


def test_prepared_pairs_equal_the_pairs(pairs, subwords, tmp_path):
    prepared = prepare_pairs(tmp_path, pairs, subwords, maximum_length=20, characters=SHARD).pairs("train", subwords)
    expected = SentencePairs.encode(pairs.pairs("train"), subwords, subwords, maximum_length=20)
    assert len(prepared.shards) > 16
    assert len(prepared) == len(expected)
    assert prepared.overlap() == expected.overlap()
    for name in ("skipped", "too_long", "source_tokens", "target_tokens"):
        assert getattr(prepared, name) == getattr(expected, name)
    assert PreparedPairs(tmp_path).languages == ["en", "de"]
    chosen = np.random.default_rng(0).permutation(len(prepared))[:50]
    for received, pair in zip(prepared.sentences(chosen), expected.sentences(chosen), strict=True):
        np.testing.assert_array_equal(np.concatenate(received), np.concatenate(pair))


def test_every_pair_of_many_shards_is_in_one_batch_of_an_epoch(pairs, subwords, tmp_path):
    prepared = prepare_pairs(tmp_path, pairs, subwords, characters=SHARD).pairs("train", subwords)
    batches = PairBatches(prepared, 600, seed=1)
    orders = [[chosen.tolist() for chosen in batches.order(epoch)] for epoch in (0, 1, 0)]
    assert orders[0] == orders[2] != orders[1]
    for order in orders:
        assert sorted(chain.from_iterable(order)) == list(range(len(prepared)))
        assert len(order) == len(batches)
    assert batches.order(1)[len(batches) - 1].tolist() == orders[1][-1]  # without reading the batches before it
    shards = {int(np.searchsorted(prepared.starts, chosen[0], side="right")) for chosen in orders[0][:50]}
    assert 3 < len(shards) <= 16


@pytest.fixture
def bitexts(pairs, tmp_path):
    """Aligned files of some pairs, with links along the diagonal."""

    def written(split, pairs):
        columns = zip(*((s, t, _diagonal(s, t)) for s, t in pairs), strict=True)
        paths = [tmp_path / f"{split}.{side}" for side in ("en", "de", "align")]
        for path, column in zip(paths, columns, strict=True):
            path.write_text("".join(f"{line}\n" for line in column))
        return Bitext(*paths)

    text = list(pairs.pairs("train"))
    return {"train": written("train", text[:1500]), "valid": written("valid", text[1500:1600])}


def _diagonal(source, target):
    return " ".join(f"{i}-{i}" for i in range(min(len(source.split()), len(target.split()))))


def test_prepared_aligned_text_equals_the_text(bitexts, tmp_path):
    prepared = prepare_aligned(tmp_path / "prepared", bitexts, source_size=200, size=300, characters=SHARD)
    assert [len(vocabulary) for vocabulary in prepared.vocabularies] == [200, 300]
    for split, text in bitexts.items():
        expected = text.encode(*prepared.vocabularies)
        received = prepared.samples(split, *prepared.vocabularies)
        assert len(received) == len(expected)
        assert received.longest_source == expected.longest_source
        parts = list(map(received.part, range(len(received.part_lengths))))
        assert [len(part) for part in parts] == received.part_lengths
        assert len(parts) > 1 or split == "valid"
        first = 0
        for part in parts:
            chosen, whole = np.arange(len(part)), np.arange(first, first + len(part))
            np.testing.assert_array_equal(part.target_ids, expected.target_ids[whole])
            for inputs in ({"history": 3, "window": 5}, {"history": 1, "sentence": 12}):
                ours, theirs = part.inputs(chosen, **inputs), expected.inputs(whole, **inputs)
                for name in theirs:
                    np.testing.assert_array_equal(ours[name], theirs[name])
            first += len(part)


def test_aligned_text_is_prepared_again_without_change(bitexts, tmp_path):
    folder = tmp_path / "prepared"
    prepare_aligned(folder, {"train": bitexts["train"]}, size=300, characters=SHARD)
    before = files(folder)
    (folder / "train" / "00001.array_record").unlink()
    prepared = prepare_aligned(folder, bitexts, characters=SHARD)
    assert before.items() <= files(folder).items()
    assert len(prepared.samples("valid", *prepared.vocabularies)) > 100


def test_links_of_another_text_are_made_again(bitexts, tmp_path, monkeypatch):
    """An attempt that ended after the alignment leaves its links; the next one may be of another text."""
    folder, aligned_texts = tmp_path / "prepared", []

    def align(texts, place):
        aligned_texts.append(texts)
        lines = ["\n".join(["0-0"] * len(list(text.pairs()))) for text in texts]
        for i, content in enumerate(lines):
            Path(place, f"{i}.align").write_text(content)
        return [text.aligned(Path(place, f"{i}.align")) for i, text in enumerate(texts)]

    monkeypatch.setattr(aligned, "align", align)
    texts = {split: replace(text, alignment=None) for split, text in bitexts.items()}

    def stopped(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as stop:
        stop.setattr(aligned, "write_split", stopped)
        with pytest.raises(KeyboardInterrupt):
            prepare_aligned(folder, texts)
    with texts["train"].source.open("a") as source, texts["train"].target.open("a") as target:
        source.write("a rose\n")
        target.write("eine Rose\n")
    prepare_aligned(folder, texts)
    assert aligned_texts == [list(texts.values()), [texts["train"]]]
    prepare_aligned(folder, texts)
    assert len(aligned_texts) == 2
    with pytest.raises(ValueError, match=r"train.align has the links of another text or tokenization"):
        prepare_aligned(folder, {"train": replace(texts["valid"], alignment=None)})


def test_aligned_text_with_other_links_is_refused(bitexts, tmp_path):
    prepare_aligned(tmp_path / "prepared", bitexts, characters=SHARD)
    links = bitexts["train"].alignment
    links.write_text("0-0 0-0\n" + links.read_text().partition("\n")[2])
    with pytest.raises(ValueError, match=r"00000.array_record was made from another text"):
        prepare_aligned(tmp_path / "prepared", bitexts, characters=SHARD)


def test_a_wrong_link_far_into_aligned_text_is_named_by_its_line(bitexts, tmp_path):
    links = bitexts["train"].alignment
    lines = links.read_text().splitlines()
    lines[1200] = "0-99"
    links.write_text("\n".join(lines) + "\n")
    with pytest.raises(ValueError, match=r"train.align, line 1201: expected target positions below .* Received: 0-99"):
        prepare_aligned(tmp_path / "prepared", bitexts, characters=SHARD)


def test_aligned_text_needs_its_own_words(bitexts, tmp_path):
    with pytest.raises(ValueError, match=r"those of its training split. Received: valid only"):
        prepare_aligned(tmp_path / "prepared", {"valid": bitexts["valid"]})
    prepared = prepare_aligned(tmp_path / "prepared", bitexts, source_size=200, size=300)
    _, target = prepared.vocabularies
    with pytest.raises(ValueError, match=r"another source vocabulary, of 200 words. Received: one of 300"):
        prepared.samples("train", target, target)
    with pytest.raises(ValueError, match=r"prepared with size = 300. Received: 250"):
        prepare_aligned(tmp_path / "prepared", bitexts, size=250)
    with pytest.raises(ValueError, match=r"prepared text. Received: aligned"):
        PreparedCorpus(tmp_path / "prepared")
    with pytest.raises(ValueError, match=r"prepared aligned. Received: text"):
        PreparedAligned(prepare_text(tmp_path / "text", Corpus("some", {"train": ["a"]})).folder)


def test_text_without_links_is_aligned_once(bitexts, tmp_path, monkeypatch):
    asked = []

    def align(texts, folder):
        asked.append([text.source.name for text in texts])
        aligned = [text.aligned(Path(folder, f"{i}.align")) for i, text in enumerate(texts)]
        for text in aligned:
            text.alignment.write_bytes(text.source.with_suffix(".align").read_bytes())
        return aligned

    monkeypatch.setattr("keras_tying.data.prepared.aligned.align", align)
    without = {split: Bitext(text.source, text.target) for split, text in bitexts.items()}
    prepared = prepare_aligned(tmp_path / "prepared", without)
    prepare_aligned(tmp_path / "prepared", without)
    assert asked == [["train.en", "valid.en"]]
    expected = prepare_aligned(tmp_path / "expected", bitexts)
    links = [each.samples("train", *each.vocabularies).part(0).affiliations for each in (prepared, expected)]
    np.testing.assert_array_equal(*links)


def test_a_split_of_several_files_some_gzipped(corpus, tmp_path):
    lines = corpus.splits["valid"]
    (tmp_path / "a").write_text("\n".join(lines[:100]) + "\n")
    (tmp_path / "b.gz").write_bytes(gzip.compress(("\n".join(lines[100:]) + "\n").encode()))
    several = Corpus("files", {"train": [tmp_path / "a", tmp_path / "b.gz"]}, "plain")
    prepared = prepare_text(tmp_path / "prepared", several)
    vocabulary = prepared.vocabulary()
    expected = vocabulary.encode(Corpus("lines", {"train": lines}, "plain").tokens("train"))
    np.testing.assert_array_equal(prepared.ids("train", vocabulary)[:], expected)


class Stop(Exception):
    pass


def test_an_interrupted_preparation_is_resumed(text, uninterrupted, tmp_path):
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
def test_an_attempt_that_wrote_no_shard_leaves_no_words(kind, pairs, tmp_path, monkeypatch):
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


def test_the_number_of_processes_does_not_change_the_files(text_files, tmp_path, run_python):
    for processes in ("1", "2"):
        run_python("train/prepare.py", "text", tmp_path / processes, *text_files, "--processes", processes)
    assert files(tmp_path / "1") == files(tmp_path / "2")
    assert "every file is intact" in run_python("train/prepare.py", "check", tmp_path / "1").stdout


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


def test_a_changed_vocabulary_is_found_by_the_check(text, tmp_path):
    prepare_text(tmp_path, text, size=300)
    with (tmp_path / "vocabulary.txt").open("a") as file:
        file.write("another\n")
    with pytest.raises(ValueError, match="is not the vocabulary the text was prepared with"):
        check_files(Namespace(folder=tmp_path))


@pytest.fixture
def damaged(text, tmp_path):
    """A damaged file of a prepared text, with one changed byte."""
    prepare_text(tmp_path, text, size=300, characters=SHARD)
    path = tmp_path / "train" / "00002.array_record"
    content = bytearray(path.read_bytes())
    content[200] ^= 255
    path.write_bytes(content)
    return path


def test_a_damaged_file_is_named_and_prepared_again(text, damaged, uninterrupted, run_python):
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


def test_processes_that_prepare_import_no_keras():
    with open_pool(2) as pool:
        modules = pool.submit(eval, "set(__import__('sys').modules)").result()
    assert {"keras", "keras_tying"} & modules == {"keras_tying"}


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


def test_another_vocabulary_in_the_same_folder_is_refused(text, uninterrupted, tmp_path):
    other = Vocabulary(["<unk>", "<eos>", "the"])
    with pytest.raises(ValueError, match=r"holds text prepared with sha256 = .*: choose another folder"):
        prepare_text(uninterrupted.folder, text, other, characters=SHARD)
    with pytest.raises(ValueError, match=r"holds text prepared with size = 300. Received: 301"):
        prepare_text(uninterrupted.folder, text, size=301, characters=SHARD)
    with pytest.raises(ValueError, match=r"prepared with another vocabulary, of 300 words. Received: one of 3"):
        uninterrupted.ids("train", other)
    with pytest.raises(ValueError, match=r"holds text prepared with tokenization = 'plain'. Received: 'words'"):
        prepare_text(uninterrupted.folder, Corpus("some", text.splits), characters=SHARD)


def test_another_vocabulary_file_is_refused(text, tmp_path):
    prepare_text(tmp_path, text, size=300)
    (tmp_path / "vocabulary.txt").write_text("<unk>\n<eos>\nthe\n")
    with pytest.raises(ValueError, match=r"vocabulary.txt is not the vocabulary the text was prepared with"):
        PreparedCorpus(tmp_path)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (lambda lines: ["something else", *lines[1:]], r"00000.array_record was made from another text"),
        (lambda lines: lines[: len(lines) // 2], r"was made from another text|was made from more text than was given"),
    ],
)
def test_another_text_in_the_same_folder_is_refused(text, uninterrupted, changed, message):
    other = Corpus("some", {"train": changed(text.splits["train"])}, "plain")
    with pytest.raises(ValueError, match=message):
        prepare_text(uninterrupted.folder, other, characters=SHARD)


def test_a_split_can_be_added_with_the_same_vocabulary(text, uninterrupted, corpus):
    more = prepare_text(uninterrupted.folder, Corpus("some", {"test": corpus.splits["test"]}, "plain"))
    expected = uninterrupted.vocabulary().encode(Corpus("some", corpus.splits, "plain").tokens("test"))
    np.testing.assert_array_equal(more.ids("test", uninterrupted.vocabulary())[:], expected)


def test_one_more_split_has_the_tokenization_of_the_folder(tmp_path):
    prepare_text(tmp_path / "text", Corpus("files", {"train": ["A B"]}, "plain"))
    (tmp_path / "test").write_text("B A\n")
    assert main(["prepare", "text", str(tmp_path / "text"), "--test-file", str(tmp_path / "test")]) == 0
    prepared = PreparedCorpus(tmp_path / "text")
    assert prepared.vocabulary().decode(prepared.ids("test", prepared.vocabulary())[:]) == ["b", "a", "<eos>"]


@pytest.mark.parametrize("kind", ["text", "aligned"])
def test_a_missing_file_is_named_before_anything_is_written(kind, bitexts, tmp_path, capsys):
    first, none = bitexts["train"], tmp_path / "none"
    files = {
        "text": ["--train-file", first.source, "--valid-file", none],
        "aligned": ["--train", first.source, first.target, first.alignment, "--valid", first.source, none, none],
    }
    assert main(["prepare", kind, *map(str, [tmp_path / "prepared", *files[kind]])]) == 2
    assert f"There is no file {none}" in capsys.readouterr().err
    assert not (tmp_path / "prepared").exists()


def test_what_a_killed_process_left_is_removed(text, tmp_path):
    left = tmp_path / "train" / ".00003.array_record.abcd.unfinished"
    prepare_text(tmp_path, text, size=300, characters=SHARD)
    left.mkdir()
    prepare_text(tmp_path, text, characters=SHARD)
    assert not left.exists()


def test_a_folder_with_other_files_is_refused(text, tmp_path):
    (tmp_path / "notes").write_text("mine")
    with pytest.raises(FileExistsError, match=r"already holds other files"):
        prepare_text(tmp_path, text)


def test_missing_texts_and_splits_are_named(uninterrupted, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"holds no prepared text: there is no prepared.toml"):
        PreparedCorpus(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"has no prepared split 'nosuch'"):
        uninterrupted.ids("nosuch", uninterrupted.vocabulary())
    with pytest.raises(ValueError, match=r"to hold prepared pairs. Received: text"):
        PreparedPairs(uninterrupted.folder)


def test_other_subwords_in_the_same_folder_are_refused(pairs, subwords, tmp_path):
    prepared = prepare_pairs(tmp_path, pairs, subwords)
    other = Subwords.learn(sentences_of(pairs.splits["valid"]), 201)
    with pytest.raises(ValueError, match=r"holds text prepared with sha256"):
        prepare_pairs(tmp_path, pairs, other)
    with pytest.raises(ValueError, match=r"prepared with other subwords, 200 of them. Received: 201"):
        prepared.pairs("train", other)


def test_zero_processes_are_refused(text, tmp_path):
    with pytest.raises(ValueError, match=r"`processes` must be at least 1. Received: 0"):
        prepare_text(tmp_path, text, processes=0)


def test_an_interrupted_shard_leaves_no_file(tmp_path):
    def broken():
        yield b"one"
        raise Stop

    with pytest.raises(Stop):
        write_shard(tmp_path / "shard", broken(), "", {})
    assert list(tmp_path.iterdir()) == []


def test_the_index_is_json_lines(uninterrupted):
    lines = (uninterrupted.folder / "train" / "index.jsonl").read_text().splitlines()
    assert json.loads(lines[-1]) == {"whole": True}
    assert sum(json.loads(line)["totals"]["tokens"] for line in lines[:-1]) == len(
        uninterrupted.ids("train", uninterrupted.vocabulary())
    )


@pytest.mark.parametrize("file", ["../../victim", "/etc/hostname", "index.jsonl", "00000.array_record/../x"])
def test_an_index_of_shards_that_names_other_files_is_refused(text, tmp_path, file):
    (tmp_path / "victim").write_text("mine")
    prepared = prepare_text(tmp_path / "prepared", text, size=300, characters=SHARD)
    index = prepared.index("train")
    first, *lines = index.read_text().splitlines()
    index.write_text("\n".join([json.dumps({**json.loads(first), "file": file}), *lines]) + "\n")
    for use in (lambda: prepared.ids("train", prepared.vocabulary()), lambda: prepare_text(prepared.folder, text)):
        with pytest.raises(ValueError, match=r"index.jsonl is not an index of shards: line 1: file: [^\n]*$"):
            use()


def test_an_index_that_is_a_link_is_not_written_through(text, tmp_path):
    prepared = prepare_text(tmp_path / "prepared", text, size=300, characters=SHARD)
    index, victim = prepared.index("valid"), tmp_path / "victim"
    victim.write_text(index.read_text()[:-30])  # as interrupted
    before = victim.read_text()
    index.unlink()
    index.symlink_to(victim)
    with pytest.raises(ValueError, match=r"is not complete"):
        prepared.ids("valid", prepared.vocabulary())
    assert victim.read_text() == before
    prepare_text(prepared.folder, text, characters=SHARD)
    assert victim.read_text() == before
    prepared.ids("valid", prepared.vocabulary())


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


def test_a_text_of_an_earlier_version_without_a_lock_goes_on(text, tmp_path):
    prepare_text(tmp_path, text, size=300, characters=SHARD)
    before = files(tmp_path)
    (tmp_path / "prepare.lock").unlink()
    prepare_text(tmp_path, text, characters=SHARD)
    assert files(tmp_path) == before


def test_nothing_is_written_before_all_files_of_pairs_are_found(tmp_path, capsys):
    (tmp_path / "a.en").write_text("a rose\n")
    sides = ["--source", str(tmp_path / "a.en"), "--target", str(tmp_path / "a.de")]
    assert main(["prepare", "pairs", str(tmp_path / "prepared"), *sides]) == 2
    assert "a.de. Check the name" in capsys.readouterr().err
    assert not (tmp_path / "prepared").exists()
