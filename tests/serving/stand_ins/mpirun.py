import itertools
import json
import os
import pathlib
import signal
import subprocess
import sys

FOLDER = globals().get("FOLDER", "")


def main() -> None:
    with pathlib.Path(FOLDER, "calls.jsonl").open("a") as stream:
        stream.write(json.dumps({"program": "mpirun", "argv": sys.argv, "env": {}}) + "\n")
    words = [word for word in sys.argv[1:] if word != "--allow-run-as-root"]
    groups = [list(group) for colon, group in itertools.groupby(words, lambda word: word == ":") if not colon]
    children = []
    for rank, group in enumerate(groups):
        assert group[:2] == ["-n", "1"], group
        env = {**os.environ, "OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": str(len(groups))}
        children.append(subprocess.Popen(group[2:], env=env))

    def end(*_: object) -> None:
        for child in children:
            child.terminate()

    signal.signal(signal.SIGTERM, end)
    codes = [child.wait() for child in children]
    sys.exit(max(abs(code) for code in codes))


main()
