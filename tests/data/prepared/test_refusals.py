import json
from argparse import Namespace

import pytest

from keras_tying.commands import main
from keras_tying.commands.prepare import check_files
from keras_tying.data import (
    Corpus,
    ParallelCorpus,
    PreparedCorpus,
    PreparedPairs,
    Subwords,
    Vocabulary,
    prepare_pairs,
    prepare_text,
    sentences_of,
)

SHARD = 20_000
"""Characters per shard, for several shards."""


def test_the_check_names_everything_that_is_wrong(text, tmp_path, capsys):
    prepare_text(tmp_path, text, size=300, characters=SHARD)
    with (tmp_path / "vocabulary.txt").open("a") as file:
        file.write("another\n")
    (tmp_path / "train" / "00000.array_record").unlink()
    (tmp_path / "train" / "00002.array_record").write_bytes(b"")
    (tmp_path / "valid" / "index.jsonl").unlink()
    assert check_files(Namespace(folder=tmp_path)) == 1
    vocabulary, *shards, index = capsys.readouterr().out.splitlines()
    assert "vocabulary.txt is not the vocabulary the text was prepared with" in vocabulary
    assert [shard.partition(". ")[0] for shard in shards] == [
        f"{tmp_path}/train/00000.array_record is missing",
        f"{tmp_path}/train/00002.array_record is damaged",
    ]
    assert f"has no prepared split 'valid': there is no {tmp_path}/valid/index.jsonl" in index


def test_pairs_without_a_training_split_are_refused_before_a_folder_is_made(subwords, tmp_path):
    corpus = ParallelCorpus("roses", {"valid": [("a rose", "eine Rose")]})
    with pytest.raises(ValueError, match=r"The corpus 'roses' has the splits \['valid'\]. Received: 'train'"):
        prepare_pairs(tmp_path / "pairs", corpus, subwords)
    assert not (tmp_path / "pairs").exists()


def test_a_folder_of_something_else_has_nothing_to_check(tmp_path):
    (tmp_path / "photos").mkdir()
    with pytest.raises(FileNotFoundError, match=r"holds no prepared text"):
        check_files(Namespace(folder=tmp_path))


def test_another_vocabulary_in_the_same_folder_is_refused(text, uninterrupted, tmp_path):
    other = Vocabulary(["<unk>", "<eos>", "the"])
    with pytest.raises(
        ValueError, match=r"prepared with a vocabulary or subwords of SHA-256 .*: choose another folder"
    ):
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


def test_other_subwords_in_the_same_folder_are_refused(pairs, subwords, tmp_path):
    prepared = prepare_pairs(tmp_path, pairs, subwords)
    other = Subwords.learn(sentences_of(pairs.splits["valid"]), 201)
    with pytest.raises(ValueError, match=r"holds text prepared with a vocabulary or subwords of SHA-256"):
        prepare_pairs(tmp_path, pairs, other)
    with pytest.raises(ValueError, match=r"prepared with other subwords, 200 of them. Received: 201"):
        prepared.pairs("train", other)


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


def test_nothing_is_written_before_all_files_of_pairs_are_found(tmp_path, capsys):
    (tmp_path / "a.en").write_text("a rose\n")
    sides = ["--source", str(tmp_path / "a.en"), "--target", str(tmp_path / "a.de")]
    assert main(["prepare", "pairs", str(tmp_path / "prepared"), *sides]) == 2
    assert "a.de. Check the name" in capsys.readouterr().err
    assert not (tmp_path / "prepared").exists()


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
