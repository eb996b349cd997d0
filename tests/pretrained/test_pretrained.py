import configparser
import json
import os
import shutil
from pathlib import Path

import keras
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tensorflow.core.protobuf import saved_model_pb2

import keras_tying as kt
from keras_tying.data.downloads import cache
from keras_tying.files import sha256_of
from keras_tying.pretrained import loading, publish
from keras_tying.pretrained.publishing import public_settings
from keras_tying.training import Run
from keras_tying.zoo.presets import MANIFEST, list_presets, preset_folder


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A finished run on files of one's own."""
    folder = tmp_path_factory.mktemp("runs")
    lines = list(kt.data.load_corpus("embedded").lines("valid"))
    text, validation = folder / "text.txt", folder / "validation.txt"
    for path, some in ((text, lines[:150]), (validation, lines[150:300])):
        path.write_text("\n".join(some) + "\n", encoding="utf-8")
    files = ["--train-file", str(text), "--valid-file", str(validation), "--test-file", str(text)]
    settings = ["model.units=8", "data.vocabulary_size=200", "optimisation.batch_size=5"]
    main(["lm", "--run", str(folder / "run"), "--epochs", "1", "--set", *settings, *files])
    return Run(folder / "run")


def main(arguments):
    from keras_tying.commands import main

    assert main(arguments) == 0


@pytest.fixture(scope="module")
def presets(run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("presets")
    publish(run, "mine", folder)
    return folder


@pytest.fixture
def preset(presets, tmp_path):
    """A preset that a test may damage."""
    return shutil.copytree(presets / "mine", tmp_path / "mine")


def change_manifest(preset, **changes):
    manifest = preset / MANIFEST
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), **changes}))


def test_a_run_and_its_preset_give_the_same_model_but_for_rounding(run, presets):
    from_run, from_preset = kt.load(run.folder), kt.load(presets / "mine")
    assert type(from_run) is type(from_preset) is kt.inference.TrainedLanguageModel
    assert from_run.tokenization == from_preset.tokenization == "words"
    assert from_run.vocabulary.words == from_preset.vocabulary.words
    for ours, theirs in zip(from_run.model.weights, from_preset.model.weights, strict=True):
        np.testing.assert_array_equal(np.array(ours).astype(np.float16), theirs)


def test_run_and_preset_load_in_another_precision(run, presets):
    for folder in (run.folder, presets / "mine"):
        loaded = kt.load(folder, precision="mixed_bfloat16")
        assert loaded.model.hidden_layers[-1].compute_dtype == "bfloat16"
        assert loaded.perplexity(["the value"]) == pytest.approx(kt.load(folder).perplexity(["the value"]), rel=0.02)


def test_precision_of_a_trained_model_on_the_command_line(run):
    text = run.results.read_text()
    main(["lm", "--evaluate", str(run.folder), "--temperature", "--precision", "mixed_bfloat16"])
    assert json.loads(run.results.read_text())["temperature_settings"].endswith(", mixed_bfloat16")
    run.results.write_text(text)
    main(["lm", "--export", str(run.folder), "--precision", "mixed_bfloat16"])
    saved = saved_model_pb2.SavedModel.FromString((run.saved_model / "saved_model.pb").read_bytes())
    assert "DT_BFLOAT16" in str(saved)


def test_the_published_weights_are_measured_beside_those_of_the_run(run, presets):
    preset = json.loads((presets / "mine" / MANIFEST).read_text())
    results = json.loads(run.results.read_text())
    assert preset["before_rounding"]["test_perplexity"] == results["test_perplexity"]
    assert preset["measured"]["test_perplexity"] == pytest.approx(results["test_perplexity"], rel=1e-3)
    assert preset["measured"]["test_perplexity"] != results["test_perplexity"]
    assert preset["training"]["seed"] == 1
    lines = (run.folder.parent / "text.txt").read_text().splitlines()
    assert kt.load(presets / "mine").perplexity(lines) == pytest.approx(preset["measured"]["test_perplexity"])


