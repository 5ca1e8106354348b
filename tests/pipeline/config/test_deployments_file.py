"""deployments.toml: what runs when, refused with value, rule and remedy where it could not mean one release a night."""

import tomllib

import pytest

from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.config.deployments_file import load_deployments, parse_deployments
from tests.house import support

NIGHT = """
[[night]]
config = "people"
cron = "30 2 * * *"
timezone = "Europe/Berlin"
mode = "release"
missed_nights = "latest"
"""


def parse(text):
    return parse_deployments(tomllib.loads(text), "deployments.toml")


def test_a_night_has_its_time_zone_and_what_becomes_of_missed_ones():
    (night,) = parse(NIGHT).night
    assert (night.cron, night.timezone, night.missed_nights, night.mode) == (
        "30 2 * * *",
        "Europe/Berlin",
        "latest",
        "release",
    )
    assert night.grace_minutes == 60


@pytest.mark.parametrize("left_out", ["cron", "timezone", "mode", "missed_nights", "config"])
def test_nothing_that_decides_a_night_has_a_default(left_out):
    text = "\n".join(line for line in NIGHT.splitlines() if not line.startswith(left_out))
    with pytest.raises(ConfigError, match=f"{left_out} is not given"):
        parse(text)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("cron", '"*/5 * * * *"', "plain minute and hour"),
        ("cron", '"30 25 * * *"', "plain minute and hour"),
        ("cron", '"30 2 * *"', "plain minute and hour"),
        ("cron", '"@daily"', "plain minute and hour"),
        ("timezone", '"Mars/Olympus"', "IANA"),
        ("timezone", '"../../etc/passwd"', "IANA"),
        ("timezone", '""', "time zone"),
        ("timezone", '"localtime"', "IANA"),
        ("timezone", '"Factory"', "IANA"),
        ("mode", '"yes"', "release"),
        ("missed_nights", '"never"', "latest"),
        ("config", '"../people"', "without .toml"),
        ("config", '"people.toml"', "without .toml"),
        ("config", '"/srv/people"', "without .toml"),
    ],
)
def test_a_night_that_is_not_one_is_refused(key, value, message):
    text = "\n".join(f"{key} = {value}" if line.startswith(key) else line for line in NIGHT.splitlines())
    with pytest.raises(ConfigError, match=message):
        parse(text)


def test_a_config_has_one_schedule():
    with pytest.raises(ConfigError, match="two of them"):
        parse(NIGHT + NIGHT)


@pytest.mark.parametrize("block", ["https://hooks.example.org/secret", "webhook", "webhook/", "Webhook/Team", "a/b/c"])
def test_alarms_name_blocks_and_never_an_address(block):
    with pytest.raises(ConfigError, match="type/name"):
        parse(f'[alerts]\nnotify = ["{block}"]')


def test_an_unknown_key_is_named_with_what_was_meant():
    with pytest.raises(ConfigError, match=r"Did you mean night\[0\]\.config"):
        parse(NIGHT.replace("config", "confg"))


def test_the_file_and_every_config_it_names_are_read_from_one_folder(tmp_path):
    support.write_config(tmp_path)
    (tmp_path / "deployments.toml").write_text(NIGHT)
    (tmp_path / "Not A Name.toml").write_text("")
    (tmp_path / "bounds.toml").write_text('release = "people/covariance-bounds/2026-11-20"\n')  # no table: no config
    for where in (tmp_path, tmp_path / "deployments.toml"):
        loaded = load_deployments(where)
        assert loaded.configs["people"].config.release.dataset == "people"
        assert loaded.offered == ("people",)
    (tmp_path / "people.toml").unlink()
    with pytest.raises(ConfigError, match="no such file"):
        load_deployments(tmp_path)


@pytest.mark.parametrize(("content", "message"), [(None, "no such file"), (b"\xff", "UTF-8"), (b"= 1", "syntax")])
def test_a_file_that_cannot_be_read_is_refused_in_words(tmp_path, content, message):
    if content is not None:
        (tmp_path / "deployments.toml").write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        load_deployments(tmp_path)


@pytest.mark.parametrize("address", ["pages", "https://example.org/pages", "s3://me:secret@bucket/pages", ""])
def test_a_site_is_sent_to_an_object_store_alone(address):
    with pytest.raises(ConfigError, match=r"site\.upload") as refused:
        parse(f'[site]\nupload = "{address}"')
    assert "secret" not in str(refused.value)


def test_a_site_is_sent_nowhere_unless_it_says_where():
    assert parse("").site is None
    site = parse('[site]\nupload = "s3://bucket/pages"').site
    assert site is not None
    assert (site.upload, site.upload_credentials) == ("s3://bucket/pages", None)
