#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds into build/ what is missing, and has a model's cache saved layer by layer
# by one process and loaded layer by layer by another. See --help.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: examples/layerwise.sh [OPTIONS]

A master knows what is stored where, two nodes lend the memory. A process saves
a small model's KV cache, 8 layers of 16 blocks, layer by layer, tagged with a
session; another one loads it layer by layer and compares every byte. Then the
same by key, with pages that two keys share. Says for each layer how long it
took. Exits 1 if anything differs; nothing is left running when it ends.

  --no-build  run what was built before
  --help      this text

example: examples/layerwise.sh
TEXT
}

root=$(cd "$(dirname "$0")/.." && pwd)
build=${MC_BUILD:-$root/build}
must_build=yes
for option in "$@"; do
    case $option in
    --help | -h)
        usage
        exit 0
        ;;
    --no-build) must_build= ;;
    *)
        echo "layerwise.sh: $option: no such option, see --help" >&2
        exit 2
        ;;
    esac
done

. "$root/examples/processes.sh"
if [ -n "$must_build" ]; then
    build_targets example_layerwise mc-master mc-store
fi
layerwise=$build/examples/layerwise
need "$layerwise" "$build/mc-master" "$build/mc-store"

begin
start_master
start_nodes 16MB
# In the background, so that a signal is taken at once.
for role in save load pages; do
    "$layerwise" "$role" "$master" &
    running=("$!" "${running[@]}")
    wait "$!"
    running=("${running[@]:1}")
done
