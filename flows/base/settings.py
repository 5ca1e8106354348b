"""Settings of Prefect, Dask and proxies for private work; anything that is set already is kept.

They are made when the package is imported, before any of its modules imports Prefect. A program that has imported
Prefect before gets them too, except for what Prefect does while it is imported: on its first use in a terminal it
reports that to its makers, unless ``DO_NOT_TRACK=1`` is set.
"""

import os
import sys
from urllib.request import getproxies_environment

_DEFAULTS = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",  # a server that is started here reports nothing to its makers
    "DO_NOT_TRACK": "1",  # nor does a process that talks to a server whose owner lets it
    "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
    "PREFECT_SERVER_UI_V2_ENABLED": "false",  # the newer pages make the browser contact an outside host
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",  # a cold start takes most of the standard 20 s
    "PREFECT_SERVER_EPHEMERAL_ENABLED": "false",  # it would want no login; ours (server.py) does
    # In memory, the standard, a server that restarts forgets who holds a turn, and the turn never ends.
    "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": "prefect.server.concurrency.lease_storage.filesystem",
    "PREFECT_SERVER_SERVICES_DB_VACUUM_ENABLED": "true",  # else runs and their logs are kept for ever, not for 90 days
    "PREFECT_RUNNER_POLL_FREQUENCY": "5",  # seconds until a due run starts; the standard is 10
    "DASK_LOGGING__DISTRIBUTED": "warning",  # else every worker writes a screenful through Prefect's root logger
}

for _name, _value in _DEFAULTS.items():
    os.environ.setdefault(_name, _value)

# This machine is never reached through a proxy: one would see the login of a server here, or answer in its place.
# Clients and child processes read the environment; where no proxy stands there, macOS has others that this would hide.
_proxies = getproxies_environment()
if sys.platform != "darwin" or _proxies.keys() - {"no"}:
    _direct = [each for each in _proxies.get("no", "").split(",") if each.strip()]
    _direct += [each for each in ("localhost", "127.0.0.1", "::1") if each not in _direct]
    if "*" not in _direct:
        os.environ["no_proxy"] = os.environ["NO_PROXY"] = ",".join(_direct)

# Prefect keeps what it has read; where it is only being imported, it has not read yet.
_context = sys.modules.get("prefect.context")
if _context is not None and hasattr(_context, "GLOBAL_SETTINGS_CONTEXT"):
    _context.refresh_global_settings_context()
