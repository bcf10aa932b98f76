#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing, builds into build/, and replays a real request trace
# through a store of several processes and a follower of its events. See --help.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: examples/quickstart.sh [OPTIONS]

Replays a trace of LLM requests. A master knows what is stored where and
publishes events; two nodes lend the memory; a writer, in an engine's place,
loads and stores each block of a request tagged with its session; and a follower
of the events keeps an index and answers for each request how many of its
leading blocks wait in the store. At the end it compares what it knows with the
store's own list. Exits 1 if they differ or an event was missed. All are
processes of their own; none is left when it ends.

  --block-size SIZE  bytes of a block, such as 4096 or 64KB (4KB)
  --trace FILE       JSON lines with timestamp, hash_ids and session_id
                     (../shared/data/traces/conversation.jsonl where it is,
                     else its beginning in examples/data)
  --endpoint EP      where events are published (tcp://127.0.0.1:5557, or a
                     free port if that is taken); while it runs, watch with
                     build/mc-events tail --json --from snapshot
  --recovery EP      where one asks for what was missed, or was there before
                     (tcp://127.0.0.1:5558, or a free port likewise)
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
endpoint=
recovery=
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
    --trace | --block-size | --endpoint | --recovery | --watchers | \
        --record | --answers) ;;
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
    --endpoint) endpoint=$value ;;
    --recovery) recovery=$value ;;
    --watchers) for_writer+=("$name" "$value") ;;
    *) for_follower+=("$name" "$value") ;;
    esac
done

. "$root/examples/processes.sh"
if [ -n "$must_build" ]; then
    build_targets quickstart_writer quickstart_follower mc-master mc-store \
        mc-events
fi
programs=$build/examples/quickstart
need "$programs/writer" "$programs/follower" "$build/mc-master" \
    "$build/mc-store"

# Bytes to be lent; also says what is wrong with the trace.
pool=$("$programs/writer" --trace "$trace" "${for_both[@]}" --pool)

begin

# A read is leased for a moment: longer than a load takes, so short that room
# can be made. Writers wait for the event log, since no event may be missed.
start_store() {
    start_master --enable_kv_events --kv_events_bind_endpoint="$1" \
        --kv_events_replay_endpoint="$2" \
        --kv_events_backend_id=quickstart --kv_events_overflow=block \
        --default_kv_lease_ttl=500ms --eviction_high_watermark_ratio=1.0
}

if [ -n "$endpoint$recovery" ]; then
    start_store "${endpoint:-tcp://127.0.0.1:0}" \
        "${recovery:-tcp://127.0.0.1:0}"
elif ! start_store tcp://127.0.0.1:5557 tcp://127.0.0.1:5558 \
    2>"$scratch/words"; then
    echo "quickstart.sh: tcp://127.0.0.1:5557 or 5558 is not free, taking" \
        "other ports" >&2
    start_store tcp://127.0.0.1:0 tcp://127.0.0.1:0
    rm "$scratch/words"
fi
recovery=${ready#*recovery=}
admin=${ready#*admin=}
start_nodes $(((pool + 1) / 2))
echo "recovery ${recovery%% *}, admin http://${admin%% *}"

# Writer and follower talk over a pipe each way. The one that goes to the
# follower is opened first on both sides. In the background, so that a signal is
# taken at once.
mkfifo "$scratch/to-follower" "$scratch/to-writer"
"$programs/writer" --master "$master" --trace "$trace" \
    --list "$scratch/list" "${for_both[@]}" "${for_writer[@]}" \
    >"$scratch/to-follower" <"$scratch/to-writer" &
writer=$!
running=("$writer" "${running[@]}")
"$programs/follower" --trace "$trace" "${for_both[@]}" "${for_follower[@]}" \
    <"$scratch/to-follower" 3>"$scratch/to-writer" &
follower=$!
running=("$follower" "${running[@]}")

# The writer is told how it went, or sees that the follower is gone.
code=0
wait "$follower" || code=$?
wait "$writer" || code=$?
exit "$code"
