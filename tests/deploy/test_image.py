"""deploy/Dockerfile and deploy/tfjob.yaml: what they copy, run and claim exists, and the operator takes the job."""

import os
import re
from pathlib import Path

import jsonschema
import pytest

from keras_tying.commands import main

REPOSITORY = Path(__file__).parents[2]
DOCKERFILE = (REPOSITORY / "deploy" / "Dockerfile").read_text(encoding="utf-8")
CRD = "TFJOB_CRD"
"""Variable that names manifests/base/crds/kubeflow.org_tfjobs.yaml of kubeflow/training-operator, version 1.9.0."""
yaml = pytest.importorskip("yaml", reason="needs pyyaml")


@pytest.fixture
def job():
    return yaml.safe_load((REPOSITORY / "deploy" / "tfjob.yaml").read_text(encoding="utf-8"))


@pytest.fixture
def pod(job):
    return job["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]


def copied_files():
    """Files of the repository that the image is built from."""
    for line in re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE):
        yield from line.split()


def test_the_image_is_built_from_files_that_the_build_may_see():
    ignored = (REPOSITORY / "deploy" / "Dockerfile.dockerignore").read_text(encoding="utf-8").split()
    assert "*" in ignored
    for name in copied_files():
        assert (REPOSITORY / name).exists()
        assert f"!{name}" in ignored


def test_the_image_has_all_that_the_wheel_is_made_of(job):
    settings = (REPOSITORY / "setup.cfg").read_text(encoding="utf-8")
    made_of = {name.partition(".")[0] for name in re.findall(r"^ {4}(keras_tying[\w.]*)$", settings, re.MULTILINE)}
    needed = {"keras_tying", "keras_tying_cli.py", "zoo", "setup.cfg", "pyproject.toml", "README.md", "LICENSE"}
    assert made_of == {"keras_tying"}
    assert needed == set(copied_files())


def test_the_image_runs_as_a_user_without_rights(pod):
    user = re.search(r"^USER (\d+):\d+$", DOCKERFILE, re.MULTILINE)[1]
    assert f"--uid {user} " in DOCKERFILE
    assert DOCKERFILE.index("USER") > DOCKERFILE.rindex("RUN")
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["runAsUser"] == int(user)


def test_the_job_runs_a_command_that_the_image_has(pod, capsys):
    (container,) = pod["containers"]
    assert 'ENTRYPOINT ["keras-tying"]' in DOCKERFILE
    assert "command" not in container
    command, *options = container["args"]
    with pytest.raises(SystemExit) as end:
        main([command, "--help"])
    assert end.value.code == 0
    assert {option.partition("=")[0] for option in options} <= set(capsys.readouterr().out.split())


def test_the_job_mounts_what_it_writes(pod):
    (container,) = pod["containers"]
    mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounted.keys() == {volume["name"] for volume in pod["volumes"]}
    run = dict(option.split("=") for option in container["args"] if "=" in option)["--run"]
    assert any(run.startswith(f"{path}/") for path in mounted.values())


def test_the_job_is_what_the_operator_expects(job, pod):
    """Names that the operator reads: https://www.kubeflow.org/docs/components/trainer/legacy-v1/user-guides/tensorflow."""
    assert (job["apiVersion"], job["kind"]) == ("kubeflow.org/v1", "TFJob")
    assert job["spec"]["tfReplicaSpecs"].keys() <= {"Chief", "PS", "Worker", "Evaluator"}
    assert job["spec"]["tfReplicaSpecs"]["Worker"]["restartPolicy"] in ("Always", "OnFailure", "Never", "ExitCode")
    assert job["spec"]["runPolicy"]["cleanPodPolicy"] in ("All", "Running", "None")
    (container,) = pod["containers"]
    assert container["name"] == "tensorflow"  # TF_CONFIG is set in the container of this name
    assert {"name": "tfjob-port", "containerPort": 2222} in container["ports"]


def strict(schema):
    """A schema that refuses fields it does not know. Kubernetes drops them, so a misspelt one would have no effect."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    schema = {name: strict(value) for name, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and not schema.get("x-kubernetes-preserve-unknown-fields"):
        schema.setdefault("additionalProperties", False)
    return schema


def operator_schema():
    definition = yaml.safe_load(Path(os.environ[CRD]).read_text(encoding="utf-8"))
    (version,) = (each for each in definition["spec"]["versions"] if each["name"] == "v1")
    schema = strict(version["schema"]["openAPIV3Schema"])
    schema["properties"]["metadata"] = {"type": "object"}
    return schema


@pytest.mark.skipif(CRD not in os.environ, reason=f"needs the operator's schema: {CRD}=kubeflow.org_tfjobs.yaml")
def test_the_job_fits_the_schema_of_the_operator(job, pod):
    schema = operator_schema()
    jsonschema.validate(job, schema)
    pod["containers"][0]["imagge"] = "misspelt"
    with pytest.raises(jsonschema.ValidationError, match="imagge"):
        jsonschema.validate(job, schema)
