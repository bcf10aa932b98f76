#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# python/tests/wheel.sh PYTHON SCRATCH [CMAKE OPTION ...]: builds the wheel with
# nothing but this source, installs it into a new virtual environment, and looks
# at it from there: it is whole, it needs no folder that it was built in, its
# commands run, and what consumers do works with it. SCRATCH is used again, so
# that a second run compiles what has changed.
set -euo pipefail

python=$1
scratch=$2
shift 2
source=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    echo "python.wheel: $*" >&2
    exit 1
}

# What the surroundings lend must not be needed.
unset LD_LIBRARY_PATH LD_PRELOAD PYTHONPATH MC_MASTER MC_STORE MC_EVENTS
export PYTHONDONTWRITEBYTECODE=1 PIP_DISABLE_PIP_VERSION_CHECK=1

build_wheel() {
    MCKV_BUILD_DIR=$scratch CMAKE_ARGS=$* "$python" -m pip wheel --quiet \
        --no-deps --no-index --no-build-isolation -w "$work/wheels" \
        "$source/python"
    wheels=("$work"/wheels/mckv-*.whl)
    [ ${#wheels[@]} -eq 1 ] && [ -f "${wheels[0]}" ] || fail "not one wheel"
}

# The environment takes numpy, msgpack and pytest from the system.
install_wheel() {
    "$python" -m venv --without-pip --system-site-packages "$work/venv"
    "$python" -m pip --python "$work/venv/bin/python" install --quiet \
        --no-deps --no-index "${wheels[0]}"
    bin=$work/venv/bin
    package=$("$bin/python" -P -c 'import mckv, os; print(os.path.dirname(mckv.__file__))')
    case $package in
    "$work"/*) ;;
    *) fail "mckv comes from $package" ;;
    esac
}

# Each library of ours beside the extensions, and no way into a build folder.
check_libraries() {
    local file needed
    for file in "$package"/*.so "$package"/lib/*.so.* "$package"/bin/*; do
        needed=$(ldd "$file")
        case $needed in
        *"not found"*) fail "$file: $needed" ;;
        esac
        while read -r found; do
            case $(readlink -f "$found") in
            "$package"/lib/*) ;;
            *) fail "$file takes $found" ;;
            esac
        done < <(sed -n 's/.*libmckv.* => \([^ ]*\) .*/\1/p' <<<"$needed")
        if readelf -d "$file" | grep -E 'RPATH|RUNPATH' | grep -qF "$source"; then
            fail "$file looks for libraries in the source"
        fi
    done
}

check_commands() {
    local command
    for command in mc-master mc-store mc-events mooncake_master mooncake_client
    do
        "$bin/$command" --version | grep -q '[0-9]' || fail "$command --version"
        "$bin/$command" --help >/dev/null || fail "$command --help"
    done
}

build_wheel "$@"
install_wheel
check_libraries
check_commands
cd "$work"
PATH=$bin:$PATH exec "$bin/python" -P -m pytest -q -p no:cacheprovider \
    "$source/python/tests/test_hello.py" "$source/python/tests/test_consumers.py"
