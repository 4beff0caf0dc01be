import json
import os
import pathlib
import signal
import subprocess
import sys

FOLDER = globals().get("FOLDER", "")
ALONE = {"--rm", "--init"}


def main() -> None:
    with pathlib.Path(FOLDER, "calls.jsonl").open("a") as stream:
        stream.write(json.dumps({"program": "docker", "argv": sys.argv, "env": {}}) + "\n")
    if sys.argv[1] != "run":
        return
    words, env = sys.argv[2:], dict(os.environ)
    while words[0].startswith("-"):
        word = words.pop(0)
        if word in ALONE or "=" in word:
            continue
        value = words.pop(0)
        if word == "-e" and "=" in value:
            name, _, text = value.partition("=")
            env[name] = text
    child = subprocess.Popen(words[1:], env=env)
    signal.signal(signal.SIGTERM, lambda *_: child.terminate())
    sys.exit(child.wait())


main()
