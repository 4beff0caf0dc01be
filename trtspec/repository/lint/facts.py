"""What the rules about repositories look at: models, who calls whom, and the engines behind them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from trtspec.building.inspection import EngineConfig
from trtspec.building.inspection.engine_config import load_engine_config
from trtspec.errors import TrtspecError
from trtspec.repository.contract import Contract, contract_for
from trtspec.repository.lint.listeners import Listener
from trtspec.repository.lint.model import Model
from trtspec.repository.lint.paths import RootMap
from trtspec.repository.lint.reading import read_models
from trtspec.rules.registry import Hit, Level, Role
from trtspec.spec.names import DRAFT_MODEL, TARGET_MODEL
from trtspec.toolchain.releases import version_of_image

__all__ = ["Caller", "EngineView", "RepositoryFacts", "gather", "hit"]


@dataclass(frozen=True)
class EngineView:
    """The engine of a model. seen: its path as the server has it; host: here; None for a URL.

    config: None when it cannot be read, `problem` then says why.
    """

    seen: str
    host: Path | None
    config: EngineConfig | None = None
    problem: str | None = None
    files: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Caller:
    """A model that calls others, with the names of those that run engines; draft: None when it names none.

    lookup: it finds drafts in the text, alone or before the draft model's.
    """

    model: Model
    target: str
    draft: str | None
    lookup: bool = False

    @property
    def speculates(self) -> bool:
        """Whether it gives the target drafts."""
        return self.draft is not None or self.lookup


@dataclass(frozen=True)
class RepositoryFacts:
    """A repository, read once. image: what will serve it, as given; `image_version`: TensorRT-LLM's in it.

    listeners: the ports of its server, last, after those of servers that run beside it; () where none is known.
    """

    folder: Path
    models: tuple[Model, ...]
    engines: Mapping[str, EngineView]
    image: str | None = None
    listeners: tuple[Listener, ...] = ()

    def model(self, name: str | None) -> Model | None:
        """The model called `name`, if its config.pbtxt could be parsed."""
        return next((model for model in self.parsed if model.name == name), None)

    @property
    def parsed(self) -> tuple[Model, ...]:
        """Models whose config.pbtxt could be parsed."""
        return tuple(model for model in self.models if model.config is not None)

    @property
    def leaves(self) -> tuple[Model, ...]:
        """Those that run a TensorRT engine through NVIDIA's C++ backend."""
        return tuple(model for model in self.parsed if model.cpp)

    @property
    def callers(self) -> tuple[Caller, ...]:
        """Our frontends and NVIDIA's BLS models."""
        return tuple(
            Caller(
                model,
                model.value("tensorrt_llm_model_name") or TARGET_MODEL,
                model.value("tensorrt_llm_draft_model_name"),
                model.kind == "frontend" and model.flag("lookup"),
            )
            for model in self.parsed
            if model.kind in ("frontend", "bls")
        )

    @property
    def pairs(self) -> tuple[tuple[Caller, Model, Model], ...]:
        """Callers whose target and draft are both there."""
        found = ((caller, self.model(caller.target), self.model(caller.draft)) for caller in self.callers)
        return tuple((caller, target, draft) for caller, target, draft in found if target and draft)

    @property
    def speculative(self) -> tuple[tuple[Caller, Model], ...]:
        """Callers that speculate, with their target, where it is there."""
        found = ((caller, self.model(caller.target)) for caller in self.callers if caller.speculates)
        return tuple((caller, target) for caller, target in found if target)

    @property
    def image_version(self) -> str | None:
        """TensorRT-LLM in the image."""
        return version_of_image(self.image) if self.image else None

    def engine(self, model: Model) -> EngineConfig | None:
        """The readable engine of a model."""
        view = self.engines.get(model.name)
        return view.config if view else None

    def each_engine(self) -> Iterator[tuple[Model, EngineConfig]]:
        """Models of the C++ backend whose engine can be read."""
        for model in self.leaves:
            engine = self.engine(model)
            if engine is not None:
                yield model, engine

    def version(self, model: Model) -> str | None:
        """The release that a model of the C++ backend is for: its engine's, else the image's, else unknown."""
        engine = self.engine(model)
        return engine.version if engine else self.image_version

    def contract(self, model: Model) -> Contract | None:
        """What that release takes; None when it is not known."""
        version = self.version(model)
        try:
            return contract_for(version) if version else None
        except TrtspecError:
            return None

    def role(self, name: str) -> Role:
        """Whose a model is: the target's or the draft's where a caller says so, else the repository's."""
        drafts = {caller.draft for caller in self.callers} or {DRAFT_MODEL}
        targets = {caller.target for caller in self.callers} or {TARGET_MODEL}
        return "target" if name in targets else "draft" if name in drafts else "repository"


def hit(  # noqa: PLR0913 - every field of a finding, by name
    facts: RepositoryFacts,
    model: Model,
    message: str,
    fix: str | None = None,
    *,
    line: int | None = None,
    level: Level | None = None,
    **data: object,
) -> Hit:
    """A hit in a model's config.pbtxt; the message begins with the place."""
    where = {"model": model.name, "file": str(model.folder / "config.pbtxt"), "line": line}
    return Hit(facts.role(model.name), f"{model.place(line)}: {message}", fix, {**where, **data}, level)


def gather(
    folder: Path, roots: RootMap, image: str | None = None, listeners: tuple[Listener, ...] = ()
) -> RepositoryFacts:
    """Read a repository and the engines that it names; UsageError when there is no such folder."""
    models = read_models(folder)
    views = {model.name: _view(model, roots) for model in models if model.kind == "leaf"}
    found = {name: view for name, view in views.items() if view is not None}
    return RepositoryFacts(folder, models, found, image, listeners)


def _view(model: Model, roots: RootMap) -> EngineView | None:
    seen = model.value("gpt_model_path")
    if seen is None:
        return None
    host = roots.host(seen)
    if host is None:
        return EngineView(seen, None)
    problem = _folder_problem(host)
    if problem is not None:
        return EngineView(seen, host, problem=problem)
    files = {path.name: path.stat().st_size for path in host.iterdir() if path.is_file()}
    if not model.cpp:
        return EngineView(seen, host, files=files)
    config, problems = load_engine_config(host)
    return EngineView(seen, host, config, "; ".join(str(item) for item in problems) or None, files)


def _folder_problem(host: Path) -> str | None:
    try:
        if not host.is_dir():
            return "is a file, not a folder" if host.exists() else "is not there"
        return None if any(host.iterdir()) else "is empty"
    except OSError as error:
        return f"cannot be read: {error.strerror}"
