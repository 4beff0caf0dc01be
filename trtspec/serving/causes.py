"""The table from a line in a server's log to its likely cause and what to do.

Lines of TensorRT-LLM and docker are taken from the threads and documents named as sources, none was seen by us: no
GPU was there. docs/serving.md shows this table; a test holds the two together.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CAUSES", "Cause", "table_markdown"]


@dataclass(frozen=True)
class Cause:
    """A log pattern, what it usually means, and what to do; `{name}` stands for a named group of the pattern.

    source: where the line was seen; empty: written by Triton 2.51 in our own tests.
    """

    pattern: str
    cause: str
    fix: str
    source: str = ""


_LOCAL = "pip install 'trtspec[local]'"
_BUILD = "trtspec build, then trtspec repo"

# The first match decides: the particular before the general.
CAUSES: tuple[Cause, ...] = (
    Cause(
        # gRPC's own lines come first; Triton then says that the socket is in use, which it is not
        r"Invalid (?:private key|cert chain)|Unable to create secure server",
        "the TLS certificate and key do not belong together, or one of them cannot be read",
        "serving.tls_certificate and tls_key name PEM files that belong together, the key without a password",
    ),
    Cause(
        r"Socket '(?P<address>[^']+)' already in use|Address already in use|Failed to start \w+ (?:service|server)",
        "a port was taken by another process while the server started",
        "choose other ports: --http-port, --grpc-port, --metrics-port",
    ),
    Cause(
        r"engine plan file is not compatible with this version of TensorRT"
        r"(?:, expecting library version (?P<expected>[\d.]+) got (?P<got>[\d.]*\d))?",
        "the engine was built with another TensorRT (this server's is {expected}, the engine's {got})",
        "serve it in the image of the version that built it (--image), or trtspec build --force with this one",
        "tensorrtllm_backend#194, #424",
    ),
    Cause(
        r"engine plan file is generated on an incompatible device"
        r"(?:, expecting compute (?P<here>[\d.]+) got compute (?P<built>[\d.]*\d))?",
        "the engine was built for another GPU architecture (compute {built}; this GPU is {here})",
        "trtspec build --force on a GPU like this one, then trtspec repo",
        "run-llama/llama_index#12318, TensorRT-LLM#1695",
    ),
    Cause(
        r"[Ff]ailed to deserialize cuda engine|deserializeCudaEngine|Magic tag does not match",
        "an engine file cannot be read: another TensorRT built it, or it is damaged",
        "serve it in the image of the version that built it (--image), or trtspec build --force",
        "TensorRT-LLM#1838",
    ),
    Cause(
        r"json\.exception\.parse_error|Error opening engine file",
        "a model's gpt_model_path has no readable engine: an empty or wrong folder, as the server sees it",
        "trtspec repo --lint, and look at what the container sees (--dry-run shows its mounts)",
        "tensorrtllm_backend#61, #207, #500",
    ),
    Cause(
        r"MPI worldSize is expected to be equal to tp\*pp|mpiSize == tp \* pp|MPI size (?P<size>\d+) != TP size"
        r"|Engine world size [^\n]*!= Runtime world size",
        "another number of MPI ranks was started than the engine was built for",
        "start it with trtspec serve, which takes the number from the engines, or leave out --launch",
        "TensorRT-LLM#1047, #1992, #2021, #2058, #753",
    ),
    Cause(
        r"[Pp]articipant(?:_i|I)ds?[^\n]*(?:must|should|expected|mismatch|out of range|duplicate)"
        r"|participant(?:_i|I)ds?[^\n]*not (?:set|specified)[^\n]*orchestrator",
        "participant_ids do not fit the MPI ranks that were started",
        "trtspec repo writes them (serving.fast_logits), trtspec serve starts as many ranks",
        "tensorrtllm_backend docs/model_config.md, TensorRT-LLM#1608",
    ),
    Cause(
        r"There are not enough slots available|not enough slots",
        "Open MPI wants a core for each rank, and this machine has fewer",
        "export OMPI_MCA_rmaps_base_oversubscribe=1",
        "Open MPI's mpirun(1)",
    ),
    Cause(
        r"MPI_Comm_spawn[^\n]*(?:fail|error)|(?:unable to|cannot|could not) [^\n]*trtllmExecutorWorker",
        "the orchestrator could not start its workers (trtllmExecutorWorker)",
        "look at the log; the worker lies beside the backend, parameter executor_worker_path names another place",
        "tensorrtllm_backend docs/model_config.md",
    ),
    Cause(
        r"maxTokensInPagedKvCache must be large enough|max_tokens_in_paged_kv_cache[^\n]*(?:too small|must be)",
        "the KV cache does not hold one sequence of full length: too little GPU memory was free when it was made",
        "trtspec plan shows what fits: lower build.max_seq_len or build.max_batch_size, or use more GPUs",
        "tensorrtllm_backend#168, TensorRT-LLM#494, #542",
    ),
    Cause(
        r"CUDA runtime error in [^\n]*out of memory|cudaMalloc[^\n]*out of memory|CUDA out of memory|OutOfMemory"
        r"|[Cc]uda [Rr]untime \(out of memory\)",
        "a GPU ran out of memory while the engines were loaded or their KV caches made",
        "end what else uses the GPU (nvidia-smi); trtspec plan shows what fits, and trtspec repo caps the caches",
        "TensorRT-LLM#401, #283, #2398",
    ),
    Cause(
        r"model has to be built with paged context FMHA",
        "KV cache reuse is on, and the engine was built without paged context FMHA",
        "trtspec build, then trtspec repo",
        "tensorrtllm_backend#323",
    ),
    Cause(
        r"larger than maximum number of draft tokens",
        "more tokens were drafted than the target engine was built for",
        "raise speculation.max_draft_length, then trtspec build and trtspec repo",
        "tensorrtllm_backend#473",
    ),
    Cause(
        r"worker_path parameter is specified",
        "the repository was made for an older TensorRT-LLM (parameter worker_path)",
        "trtspec repo",
        "TensorRT-LLM triton_backend: model_state.cc",
    ),
    Cause(
        r"signal (?:7|SIGBUS)|Bus error|Signal: Bus error",
        "/dev/shm is too small: a process wrote to shared memory that there was no room for",  # noqa: S108
        "give it more room: trtspec serve --with docker does (--shm-size)",
        "triton-inference-server/server#3678, TensorRT-LLM#674",
    ),
    Cause(
        r"error while loading shared libraries: (?P<library>lib(?:nvinfer|tensorrt_llm|nvonnxparser|th_common)\S*):"
        r"|(?P<other>lib(?:nvinfer|tensorrt_llm)\S*): cannot open shared object file",
        "{library} of TensorRT is not found: this server is not NVIDIA's image with TensorRT-LLM",
        "--with docker, or run trtspec in an image that ends in -trtllm-python-py3",
        "tensorrtllm_backend README, section on images",
    ),
    Cause(
        r"CUDA driver version is insufficient|no CUDA-capable device|[Nn]o GPUs? (?:found|available)"
        r"|could not select device driver",
        "no usable GPU: none is there, the driver is too old for the image, or the container was given none",
        "trtspec doctor; in docker NVIDIA's container toolkit is needed (docker run --gpus all … nvidia-smi)",
        "NVIDIA/nvidia-container-toolkit documentation",
    ),
    Cause(
        r"(?:Can't load|Unable to load|Couldn't instantiate) [^\n]*tokenizer"
        r"|Repo id must be in the form|not a local folder and is not a valid model identifier",
        "the frontend's tokenizer is not where tokenizer_dir says, as the server sees it",
        "trtspec repo --lint; serving.engines: copy puts it into the repository",
        "huggingface/transformers: AutoTokenizer.from_pretrained",
    ),
    Cause(
        r"Unable to find image|manifest (?:unknown|for [^\n]* not found)|pull access denied|repository does not exist",
        "docker has no such image and cannot fetch it",
        "docker pull it first (docker login nvcr.io), or give another --image",
        "docker run(1)",
    ),
    Cause(
        r"Cannot connect to the Docker daemon|permission denied while trying to connect to the [Dd]ocker",
        "docker's daemon does not run, or this user may not use it",
        "start docker, or add the user to the group docker",
        "docker run(1)",
    ),
    Cause(
        r"bind source path does not exist: (?P<path>[^\n]+)",
        "a folder that the container should see is not there: {path}",
        "trtspec build, then trtspec repo",
        "docker run(1)",
    ),
    Cause(
        r"compiled using NumPy 1\.x cannot be run in\s+NumPy 2|numpy\.core\.multiarray failed to import"
        r"|_ARRAY_API not found",
        "numpy 2 is installed; the server's Python backend needs numpy 1",
        _LOCAL,
    ),
    Cause(
        r"error while loading shared libraries: (?P<library>libpython\S+):",
        "the interpreter's shared library {library} is not installed",
        "install it (Debian, Ubuntu: the package libpython3.X), or use a Python built with a shared library",
    ),
    Cause(
        r"error while loading shared libraries: (?P<library>[^:\s]+):",
        "the shared library {library} is not installed",
        "install the system package that contains it",
    ),
    Cause(
        r"No space left on device|boost::interprocess|[Uu]nable to initialize shared memory key"
        r"|[Ff]ailed to increase the shared memory pool",
        "/dev/shm is too small for the model processes",  # noqa: S108  # a message
        "give it more room (docker run --shm-size=1g)",
    ),
    Cause(
        r"MemoryError|Cannot allocate memory|[Oo]ut of memory|std::bad_alloc|can't allocate memory",
        "there is not enough memory for the engines",
        "free memory, lower build.max_batch_size or build.max_seq_len, or use smaller models",
    ),
    Cause(
        r"No module named '(?P<module>[^']+)'",
        "the model's code imports {module}, which is not installed in this environment",
        _LOCAL,
    ),
    Cause(
        r"ImportError: (?P<detail>[^\n]+)",
        "an import in the model's code failed: {detail}",
        f"{_LOCAL}; trtspec repo writes the models' code anew",
    ),
    Cause(
        r"Python version mismatch|incompatible Python version|undefined symbol: _?Py",
        "the Python backend's stub and this interpreter have different versions",
        "make the virtual environment anew with Python 3.10 to 3.13",
    ),
    Cause(
        r"unable to find backend library for backend '(?P<backend>[^']+)'"
        r"|Invalid argument: unable to find '(?P<library>[^']+)' (?:or[^\n]*)?for model",
        "the server lacks the backend {backend} (the embedded one has only the Python backend)",
        "--with docker, or run trtspec in NVIDIA's image; runtime torch needs only the embedded server",
    ),
    Cause(
        r"Failed to create instance: (?:CheckpointError|EngineUnsupported): (?P<why>[^\n]+)",
        "the torch runtime cannot load an engine: {why}",
        "put that right, then trtspec build --force and trtspec repo",
    ),
    Cause(
        r"FileNotFoundError: [^\n]*'(?P<path>[^'\n]+)'|No such file or directory: '?(?P<other>[^'\n]+)'?",
        "a file that the repository points to is missing: {path}",
        _BUILD,
    ),
    Cause(
        r"(?:ArtefactMissing|engine [^\n]*(?:missing|not found))",
        "the engine that the repository points to is missing",
        _BUILD,
    ),
    Cause(r"[Pp]ermission denied", "a file or folder may not be read or written", "look at the owner of the files"),
    Cause(
        r"failed to read text proto|Error parsing text-format|[Ii]nvalid model name|failed to load model configuration",
        "a config.pbtxt in the repository is damaged",
        "trtspec repo",
    ),
    Cause(
        r"(?:safetensors_rust\.)?SafetensorError|Error while deserializing header",
        "the engine's weights are damaged",
        "trtspec build --force, then trtspec repo",
    ),
    Cause(
        r"Stub process '[^']*' is not healthy|[Ff]ailed to (?:wait for|launch)[^\n]*stub|Timed out occurred",
        "a model's Python process died while it was loaded",
        "look at the log; out of memory is the usual reason",
    ),
)


def table_markdown() -> str:
    """The table as it stands in docs/serving.md."""
    rows = [
        f"| {_cell(known.cause)} | {_cell(known.fix)} | {known.source or 'seen with Triton 2.51'} |" for known in CAUSES
    ]
    return "\n".join(["| cause | what to do | source |", "|---|---|---|", *rows])


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("{", "<").replace("}", ">")
