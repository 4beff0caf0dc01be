"""The Triton server that the package nvidia-pytriton carries: where it is, and the folder its Python backend needs."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import trtspec
from trtspec.errors import EnvironmentMissing, ServerError
from trtspec.provenance import text_key
from trtspec.serving.plain_paths import plain_cache

__all__ = ["Installation", "environment", "find_installation", "prepare_backends"]

_FIX = "pip install 'trtspec[local]'"
_STUB = "triton_python_backend_stub"
# How often a thread of a pass looks for the next piece of work before it sleeps: about half a millisecond. Sleeping at
# once makes a pass over one row take 1.7 times as long on two threads; spinning for ever keeps the cores from the other
# models. Source: GOMP_SPINCOUNT in the manual of GNU libgomp.
_SPINS = "20000"


@dataclass(frozen=True)
class Installation:
    """One installed Triton; `backends` is made by `prepare_backends` before the first start."""

    package: Path
    version: str
    backends: Path

    @property
    def binary(self) -> Path:
        """The server's executable."""
        return self.package / "tritonserver" / "bin" / "tritonserver"

    @property
    def libraries(self) -> Path:
        """Shared libraries that the wheel brings along."""
        return self.package.parent / "nvidia_pytriton.libs"

    def sources(self) -> dict[str, Path]:
        """Name in the Python backend's folder → what it links to.

        The folder is the last entry of a model's `sys.path`: trtspec can be imported there however it is installed.
        """
        server = self.package / "tritonserver"
        stub = server / "python_backend_stubs" / _python_version() / _STUB
        backend = sorted((server / "backends" / "python").glob("*"))
        files = {path.name: path for path in backend if path.is_file()}
        return {**files, _STUB: stub, "trtspec": Path(trtspec.__file__).parent}


def find_installation() -> Installation:
    """The installed Triton, checked to run here; EnvironmentMissing says what is lacking."""
    if sys.platform != "linux" or platform.machine() not in ("x86_64", "AMD64"):
        here = f"{platform.system()} {platform.machine()}"
        raise EnvironmentMissing(
            f"the embedded Triton server runs on Linux x86_64, this is {here}",
            fix="run it in a Linux x86_64 container; check, build and repo work here",
        )
    spec = importlib.util.find_spec("pytriton")
    if spec is None or spec.origin is None:
        raise EnvironmentMissing("the embedded Triton server (package nvidia-pytriton) is not installed", fix=_FIX)
    package = Path(spec.origin).parent
    version = metadata.version("nvidia-pytriton")
    key = text_key([version, _python_version(), str(package), trtspec.__file__])
    installation = Installation(package, version, plain_cache() / "triton" / key)
    _check(installation)
    return installation


def _check(installation: Installation) -> None:
    if not installation.binary.is_file():
        raise EnvironmentMissing(f"nvidia-pytriton lacks {installation.binary}", fix=f"{_FIX} --force-reinstall")
    if not installation.sources()[_STUB].is_file():
        stubs = installation.package / "tritonserver" / "python_backend_stubs"
        known = ", ".join(sorted((path.name for path in stubs.glob("3.*")), key=lambda name: int(name[2:])))
        raise EnvironmentMissing(
            f"the embedded Triton server does not know Python {_python_version()} (it knows {known})",
            fix="make the virtual environment with one of these Python versions",
        )
    numpy = metadata.version("numpy")
    if int(numpy.partition(".")[0]) >= 2:
        raise EnvironmentMissing(
            f"numpy {numpy} is installed; with numpy 2 the embedded Triton server garbles text tensors", fix=_FIX
        )


def _python_version() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def prepare_backends(installation: Installation) -> Path:
    """Make `installation.backends` with the Python backend of this interpreter, if it is not there whole; return it.

    Two processes may do this at once: both build a temporary sibling, the first rename wins.
    """
    final, sources = installation.backends, installation.sources()
    if not _whole(final, sources):
        try:
            _make_backends(final, sources)
        except OSError as error:
            fix = "set TRTSPEC_CACHE to a folder that can be written"
            raise ServerError(f"cannot write {final}: {error}", fix=fix) from None
    if final.stat().st_uid != os.getuid():
        raise ServerError(f"{final} belongs to another user", fix="set TRTSPEC_CACHE to a folder of your own")
    return final


def _whole(final: Path, sources: Mapping[str, Path]) -> bool:
    return all((final / "python" / name).exists() for name in sources)


def _make_backends(final: Path, sources: Mapping[str, Path]) -> None:
    final.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = Path(tempfile.mkdtemp(prefix=f"{final.name}.", dir=final.parent))
    try:
        (temporary / "python").mkdir()
        for name, source in sources.items():
            (temporary / "python" / name).symlink_to(source)
        if final.exists() and not _whole(final, sources):
            final.rename(temporary / "broken")
        temporary.rename(final)
    except OSError:
        if not _whole(final, sources):
            raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def environment(installation: Installation, environ: Mapping[str, str]) -> dict[str, str]:
    """Variables that the server and its model processes need, on top of `environ`.

    The models run in this interpreter's environment: its programs come first on PATH, because the stub finds the
    environment by its `python3`. PYTHON* variables would do nothing, the stub's interpreter is an isolated one.
    """
    libraries = [installation.libraries, Path(sysconfig.get_config_var("LIBDIR") or sys.base_prefix)]
    programs = [Path(sys.executable).parent]
    # a policy of the user's own decides how long threads spin
    waiting = {} if "OMP_WAIT_POLICY" in environ else {"GOMP_SPINCOUNT": environ.get("GOMP_SPINCOUNT", _SPINS)}
    return {
        "LD_LIBRARY_PATH": _search_path(libraries, environ.get("LD_LIBRARY_PATH")),
        "PATH": _search_path(programs, environ.get("PATH", os.defpath)),
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        **waiting,
    }


def _search_path(first: list[Path], rest: str | None) -> str:
    entries = [*map(str, first), *(rest or "").split(os.pathsep)]
    return os.pathsep.join(dict.fromkeys(entry for entry in entries if entry))
