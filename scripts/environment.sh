# Sourced by the other scripts: makes .venv with the tested versions, once, and again when they change.
# PYTHON=python3.12 scripts/test chooses the interpreter; the versions are those of constraints.txt.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python="${PYTHON:-python3}"
if ! "$python" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] < (3, 13))' 2>/dev/null; then
  echo "error: these scripts need Python 3.10 to 3.12 (the embedded Triton needs numpy 1, which 3.13 has not), and '$python' is not one" >&2
  echo "next: PYTHON=/path/to/python3.12 $0" >&2
  exit 2
fi

extras="${TRTSPEC_EXTRAS:-local}"
stamp=".venv/installed-$(cat pyproject.toml constraints.txt scripts/environment.sh | cat - <(echo "$extras" "$PWD") | sha256sum | cut -c1-16)"
if [ ! -e "$stamp" ]; then
  [ -x .venv/bin/python ] || { echo "making .venv with $("$python" --version)" >&2; "$python" -m venv .venv; }
  echo "installing trtspec[$extras] and the tested versions of what it needs into .venv (a few minutes the first time)" >&2
  # PyTorch first and by itself: pip then keeps this build when the other packages ask for a range.
  torch="$(grep -E '^torch==' constraints.txt)"
  .venv/bin/python -m pip install --quiet --disable-pip-version-check "$torch" >&2
  .venv/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[$extras]" >&2
  rm -f .venv/installed-*
  touch "$stamp"
fi
export PATH="$PWD/.venv/bin:$PATH"
export VIRTUAL_ENV="$PWD/.venv"
