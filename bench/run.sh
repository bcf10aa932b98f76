#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bench/run.sh [--json] [--rounds N] [--seconds S] [ID ...]: builds the
# benchmarks in build-bench/ (Release) and runs the targets named, or all. A row
# tells the ratio, its gate and its goal; nothing here fails a build. With
# --json, standard output holds one object a line and nothing else.
set -euo pipefail
cd "$(dirname "$0")/.."
. cmake/deps.sh

build=${MC_BENCH_BUILD:-build-bench}
options=()
ids=()
while [ $# -gt 0 ]; do
    case $1 in
    --json) options+=("$1") ;;
    --rounds | --seconds)
        options+=("$1" "${2:?$1 needs a number}")
        shift
        ;;
    -*)
        echo "usage: $0 [--json] [--rounds N] [--seconds S] [ID ...]" >&2
        exit 2
        ;;
    *) ids+=("$1") ;;
    esac
    shift
done

{
    mc_deps_install build bench
    cmake -G Ninja -S . -B "$build" -DCMAKE_BUILD_TYPE=Release \
        -DMC_TESTS=OFF -DMC_TOOLS=OFF -DMC_EXAMPLES=OFF -DMC_BENCH=ON
    cmake --build "$build" -j "$(mc_deps_jobs)"
} >&2

found=()
for program in "$build"/bench/bench_*; do
    [ -f "$program" ] && [ -x "$program" ] || continue
    here=()
    while read -r id; do
        for wanted in "${ids[@]:-$id}"; do
            if [ "$wanted" = "$id" ]; then
                here+=("$id")
                found+=("$id")
            fi
        done
    done < <("$program" --list)
    if [ ${#here[@]} -gt 0 ]; then
        "$program" "${options[@]}" "${here[@]}" ||
            echo "$program ended with $?" >&2
    fi
done

# The package of Python as it stands in the build tree, if there is one.
python=$build/python
if compgen -G "$python/mckv/_store.*.so" >/dev/null; then
    here=()
    for id in T28 T28c T28r; do
        for wanted in "${ids[@]:-$id}"; do
            if [ "$wanted" = "$id" ]; then
                here+=("$id")
                found+=("$id")
            fi
        done
    done
    if [ ${#here[@]} -gt 0 ]; then
        PYTHONPATH=$python MC_PYTHON_CALLS=$(realpath "$build")/bench/libpython_calls.so \
            "$(mc_deps_python)" bench/bench_python.py "${options[@]}" "${here[@]}" || echo "bench_python ended with $?" >&2
    fi
fi

for wanted in "${ids[@]}"; do
    case " ${found[*]} " in
    *" $wanted "*) ;;
    *) echo "no such target: $wanted" >&2 ;;
    esac
done
