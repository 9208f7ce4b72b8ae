# Sourced by the scripts beside it: one virtual environment, installed once and reused.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
venv="$root/.venv"
python="$venv/bin/python"
pins="$root/requirements/test.txt"
cd "$root"

find_python() {
    local candidate
    for candidate in "${PYTHON:-}" python3 python3.13 python3.12 python3.11 python3.10 python; do
        if [ -n "$candidate" ] && "$candidate" -c \
            'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    echo "skate needs Python 3.10 or newer; set PYTHON to its path" >&2
    return 1
}

pip_install() {
    # Every install obeys the test pins, so that no step can undo an earlier one.
    local pip=("$python" -m pip install --disable-pip-version-check --constraint "$pins")
    if [ -n "${show_installs:-}" ]; then
        "${pip[@]}" "$@" 2>&1 | sed -un 's/^Collecting \([^ ]*\).*/  \1/p; /^ERROR/p'
    else
        "${pip[@]}" --quiet "$@"
    fi
}

fingerprint() {
    # The checkout's place is part of it, because an editable install points there.
    { echo "$root"; "$python" -V; cat pyproject.toml "$@"; } | cksum
}

# ensure_env NAME [REQUIREMENTS-FILE...]: skate, editable, and what the files list, in .venv.
ensure_env() {
    local name="$1" stamp file wanted bare=()
    shift
    "$python" -c '' 2>/dev/null || "$(find_python)" -m venv --clear "$venv"
    stamp="$venv/.installed-$name"
    if [ -f "requirements/$name-bare.txt" ]; then bare=("requirements/$name-bare.txt"); fi
    wanted="$(fingerprint "$pins" ${bare[@]+"${bare[@]}"} "$@")"
    if [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ]; then compile_skate; return; fi
    echo "Preparing $name in .venv (once) ..."
    for file in "$@"; do
        # torch on its own, before anything that could ask for another build of it
        if grep -q '^torch==' "$file"; then pip_install "$(grep '^torch==' "$file")"; fi
        pip_install --requirement "$file"
    done
    for file in ${bare[@]+"${bare[@]}"}; do
        pip_install --no-deps --requirement "$file"
    done
    if [ "$name" = test ]; then
        fetch_images
        install_browser
    fi
    pip_install --editable .
    echo "$wanted" >"$stamp"
    compile_skate
}

fetch_images() {
    # FashionMNIST, from Debian's package, without installing that. Where it cannot be had, tests
    # and benchmarks draw stand-ins.
    local images=usr/share/datasets/fashion-mnist
    if [ -d "/$images" ] || [ -d "$venv/$images" ] || ! command -v dpkg-deb >/dev/null; then return 0; fi
    (
        folder="$(mktemp -d)"
        trap 'rm -rf "$folder"' EXIT
        cd "$folder"
        apt-get download dataset-fashion-mnist && dpkg-deb --extract ./*.deb "$venv"
    ) >/dev/null 2>&1 || echo "FashionMNIST could not be had: stand-ins are used"
}

install_browser() {
    # Chromium, for the tests of the page; only where this script may install packages.
    if command -v chromedriver >/dev/null && command -v chromium >/dev/null; then return 0; fi
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null &&
        DEBIAN_FRONTEND=noninteractive timeout 300 apt-get install --yes --no-install-recommends \
            chromium chromium-driver </dev/null >/dev/null 2>&1; then return 0; fi
    echo "no chromium (Debian: apt-get install chromium-driver): tests of the page in a browser are skipped"
}

compile_skate() {
    # So that processes start fast also where Python is told not to write bytecode by itself.
    "$python" -m compileall -q src/skate
}
