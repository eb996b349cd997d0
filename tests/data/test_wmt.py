"""WMT corpora, from archives on a local server and from a folder."""

import gzip
import io
import tarfile
from dataclasses import replace

import pooch
import pytest

import keras_tying as kt
from keras_tying.data import wmt

SGML = """<srcset setid="newstest" srclang="any">
<doc docid="a" origlang="de">
<seg id="1">{first}</seg>
<seg id="2"> second  sentence </seg>
</doc>
</srcset>
"""


def write_archive(path, members):
    with tarfile.open(path, "w:gz" if path.suffix == ".tgz" else "w") as files:
        for name, text in members.items():
            content = gzip.compress(text.encode()) if name.endswith(".gz") else text.encode()
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            files.addfile(entry, io.BytesIO(content))


@pytest.fixture
def published(public, monkeypatch):
    """All archives. The text of each file gives its origin."""

    def serve(archive, members):
        path = public.folder / archive.address.rpartition("/")[2]
        write_archive(path, members)
        return replace(archive, address=public.address + path.name, sha256=pooch.file_hash(str(path)))

    def bitext(archive):
        sides = [(other, side) for other in archive.others for side in (other, "en")]
        return serve(archive, {archive.pattern.format(other=o, side=s): f"{archive.address} {s}\n" for o, s in sides})

    for name in ("EUROPARL", "COMMON_CRAWL", "UNITED_NATIONS", "GIGA_FRENCH"):
        monkeypatch.setattr(wmt, name, bitext(getattr(wmt, name)))
    monkeypatch.setattr(wmt, "NEWS_COMMENTARY", {y: bitext(archive) for y, archive in wmt.NEWS_COMMENTARY.items()})
    tests = {f"dev/newstest2013.{side}": f"newstest2013 {side}\n" for side in ("en", "de", "fr")}
    for year, other in (("2014", "de"), ("2014", "fr"), ("2015", "de")):
        for role, side in (("src", other), ("ref", "en")):
            tests[f"dev/newstest{year}-{other}en-{role}.{side}.sgm"] = SGML.format(first=f"newstest{year} {side}")
    monkeypatch.setattr(wmt, "TEST_SETS", serve(wmt.TEST_SETS, tests))
    return public.folder


def test_a_year_is_downloaded_once_with_the_published_splits(published):
    corpus = kt.data.load_parallel("wmt15")
    assert [source.split("/")[-1] for source, _ in corpus.pairs("train")] == [
        "training-parallel-europarl-v7.tgz en",
        "training-parallel-commoncrawl.tgz en",
        "training-parallel-nc-v10.tgz en",
    ]
    assert list(corpus.pairs("valid")) == [("newstest2013 en", "newstest2013 de")]
    assert list(corpus.pairs("test")) == [("newstest2014 en", "newstest2014 de"), ("second sentence",) * 2]
    assert next(corpus.pairs("test_2015")) == ("newstest2015 en", "newstest2015 de")
    for path in published.iterdir():
        path.unlink()
    assert next(kt.data.load_parallel("wmt15", "de", "en").pairs("test")) == ("newstest2014 de", "newstest2014 en")


def test_french_includes_the_large_corpora(published):
    sources = [source for source, _ in kt.data.load_parallel("wmt14", "en", "fr").pairs("train")]
    assert len(sources) == 5
    assert "giga-fren" in sources[-1]


def test_an_archive_with_another_hash_is_refused(published, monkeypatch):
    monkeypatch.setattr(wmt, "EUROPARL", replace(wmt.EUROPARL, sha256="0" * 64))
    with pytest.raises(ValueError, match="does not match the known hash"):
        kt.data.load_parallel("wmt15")


@pytest.mark.parametrize(("year", "source", "target"), [("wmt15", "en", "fr"), ("wmt14", "de", "fr")])
def test_languages_without_text_are_refused(year, source, target):
    with pytest.raises(ValueError, match=f"Received: '{source}' and '{target}'"):
        kt.data.load_parallel(year, source, target)


def test_selected_text_is_read_from_a_folder(tmp_path):
    for part in ("train", "newstest2013", "newstest2014", "newstest2015"):
        (tmp_path / f"{part}.en").write_text(part)
        (tmp_path / f"{part}.de.gz").write_bytes(gzip.compress(part.encode()))
    corpus = kt.data.load_parallel("wmt15", data_dir=tmp_path)
    assert {split: next(corpus.pairs(split))[0] for split in corpus.splits} == {
        "train": "train",
        "valid": "newstest2013",
        "test": "newstest2014",
        "test_2015": "newstest2015",
    }


def test_the_error_for_missing_files_lists_the_expected_ones(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"train\.en.*Expected train\.en and train\.fr.*newstest2014\.fr"):
        kt.data.load_parallel("wmt14", target="fr", data_dir=tmp_path)