def test_a_preset_holds_the_tied_matrix_once_in_half_precision(presets):
    weights = load_file(presets / "mine" / "model.safetensors")
    assert [value.shape for value in weights.values()].count((200, 8)) == 1
    assert {value.dtype for value in weights.values()} == {np.dtype(np.float16)}


def test_a_preset_names_no_folder_of_the_machine(presets, run):
    for path in (presets / "mine").iterdir():
        assert str(run.folder.parent).encode() not in path.read_bytes()


def test_a_preset_is_private_if_the_umask_says_so(run, tmp_path):
    before = os.umask(0o077)
    try:
        publish(run, "mine", tmp_path)
    finally:
        os.umask(before)
    modes = {path.stat().st_mode & 0o777 for path in (tmp_path / "mine").iterdir()}
    assert ((tmp_path / "mine").stat().st_mode & 0o777, modes) == (0o700, {0o600})


def test_settings_for_others_keep_the_names_of_files(run):
    public = public_settings(run.settings(), ["vocabulary.txt"])
    names = {"train": "text.txt", "valid": "validation.txt", "test": "text.txt"}
    assert public.files == {split: [[name]] for split, name in names.items()}
    assert list(public.fingerprints) == ["vocabulary.txt"]


def test_counts_beyond_half_precision_stay_as_they_are(tmp_path):
    from keras_tying.pretrained.weights import read_model, write_model

    model = kt.zoo.skip_gram(10, 4)
    model.input_updates.assign(np.full(10, 1e6))
    write_model(model, tmp_path)
    np.testing.assert_array_equal(read_model(tmp_path).input_updates, np.full(10, 1e6))


def test_a_quantized_model_is_published_as_it_is(tmp_path):
    from keras_tying.pretrained.weights import read_model, write_model

    model = kt.zoo.recurrent_language_model(20, 8)
    model.quantize("int8")
    write_model(model, tmp_path)
    words = np.array([[1, 2, 3]])
    np.testing.assert_allclose(read_model(tmp_path)(words), model(words), atol=1e-2)


def test_presets_of_the_zoo_are_intact_and_have_a_recipe():
    assert list_presets()
    for name in list_presets():
        kt.zoo.presets.read_preset(preset_folder() / name)
        assert name in kt.zoo.recipes.list_recipes()
        assert kt.zoo.list_models(name, pretrained=True) == [name]


def test_presets_of_more_than_ten_megabytes_are_not_in_the_wheel():
    settings = configparser.ConfigParser()
    settings.read(Path(__file__).parents[2] / "setup.cfg")
    left_out = settings["options.exclude_package_data"]["keras_tying.recipes"].split(", ")
    sizes = {name: sum(path.stat().st_size for path in (preset_folder() / name).iterdir()) for name in list_presets()}
    assert left_out == [f"presets/{name}/*" for name, size in sizes.items() if size > 10e6]


def test_the_preset_of_the_embedded_corpus_has_the_recorded_perplexity():
    lines = kt.data.load_corpus("embedded").lines("test")
    preset = kt.zoo.presets.read_preset(preset_folder() / "embedded_small_tied")
    assert kt.load("embedded_small_tied").perplexity(lines) == pytest.approx(
        preset.measured["test_perplexity"], abs=0.01
    )


def test_an_address_is_downloaded_once_and_checked(presets, monkeypatch, tmp_path):
    downloads = []

    def download(address, sha256, folder):
        downloads.append(address)
        path = tmp_path / folder / address.rpartition("/")[2]
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(presets / "mine" / path.name, path)
        assert sha256_of(path) == sha256
        return path

    monkeypatch.setattr(loading, "download", download)
    manifest = sha256_of(presets / "mine" / MANIFEST)
    assert kt.load("https://example.org/mine/", sha256=manifest).vocabulary
    assert downloads[0] == f"https://example.org/mine/{MANIFEST}"
    assert len(downloads) == len(list((presets / "mine").iterdir()))


def test_without_a_network_one_line_says_so(monkeypatch, tmp_path):
    import pooch

    def retrieve(*_, **__):
        raise OSError("Name or service not known")

    monkeypatch.setattr(pooch, "retrieve", retrieve)
    with pytest.raises(ConnectionError, match=r"mine could not be downloaded: Name or service not known"):
        kt.load("https://example.org/mine", sha256="0" * 64)
    assert cache("presets").parent.name == "keras_tying"


