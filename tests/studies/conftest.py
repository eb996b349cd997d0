import pytest

from tests.studies.small_joint_study import STUDY


@pytest.fixture
def folder(tmp_path):
    """A zoo's folder with a small study and no results."""
    (tmp_path / "zoo" / "studies").mkdir(parents=True)
    (tmp_path / "zoo" / "studies" / "nnjm.toml").write_text(STUDY)
    return tmp_path / "zoo"
