"""Alarms by e-mail: encrypted, to a server that proves who it is, and never with a password in a message."""

import asyncio
import socket

import pytest
from prefect.blocks.abstract import NotificationError

from blockveil.flows.service.mail import Mail
from tests.house import certificates, mail_server

PASSWORD = "a password of the mail server"


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    # For another address than that of the mail server, which is then no name that the certificate is for.
    return certificates.make(tmp_path_factory.mktemp("tls"), "127.0.0.2")


def block(port, tls, **changed):
    settings = {
        "host": "localhost",
        "port": port,
        "sender": "blockveil@example.org",
        "recipients": ["ada@example.org", "grace@example.org"],
        "user": "blockveil",
        "password": PASSWORD,
        "authority": str(tls / "authority.pem"),
    }
    return Mail(**{**settings, **changed})


def send(mail, subject="Blockveil", body="people 2026-11-20: Failed. Nothing was spent."):
    with mail.raise_on_failure():
        asyncio.run(mail.notify(body=body, subject=subject))


def test_a_message_reaches_all_recipients_over_an_encrypted_connection(tls):
    with mail_server.running(tls, {("blockveil", PASSWORD)}) as (port, messages):
        send(block(port, tls), subject="Blockveil:\nof tonight", body="Größe ε = 1\n.\nNothing was spent.")
    ((sender, recipients, message),) = messages
    assert sender.startswith("FROM:<blockveil@example.org>")
    assert recipients == ["ada@example.org", "grace@example.org"]
    assert message["Subject"] == "Blockveil: of tonight"
    assert "ε = 1" in message.get_content()
    assert PASSWORD not in message.as_string()


def test_a_mail_server_on_this_machine_may_go_without_encryption_but_no_password_goes_with_it(tls):
    with mail_server.running(tls) as (port, messages):
        send(block(port, tls, security="none", user=None, password=None))
        with pytest.raises(ValueError, match="travel in clear"):
            block(port, tls, security="none")
    assert len(messages) == 1


@pytest.mark.parametrize(
    "wrong",
    [{"authority": None}, {"password": "another"}, {"host": "127.0.0.1"}, {"security": "tls"}],
    ids=["unknown authority", "wrong password", "another name", "no TLS from the start"],
)
def test_a_server_that_is_not_the_one_or_refuses_gets_no_message_and_the_failure_is_told(wrong, tls):
    with mail_server.running(tls, {("blockveil", PASSWORD)}) as (port, messages):
        with pytest.raises(NotificationError) as refused:
            send(block(port, tls, **wrong))
        asyncio.run(block(port, tls, **wrong).notify("who asks for no errors gets none"))
    assert messages == []
    assert "took no message" in refused.value.log
    assert PASSWORD not in refused.value.log


def test_a_block_does_not_tell_which_files_the_server_has(tls, tmp_path):
    (tmp_path / "records.csv").write_text("1,2\n")
    told = set()
    for name in ("records.csv", "nothing.csv", ".", "records.csv/under"):
        with pytest.raises(NotificationError) as refused:
            send(block(9, tls, authority=str(tmp_path / name)))
        told.add(refused.value.log)
    assert told == {"The authority's file is not one that the Prefect server can use"}


def test_a_mail_server_that_is_away_is_told(tls):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(NotificationError) as refused:
        send(block(port, tls))
    assert "took no message" in refused.value.log
