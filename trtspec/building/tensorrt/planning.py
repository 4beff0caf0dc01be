"""Planning a build: which converted checkpoints and engines a spec asks for, their keys, and what is there already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from trtspec.building.built import BuildSettings, is_complete, read_manifest
from trtspec.building.identity import HashMemory
from trtspec.building.inspection.expectation import Expectation
from trtspec.building.inspection.requested import expectation_for
from trtspec.building.tensorrt.commands import build_commands, checkpoint_commands
from trtspec.building.tensorrt.docker import Container, Mount
from trtspec.building.tensorrt.keys import (
    EngineKeyParts,
    Identity,
    IdentityReader,
    checkpoint_key,
    engine_key,
    folder_identity,
)
from trtspec.building.tensorrt.quantize import dataset_folder
from trtspec.building.tensorrt.request import EngineRequest, engine_request, engine_requests
from trtspec.building.tensorrt.site import Site, assumed_tools, look_around, with_tools
from trtspec.building.tensorrt.steps import Product, Step, canonical, mounts_of, product_steps
from trtspec.building.tensorrt.tools import Tools
from trtspec.errors import BuildError, VersionUnsupported
from trtspec.progress import Reporter
from trtspec.spec import Role, SpecFile
from trtspec.toolchain.releases import same_release

__all__ = ["BuildPlan", "checkpoints_folder", "plan_build"]


def checkpoints_folder(spec_file: SpecFile) -> Path:
    """Folder of a spec's converted checkpoints, one sub-folder a key."""
    return spec_file.root / "engines" / spec_file.spec.name / "checkpoints"


@dataclass(frozen=True)
class BuildPlan:
    """Everything that a build will do; `products` in an order in which they can be made."""

    spec_file: SpecFile
    roles: tuple[Role, ...]
    site: Site
    settings: BuildSettings
    products: tuple[Product, ...]
    given: Mapping[Role, Path]
    identities: IdentityReader

    def refuse_changed(self, product: Product) -> None:
        """BuildError when what `product` was made of is not what the plan read, and so not what its key says."""
        source = self.spec_file.source(product.role)
        before, folder = product.identity, product.request.folder
        now = self.identities.read(folder, code=source.trust_remote_code, recorded=before.files)
        engine, calibrated = product.kind == "engine", product.request.precision.route == "quantizer"
        pairs = [(before.tokenizer, now.tokenizer)] if engine or calibrated else []
        pairs += [] if engine else [(before.model, now.model)]
        names = {name for old, new in pairs for name, _ in old.items() ^ new.items()}
        if names:
            message = f"{product.label}: the checkpoint changed meanwhile ({', '.join(sorted(names))})"
            raise BuildError(message, where=str(folder), fix="run the same command again once it is at rest")

    def forces(self, product: Product) -> bool:
        """True when a product is to be made even where it is whole."""
        return _forces(self.settings, product)

    @property
    def engines(self) -> dict[Role, Product]:
        """The engines among the products."""
        return {product.role: product for product in self.products if product.kind == "engine"}

    @property
    def to_make(self) -> list[Product]:
        """Products that have to be made."""
        return [product for product in self.products if product.needed and not product.done]

    def expectation(self, engine: Product) -> Expectation:
        """What an engine of the plan must be."""
        toolchain = self.site.toolchain
        version = toolchain.version if toolchain.origin != "default" else None
        return expectation_for(engine.request, version=version, sm=self.site.gpus.sm)

    def container(self, product: Product) -> Container | None:
        """The container that makes a product; None: it is made here."""
        if self.site.image is None:
            return None
        extra = [] if self.site.examples is None else [Mount(self.site.examples)]
        if (folder := dataset_folder(product.request)) is not None:
            extra.append(Mount(folder))
        return Container(self.site.image, (*mounts_of(product), *extra))

    def steps(self) -> list[Step]:
        """All steps in order, for `--dry-run`: each program, and the inspection of each engine."""
        steps: list[Step] = []
        for role in self.roles:
            if role in self.given:
                steps.append(_inspection(role, self.given[role], "", cached=False))
                continue
            for product in self.products:
                if product.role == role:
                    steps += product_steps(product, self.container(product))
            engine = self.engines[role]
            steps.append(_inspection(role, engine.folder, engine.key, cached=engine.done))
        return steps


def with_dataset_by_content(request: EngineRequest) -> EngineRequest:
    """The same with a calibration folder named by what is in it: a key must not depend on where it lies."""
    folder = dataset_folder(request)
    if folder is None:
        return request
    calibration = request.calibration.model_copy(update={"dataset": folder_identity(folder)})
    return replace(request, calibration=calibration)


def _inspection(role: Role, folder: Path, key: str, *, cached: bool) -> Step:
    return Step(
        id=f"inspect-{role}" + (f"-{key}" if key else ""),
        role=role,
        roles=(role,),
        stage="inspect",
        argv=("trtspec", "engines", "show", str(folder), "--role", role),
        env={},
        cwd=folder.parent,
        inputs=(str(folder / "config.json"),),
        outputs=(),
        key=key,
        cached=cached,
    )


