from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from keras_tying.data import Bitext, Corpus, PreparedAligned, PreparedCorpus, prepare_aligned, prepare_text
from keras_tying.data.prepared import aligned

SHARD = 20_000
"""Characters per shard, for several shards."""


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


def test_aligned_text_is_prepared_again_without_change(bitexts, tmp_path, files):
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
    assert aligned_texts == [list(texts.values())] * 2
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


def test_text_without_links_is_aligned_once(bitexts, tmp_path, monkeypatch, caplog):
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
    (tmp_path / "prepared" / "valid.align").unlink()  # as if the process had been killed before it was in its place
    prepare_aligned(tmp_path / "prepared", without)
    assert asked == [["train.en", "valid.en"]] * 2
    assert not caplog.messages
    prepare_aligned(tmp_path / "prepared", {"test": without["valid"]})
    assert caplog.messages == ["test: aligned without the training text, which makes links worse."]
    expected = prepare_aligned(tmp_path / "expected", bitexts)
    links = [each.samples("train", *each.vocabularies).part(0).affiliations for each in (prepared, expected)]
    np.testing.assert_array_equal(*links)
