# SPDX-License-Identifier: Apache-2.0
# Sourced by the scripts here, which set `root` and `build` first: builds
# programs, starts a master, nodes and what else a script wants, and leaves none
# of them behind.

# build_targets TARGET...: installs what is missing and builds. What is there
# already is left as it is: a build folder of the tests serves.
build_targets() {
    . "$root/cmake/deps.sh"
    mc_deps_install build
    if [ ! -e "$build/CMakeCache.txt" ]; then
        cmake -G Ninja -S "$root" -B "$build" \
            -DCMAKE_BUILD_TYPE=RelWithDebInfo -DMC_TESTS=OFF >/dev/null
    fi
    local log make=(cmake --build "$build" -j "$(mc_deps_jobs)" --target "$@")
    if [ -t 1 ]; then
        "${make[@]}"
    elif ! log=$("${make[@]}" 2>&1); then
        echo "$log" >&2
        exit 1
    fi
}

# need PROGRAM...: all of them are there.
need() {
    local program
    for program in "$@"; do
        if [ ! -x "$program" ]; then
            echo "${0##*/}: not built: $program" >&2
            exit 1
        fi
    done
}

running=() # processes, in the order in which they are to end
end_all() {
    local code=$? pid
    for pid in "${running[@]}"; do
        kill "$pid" 2>/dev/null || true
    done
    for pid in "${running[@]}"; do
        wait "$pid" 2>/dev/null || true
    done
    if [ "$code" -ne 0 ] && [ -s "$scratch/words" ]; then
        cat "$scratch/words" >&2
    fi
    rm -rf "$scratch"
    exit "$code"
}

# Sets `scratch`, a folder; from here on all ends with the script.
begin() {
    scratch=$(mktemp -d)
    trap end_all EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
}

# start NAME COMMAND...: in the background. Sets `ready` to its first line; fails
# if it ends without one.
start() {
    local pipe
    rm -f "$scratch/$1"
    mkfifo "$scratch/$1"
    "${@:2}" >"$scratch/$1" &
    running=("$!" "${running[@]}")
    exec {pipe}<"$scratch/$1"
    read -r -u "$pipe" ready
}

# start_master FLAG...: on free ports. Sets `master`.
start_master() {
    start master "$build/mc-master" --rpc_address=127.0.0.1 --rpc_port=0 \
        --metrics_host=127.0.0.1 --metrics_port=0 "$@" || return
    master=${ready#*rpc=}
    master=${master%% *}
}

# start_nodes SIZE: two that lend so much each; says where all of them are.
start_nodes() {
    local node nodes=
    for node in 1 2; do
        start "node-$node" "$build/mc-store" serve --master "$master" \
            --segment "$1"
        nodes+=" ${ready##*endpoint=}"
    done
    echo "master $master, nodes$nodes"
}
