#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing, builds into build/, and replays a real request trace
# through a store and a follower of its events. See --help.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: examples/quickstart.sh [OPTIONS]

Replays a trace of LLM requests. One process embeds the store, writes each
block of a request tagged with its session, and publishes events; another one
follows them, keeps an index, and answers for each request how many of its
leading blocks wait in the store. At the end it compares what it knows with the
store's own list. Exits 1 if they differ or an event was missed.

  --block-size SIZE  bytes of a block, such as 4096 or 64KB (4KB)
  --trace FILE       JSON lines with timestamp, hash_ids and session_id
                     (../shared/data/traces/conversation.jsonl where it is,
                     else its beginning in examples/data)
  --endpoint EP      where events are published (tcp://127.0.0.1:5557, or a
                     free port if that is taken); while it runs, watch with
                     build/mc-events tail --json
  --watchers N       begin when N more subscribers are there, such as that tail
                     (0); what was published before they came they never see
  --record FILE      keep the follower's messages, for mc-events decode
  --answers FILE     keep its answers: request, leading blocks in the store
  --no-build         run what was built before
  --help             this text

example: examples/quickstart.sh --block-size 64KB
TEXT
}

root=$(cd "$(dirname "$0")/.." && pwd)
build=${MC_BUILD:-$root/build}
trace=$root/../shared/data/traces/conversation.jsonl
[ -r "$trace" ] || trace=$root/examples/data/conversation.jsonl
must_build=yes
for_both=()
for_writer=()
for_follower=()

while [ $# -gt 0 ]; do
    name=${1%%=*}
    case $name in
    --help | -h)
        usage
        exit 0
        ;;
    --no-build)
        must_build=
        shift
        continue
        ;;
    --trace | --block-size | --endpoint | --watchers | --record | --answers) ;;
    *)
        echo "quickstart.sh: $1: no such option, see --help" >&2
        exit 2
        ;;
    esac
    if [ "$name" != "$1" ]; then
        value=${1#*=}
    elif [ $# -gt 1 ]; then
        value=$2
        shift
    else
        echo "quickstart.sh: $1: needs a value" >&2
        exit 2
    fi
    shift
    case $name in
    --trace) trace=$value ;;
    --block-size) for_both+=("$name" "$value") ;;
    --endpoint | --watchers) for_writer+=("$name" "$value") ;;
    *) for_follower+=("$name" "$value") ;;
    esac
done

# What is there already is left as it is: a build folder of the tests serves.
build_programs() {
    . "$root/cmake/deps.sh"
    mc_deps_install build
    if [ ! -e "$build/CMakeCache.txt" ]; then
        cmake -G Ninja -S "$root" -B "$build" \
            -DCMAKE_BUILD_TYPE=RelWithDebInfo -DMC_TESTS=OFF >/dev/null
    fi
    local log make=(cmake --build "$build" -j "$(mc_deps_jobs)"
        --target quickstart_writer quickstart_follower mc-events)
    if [ -t 1 ]; then
        "${make[@]}"
    elif ! log=$("${make[@]}" 2>&1); then
        echo "$log" >&2
        exit 1
    fi
}

if [ -n "$must_build" ]; then
    build_programs
fi
programs=$build/examples/quickstart
if [ ! -x "$programs/writer" ] || [ ! -x "$programs/follower" ]; then
    echo "quickstart.sh: not built: $programs" >&2
    exit 1
fi

scratch=$(mktemp -d)
writer=
cleanup() {
    if [ -n "$writer" ]; then
        kill "$writer" 2>/dev/null || true
        wait "$writer" 2>/dev/null || true
    fi
    rm -rf "$scratch"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# The two talk over a pair of pipes: the writer's stdout and stdin.
coproc WRITER {
    exec "$programs/writer" --trace "$trace" --list "$scratch/list" \
        "${for_both[@]}" "${for_writer[@]}"
}
writer=$WRITER_PID
from_writer=${WRITER[0]}
to_writer=${WRITER[1]}
code=0
# By its path: a duplicate of a coprocess's descriptor would be closed on exec.
"$programs/follower" --trace "$trace" "${for_both[@]}" "${for_follower[@]}" \
    <&"$from_writer" 3>"/dev/fd/$to_writer" || code=$?

# The writer has been told how it went, or sees that the follower is gone.
exec {from_writer}<&- {to_writer}>&-
wait "$writer" || code=$?
writer=
exit "$code"
