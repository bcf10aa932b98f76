#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/run.sh [CMAKE OPTION ...]: installs what is missing, builds into build/
# and runs every test. Needs no network when all packages are there. Its exit
# code is ctest's. MC_BUILD names another folder, MC_TEST_REGEX a part of the
# tests, MC_TEST_JOBS how much of the machine they take (1: one by one).
set -euo pipefail
cd "$(dirname "$0")/.."
. cmake/deps.sh

build=${MC_BUILD:-build}

mc_deps_install build test
python=$(mc_deps_python)
cmake -G Ninja -S . -B "$build" -DMC_TESTS=ON -DMC_PYTHON3="$python" "$@"
cmake --build "$build" -j "$(mc_deps_jobs)"

# Twice the cores: see the end of tests/CMakeLists.txt.
exec ctest --test-dir "$build" --output-on-failure --no-tests=error \
    -j "${MC_TEST_JOBS:-$((2 * $(mc_deps_jobs)))}" ${MC_TEST_REGEX:+-R "$MC_TEST_REGEX"}