WRONG = {
    "embeded_small_tied": r"no trained model 'embeded_small_tied'.*Names like it: embedded_small_tied",
    "ptb_large_tied": r"no trained model 'ptb_large_tied' here, only its recipe",
    "xyz": r"no trained model 'xyz'.*Trained models: .*word2vec",
    "http://example.org/a": r"an https:// address, with the SHA-256",
    "https://example.org/a": r"sha256=None",
    "../mine": r"There is no folder ../mine",
}


@pytest.mark.parametrize("name", WRONG)
def test_a_name_that_cannot_be_loaded_is_one_line(name):
    with pytest.raises((ValueError, FileNotFoundError), match=WRONG[name]) as error:
        kt.load(name)
    assert "\n" not in str(error.value)


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"is not a run and not a preset: there is no config.toml"):
        kt.load(tmp_path)


def test_an_unfinished_run_is_refused(run, tmp_path):
    unfinished = shutil.copytree(run.folder, tmp_path / "run", ignore=shutil.ignore_patterns("model.keras"))
    with pytest.raises(FileNotFoundError, match=r"has no trained model yet"):
        kt.load(unfinished)


def test_a_preset_without_its_list_of_files_is_no_run(preset):
    (preset / "preset.json").unlink()
    before = sorted(preset.iterdir())
    for read in (kt.load, Run.open):
        with pytest.raises(FileNotFoundError, match=r"is a damaged preset: preset.json is missing"):
            read(preset)
    assert sorted(preset.iterdir()) == before


@pytest.mark.parametrize("file", ["model.safetensors", "model.json", "vocabulary.txt", "config.toml"])
def test_damaged_files_are_named(preset, file):
    content = bytearray((preset / file).read_bytes())
    content[len(content) // 2] ^= 1
    (preset / file).write_bytes(content)
    with pytest.raises(ValueError, match=rf"{file} is not the file of the preset: expected SHA-256"):
        kt.load(preset)
    (preset / file).unlink()
    with pytest.raises(FileNotFoundError, match=rf"There is no file .*{file}"):
        kt.load(preset)


def test_a_newer_format_is_refused(preset):
    change_manifest(preset, format=2, something="new")
    with pytest.raises(ValueError, match=r"has format 2, and this version of keras-tying reads formats up to 1"):
        kt.load(preset)


def test_a_manifest_of_another_task_is_refused(preset):
    change_manifest(preset, task="translation")
    with pytest.raises(ValueError, match=r"preset.json has the task 'translation', its settings 'language_model'"):
        kt.load(preset)


def test_files_that_are_not_checked_are_refused(preset):
    files = json.loads((preset / MANIFEST).read_text())["files"]
    change_manifest(preset, files={name: sha256 for name, sha256 in files.items() if name != "model.json"})
    with pytest.raises(ValueError, match=r"files must have the SHA-256 of 'model.json'"):
        kt.load(preset)


def test_a_preset_is_no_run(preset):
    before = sorted(path.name for path in preset.iterdir())
    for use in (Run.open, Run.find, lambda folder: publish(Run.open(folder), "mine", folder.parent)):
        with pytest.raises(ValueError, match=r"is a trained model, not a run.*Use lm --from"):
            use(preset)
    assert sorted(path.name for path in preset.iterdir()) == before


def test_a_folder_of_the_same_name_is_named_in_a_warning(run, tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(run.folder, tmp_path / "embedded_small_tied")
    assert len(kt.load("embedded_small_tied").vocabulary) > 200
    assert "The folder of this name is ./embedded_small_tied" in caplog.text
    assert len(kt.load("./embedded_small_tied").vocabulary) == 200


def test_a_model_that_went_on_from_another_names_no_folder(run, tmp_path):
    text = str(run.folder.parent / "text.txt")
    files = [word for split in ("train", "valid", "test") for word in (f"--{split}-file", text)]
    main(["lm", "--from", str(run.folder), "--run", str(tmp_path / "further"), "--epochs", "1", *files])
    publish(Run(tmp_path / "further"), "further", tmp_path / "presets")
    for name in ("config.toml", MANIFEST):
        content = (tmp_path / "presets" / "further" / name).read_text()
        assert str(tmp_path) not in content
        assert str(run.folder.parent) not in content


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "a/b", "..", "", MANIFEST])
def test_names_in_a_manifest_are_confined_to_its_folder(preset, name):
    change_manifest(preset, files={name: "0" * 64})
    with pytest.raises(ValueError, match=r"files must be names in its folder"):
        kt.load(preset)


