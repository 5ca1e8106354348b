"""Prefect block for e-mail through a mail server of one's own; the blocks that Prefect brings use other companies'.

Prefect loads it from the entry point ``prefect.collections``, so that it is on the page Blocks of every server whose
Python has this package.
"""

from __future__ import annotations

import asyncio
import smtplib
import ssl
from email.message import EmailMessage
from typing import Literal, Self

from prefect.blocks.abstract import NotificationBlock, NotificationError
from pydantic import Field, SecretStr, model_validator

TIMEOUT_SECONDS = 30.0
"""How long a mail server may take to answer."""

_LONGEST_SUBJECT = 200


class _NoAuthority(Exception):
    """The certificate file cannot be used. Whoever fills in a block must not learn which files a server has."""


class Mail(NotificationBlock):
    """Sends alarms by e-mail (SMTP). The mail server must prove who it is, unless security is none."""

    _block_type_name = "Mail"
    _block_type_slug = "mail"
    _description = "Sends alarms by e-mail through a mail server of your own."

    host: str = Field(description="Name of the mail server; its certificate must be for this name.")
    port: int = Field(default=587, ge=1, le=65535, description="587 with starttls and 465 with tls are usual.")
    security: Literal["starttls", "tls", "none"] = Field(
        default="starttls", description="How the connection is encrypted. none is for a mail server on this machine."
    )
    sender: str = Field(description="Address that the messages come from.")
    recipients: list[str] = Field(min_length=1, description="Addresses that the e-mail goes to.")
    user: str | None = Field(default=None, description="Name to log in with; empty where the server wants none.")
    password: SecretStr | None = Field(default=None, description="Password of that name.")
    authority: str | None = Field(
        default=None,
        description="Certificate file of an authority of your own, on the Prefect server; empty for the system's.",
    )

    @model_validator(mode="after")
    def _passwords_travel_encrypted(self) -> Self:
        if self.security == "none" and self.password is not None:
            raise ValueError("With security none a password would travel in clear. Choose starttls or tls.")
        return self

    async def notify(self, body: str, subject: str | None = None) -> None:
        """Send one message to all recipients.

        Raises
        ------
        NotificationError
            It was not sent, and the caller wants to know; its log says why and holds no password.
        """
        try:
            await asyncio.to_thread(self._send, self._message(body, subject or "Blockveil"))
        except _NoAuthority:
            problem = "The authority's file is not one that the Prefect server can use"
        except (OSError, smtplib.SMTPException, ValueError) as error:
            problem = f"{self.host}:{self.port} took no message ({type(error).__name__})"
        else:
            return
        self.logger.error(problem)
        if self._raise_on_failure:
            raise NotificationError(log=problem)

    def _message(self, body: str, subject: str) -> EmailMessage:
        message = EmailMessage()
        message["Subject"] = " ".join(subject.split())[:_LONGEST_SUBJECT]
        message["From"], message["To"] = self.sender, ", ".join(self.recipients)
        message.set_content(body)
        return message

    def _trust(self) -> ssl.SSLContext:
        try:
            return ssl.create_default_context(cafile=self.authority or None)
        except OSError:  # a file that is missing, may not be read or is no certificate: which, must not show
            raise _NoAuthority from None

    def _send(self, message: EmailMessage) -> None:
        context = None if self.security == "none" else self._trust()
        with (
            smtplib.SMTP_SSL(self.host, self.port, timeout=TIMEOUT_SECONDS, context=context)
            if self.security == "tls"
            else smtplib.SMTP(self.host, self.port, timeout=TIMEOUT_SECONDS)
        ) as server:
            if self.security == "starttls":
                server.starttls(context=context)
            if self.user and self.password is not None:
                server.login(self.user, self.password.get_secret_value())
            server.send_message(message)
