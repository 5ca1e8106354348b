"""The Prefect server that the environment or the profile names: whether it answers, and why not."""

from __future__ import annotations

from contextlib import suppress

import httpx
from prefect import get_client
from prefect.settings import get_current_settings

from blockveil.flows.service.server import ServerFailed


def require_server() -> str:
    """Address of the server that the environment or the profile names, once it has answered.

    Raises
    ------
    ServerFailed
        None is named (a temporary server would forget everything at once), or it does not answer, cannot prove who it
        is, or does not know the password.
    """
    address = get_current_settings().api.url
    if not address:
        raise ServerFailed(
            "No Prefect server is named",
            "Deployments live on a permanent server",
            "Set PREFECT_API_URL, for example http://127.0.0.1:4200/api while `blockveil serve` runs",
        )
    problem = _unfit(str(address))
    if problem is not None:
        raise problem
    return str(address)


def why_not_recorded(error: Exception, otherwise: str) -> tuple[str, str, str]:
    """What was found, the rule and the remedy where Prefect could not run or record a release.

    How the caller does without Prefect is said in the words of ``otherwise``.
    """
    address = get_current_settings().api.url
    problem = None
    if address:
        with suppress(Exception):  # what the server is asked here must not hide why it was asked
            problem = _unfit(str(address))
    again = f"run again (what was done is resumed), or {otherwise}"
    if problem is None:
        rule = "A run is recorded by a Prefect server: the one PREFECT_API_URL names, else a temporary one"
        return f"Prefect failed with {type(error).__name__}", rule, f"Start or correct the server and {again}"
    return problem.value, "A run is recorded by the server that PREFECT_API_URL names", f"{problem.remedy}; {again}"


def _unfit(address: str) -> ServerFailed | None:
    try:
        with get_client(sync_client=True) as client:
            client.request("GET", "/hello").raise_for_status()  # nothing that anybody could have made unreadable
    except httpx.HTTPStatusError as error:
        if error.response.status_code in (401, 403):
            return ServerFailed(
                f"The Prefect server at {address} does not let this command in ({error.response.status_code})",
                "It asks for a password",
                "Set PREFECT_API_AUTH_STRING=user:password as the server has it; the login of `blockveil serve` is "
                "found by itself, with the PREFECT_HOME of that service and the address that it printed, /api added",
            )
        return ServerFailed(
            f"The Prefect server at {address} answers with an error ({error.response.status_code})",
            "It must know this version's requests",
            "Look into its log, and give it the version that this package is installed with",
        )
    except httpx.TransportError as error:
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            return ServerFailed(
                f"{address} shows a certificate that nobody known here has signed for that name",
                "Who takes the server's place could take its password",
                "Set PREFECT_API_SSL_CERT_FILE to the certificate of your authority, and use the name that it is for",
            )
        return ServerFailed(
            f"Nobody answers at {address} ({type(error).__name__})",
            "Deployments live on a server that runs",
            "Start it, or correct PREFECT_API_URL",
        )
    return None