@pytest.mark.parametrize("text", ["", "[]", "{}", "\x00", '{"format": "1"}'])
def test_a_manifest_of_something_else_is_refused(preset, text):
    (preset / MANIFEST).write_text(text)
    with pytest.raises(ValueError, match=MANIFEST):
        kt.load(preset)


def test_weights_of_another_model_are_refused(preset):
    weights = load_file(preset / "model.safetensors")
    name = next(iter(weights))
    weights[name] = weights[name][:-1].copy()
    save_file(weights, preset / "model.safetensors")
    files = json.loads((preset / MANIFEST).read_text())["files"]
    change_manifest(preset, files={**files, "model.safetensors": sha256_of(preset / "model.safetensors")})
    with pytest.raises(ValueError, match=r"has not the weights of model.json"):
        kt.load(preset)


LAMBDA = {
    "module": "keras.layers",
    "class_name": "Lambda",
    "config": keras.layers.Lambda(lambda x: x).get_config(),
    "registered_name": None,
}


@pytest.mark.parametrize("config", [json.dumps(LAMBDA), "[" * 10_000, "[]"], ids=["code", "nested", "list"])
def test_a_configuration_that_runs_code_is_nested_too_deeply_or_is_of_no_model_is_refused(preset, config):
    (preset / "model.json").write_text(config)
    files = json.loads((preset / MANIFEST).read_text())["files"]
    change_manifest(preset, files={**files, "model.json": sha256_of(preset / "model.json")})
    with pytest.raises(ValueError, match=r"cannot be read"):
        kt.load(preset)


@pytest.mark.parametrize("name", ["", "../mine", "Mine", "my model", "my__model"])
def test_names_of_presets_are_plain(run, tmp_path, name):
    with pytest.raises(ValueError, match=r"lower-case letters, digits and underscores"):
        publish(run, name, tmp_path)
    assert not list(tmp_path.iterdir())


def test_publishing_again_replaces_the_preset(run, presets):
    before = (presets / "mine" / "model.safetensors").read_bytes()
    (presets / "mine" / "notes.txt").write_text("mine")
    publish(run, "mine", presets)
    assert (presets / "mine" / "model.safetensors").read_bytes() == before
    assert (presets / "mine" / "notes.txt").read_text() == "mine"
    assert [path.name for path in presets.iterdir()] == ["mine"]


def test_only_a_preset_is_replaced(run, tmp_path):
    shutil.copytree(run.folder, tmp_path / "mine")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(FileExistsError, match=r"mine holds other files, and only a folder with preset.json"):
        publish(Run(tmp_path / "mine"), "mine", tmp_path)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_run_whose_results_lack_a_metric_is_not_published(run, tmp_path):
    shutil.copytree(run.folder, tmp_path / "run")
    copy = Run(tmp_path / "run")
    copy.write_results({"validation_perplexity": 1.0})
    with pytest.raises(ValueError, match=r"results.json has no test_perplexity. Measure the run again with --resume"):
        publish(copy, "mine", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_changed_text_is_not_measured(run, tmp_path):
    text = run.folder.parent / "text.txt"
    content = text.read_bytes()
    try:
        text.write_bytes(content + b"one more line\n")
        with pytest.raises(ValueError, match=r"text.txt is not the text this run was made with"):
            publish(run, "mine", tmp_path)
    finally:
        text.write_bytes(content)
    assert not list(tmp_path.iterdir())
