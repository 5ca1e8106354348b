"""The page on object stores is followed word for word, against a server of this machine."""

import json
import re
import tomllib
import urllib.request
from pathlib import Path

import pytest
from typer.testing import CliRunner

from blockveil.flows.cli import app
from blockveil.pipeline.config import load_config
from blockveil.pipeline.config.deployments_file import parse_deployments
from tests.house import support
from tests.pipeline import conftest
from tests.pipeline.data.test_objects import SECRET
from tests.pipeline.releases import test_uploading as sending

PAGE = (Path(__file__).parents[1] / "docs" / "how-to" / "object-store.md").read_text()
ADDRESS = "s3://public-releases/hospital"

door, bucket, pictures_in_words = sending.door, sending.bucket, conftest.pictures_in_words

pytestmark = pytest.mark.usefixtures("pictures_in_words")


def blocks(language):
    return re.findall(rf"(?ms)^```{language}\n(.*?)^```", PAGE)


def commands():
    return re.findall(r"(?m)^blockveil .*$", PAGE)


def called(line):
    found = CliRunner().invoke(app, line.split()[1:])
    assert found.exit_code == 0, found.output
    return found.output


@pytest.fixture
def hospital(tmp_path, monkeypatch, bucket, door):
    """The page's config over small records, whose credentials are in the page's file alone."""
    loaded = support.prepare(tmp_path)
    output, settings, _ = blocks("toml")
    text = loaded.path.read_text().replace('[output]\nroot = "releases"\n', output.replace(ADDRESS, bucket))
    (tmp_path / "hospital.toml").write_text(text)
    filled = (
        settings.replace("eu-central-1", "us-east-1").replace('key = "..."', f'key = "{SECRET}"').replace("...", "me")
    )
    support.write_private(tmp_path / "upload.toml", f'{filled}aws_endpoint = "{door.address}"\n')
    monkeypatch.chdir(tmp_path)
    return load_config(tmp_path / "hospital.toml")


def open_to_all(door, bucket):
    """Let everybody list and read."""
    name = bucket.removeprefix("s3://")
    places = [f"arn:aws:s3:::{name}", f"arn:aws:s3:::{name}/*"]
    allowed = {"Effect": "Allow", "Principal": "*", "Action": ["s3:ListBucket", "s3:GetObject"], "Resource": places}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [allowed]}).encode()
    kind = {"Content-Type": "application/json"}
    urllib.request.urlopen(urllib.request.Request(f"{door.address}/{name}?policy", policy, kind, method="PUT")).close()


def test_a_service_is_told_to_send_the_pages_where_the_command_sends_them():
    site = parse_deployments(tomllib.loads(blocks("toml")[2]), "deployments.toml").site
    assert site is not None
    assert f"--upload {site.upload}" in commands()[-1]
    assert site.upload_credentials == "file:upload.toml"


def test_the_page_leads_from_a_config_to_a_reader(hospital, bucket, door, monkeypatch, tmp_path, capsys):
    run, verify, report, site = [line.replace(ADDRESS, bucket) for line in commands()]
    with monkeypatch.context() as patch:
        for name in ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"):
            patch.delenv(name)
        said = called(run)
    assert f"{bucket}/people/covariance/2026-11-20.json" in said
    assert SECRET not in said
    (group,) = (hospital.output_root / "people" / "covariance").glob("*.zarr")
    open_to_all(door, bucket)
    with monkeypatch.context() as patch:
        patch.setenv("AWS_SKIP_SIGNATURE", "true")
        patch.delenv("AWS_ACCESS_KEY_ID")
        patch.delenv("AWS_SECRET_ACCESS_KEY")
        for program in blocks("python"):
            lines = program.replace(ADDRESS, bucket).replace("2026-11-20-<digest>.zarr", group.name)
            exec(compile(lines, "the page", "exec"), {})
    printed = capsys.readouterr().out
    assert "adding or removing one person" in printed
    assert "[[" in printed
    assert "people/covariance/2026-11-20" in called(verify)
    called(report)
    assert "people/covariance/2026-11-20" in (tmp_path / "report.html").read_text()
    assert f"{bucket}/index.html" in called(site.replace("s3://public-releases/pages", bucket))


@pytest.mark.slow
def test_the_release_is_made_again_from_the_store_as_the_page_says(hospital, bucket):
    run, *_ = commands()
    called(run)
    before = hospital.output_root
    before.rename(before.with_name("lost"))
    assert "complete already" in called(run)
    assert (before / "people" / "covariance" / "2026-11-20.json").exists()