def plan_build(
    spec_file: SpecFile, roles: Sequence[Role], settings: BuildSettings, reporter: Reporter, *, run: bool = True
) -> BuildPlan:
    """Examine what the spec asks for, from metadata alone; nothing is written or started.

    Raises what speaks against it: SpecError, VersionUnsupported, CheckpointError, BuildError. Without `run` the
    commands are those of NVIDIA's image: enough to find what is there.
    """
    site = look_around(spec_file, settings)
    given = {role: path for role in roles if (path := spec_file.given_engine(role)) is not None}
    built = [role for role in roles if role not in given]
    requests = dict(zip(built, engine_requests(spec_file, built, site.toolchain), strict=True))
    families = [request.family for request in requests.values()]
    memory = HashMemory(spec_file.root / "engines" / ".checkpoints.json")
    planner = _Planner(
        spec_file,
        site,
        with_tools(site, families) if run else assumed_tools(site, families),
        assumed_tools(site, families),
        IdentityReader(memory, reporter, settings.full_hash),
    )
    engines = [planner.engine(role, request, settings) for role, request in requests.items()]
    products = tuple(_with_checkpoints(engines, settings))
    return BuildPlan(spec_file, tuple(roles), site, settings, products, given, planner.identities)


def _forces(settings: BuildSettings, product: Product) -> bool:
    return settings.reconvert or (settings.force and product.kind == "engine")


def _done(settings: BuildSettings, product: Product) -> bool:
    return is_complete(product.folder) and not _forces(settings, product)


def _with_checkpoints(engines: Sequence[Product], settings: BuildSettings) -> list[Product]:
    """Each engine after the checkpoint that it needs; one that several need stands once, before the first."""
    wanted: dict[str, list[Product]] = {}
    for engine in engines:
        assert engine.needs is not None
        wanted.setdefault(engine.needs.key, []).append(engine)
    made: dict[str, Product] = {}
    ordered: list[Product] = []
    for engine in engines:
        assert engine.needs is not None
        key = engine.needs.key
        if key not in made:
            users = wanted[key]
            made[key] = replace(
                engine.needs,
                roles=tuple(user.role for user in users),
                done=_done(settings, engine.needs),
                needed=any(not user.done for user in users),
            )
            ordered.append(made[key])
        ordered.append(replace(engine, needs=made[key]))
    return ordered


@dataclass
class _Planner:
    spec_file: SpecFile
    site: Site
    tools: Tools
    key_tools: Tools
    identities: IdentityReader

    def engine(self, role: Role, request: EngineRequest, settings: BuildSettings) -> Product:
        """The role's engine: one that is finished, else the one to build."""
        code = self.spec_file.source(role).trust_remote_code
        product = self._product(role, request, self.identities.read(request.folder, code=code))
        if not is_complete(product.folder):
            product = self._matching(role) or product
        return replace(product, done=_done(settings, product))

    def _product(self, role: Role, request: EngineRequest, identity: Identity, sm: int | None = None) -> Product:
        sm = self.site.gpus.sm if sm is None else sm
        version = self.site.toolchain.version
        calibrated = request.precision.route == "quantizer"
        keyed = with_dataset_by_content(request) if calibrated else request
        converted = canonical(checkpoint_commands(keyed, "SOURCE", "OUTPUT", self.key_tools))
        key = checkpoint_key(identity, version, converted, calibrated=calibrated)
        folder = checkpoints_folder(self.spec_file) / key
        inside = self.site.image is not None
        checkpoint = Product("checkpoint", role, (role,), folder, key, request, identity, self.tools, inside=inside)
        built = canonical(build_commands(request, "CHECKPOINT", "OUTPUT", self.key_tools))
        key = engine_key(EngineKeyParts(key, version, sm), identity, built)
        folder = self.spec_file.engines(role) / key
        return Product("engine", role, (role,), folder, key, request, identity, self.tools, checkpoint, inside)

    def _matching(self, role: Role) -> Product | None:
        """A finished engine that is what the spec asks for under the circumstances its manifest records.

        Those may differ from today's where today's are not known: the GPU (none is here), the version (nothing says
        which), weight files (they were removed after the build).
        """
        for path in sorted(self.spec_file.engines(role).glob("*/manifest.json")):
            if (found := self._as_recorded(role, path.parent)) is not None and is_complete(path.parent):
                return found
        return None

    def _as_recorded(self, role: Role, folder: Path) -> Product | None:
        manifest = read_manifest(folder)
        version, sm = _text(manifest.get("versions"), "tensorrt_llm"), manifest.get("sm")
        if version is None or not self._allows(version, sm):
            return None
        toolchain = replace(self.site.toolchain, version=version, minor=".".join(version.split(".")[:2]))
        planner = replace(self, site=replace(self.site, toolchain=toolchain))
        request = engine_request(self.spec_file, role, toolchain)
        recorded = _recorded_files(manifest)
        code = self.spec_file.source(role).trust_remote_code
        identity = self.identities.read(request.folder, code=code, recorded=recorded)
        product = planner._product(role, request, identity, sm)
        return product if product.key == folder.name else None

    def _allows(self, version: str, sm: Any) -> bool:
        """True when nothing that is known here speaks against a version and an architecture."""
        toolchain, here = self.site.toolchain, self.site.gpus.sm
        return (toolchain.origin == "default" or _agree(version, toolchain.version)) and (here is None or sm == here)


def _agree(recorded: str, version: str) -> bool:
    try:
        return same_release(recorded, version)
    except VersionUnsupported:  # a damaged manifest
        return False


def _recorded_files(manifest: Mapping[str, Any]) -> dict[str, str]:
    """The checkpoint's identity in a manifest, as far as it is of the right form."""
    checkpoint = manifest.get("checkpoint")
    files = checkpoint.get("files") if isinstance(checkpoint, dict) else None
    return {name: value for name, value in files.items() if isinstance(value, str)} if isinstance(files, dict) else {}


def _text(data: Any, name: str) -> str | None:
    value = data.get(name) if isinstance(data, dict) else None
    return value if isinstance(value, str) else None
