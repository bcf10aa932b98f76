# SPDX-License-Identifier: Apache-2.0
# The one list of packages that this project is built, tested and checked with,
# by group, and how to get them. Sourced by tests/run.sh, bench/run.sh and
# .ci/run; nothing is done before mc_deps_install is called.

mc_deps_build="build-essential cmake ninja-build pkg-config libzmq3-dev
libmsgpack-dev libutf8proc-dev libxxhash-dev libjson-c-dev libpcre2-dev
libssl-dev libcurl4-openssl-dev libmicrohttpd-dev libyaml-dev"

mc_deps_test="check libsubunit-dev python3 python3-zmq python3-msgpack
python3-dev python3-pip python3-pytest python3-numpy curl openssl iproute2"

# Peers that come from the distribution.
mc_deps_bench="redis-server memcached"

# The runtime of clang's sanitizers and fuzzer is named per version.
mc_deps_ci="clang clang-format clang-tidy libclang-rt-14-dev valgrind"

# mc_deps_missing GROUP...: the packages of these groups that are not installed.
mc_deps_missing() {
    local group names name
    for group in "$@"; do
        names="mc_deps_$group"
        for name in ${!names}; do
            dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null |
                grep -qx installed || echo "$name"
        done
    done
}

# mc_deps_install GROUP...: installs what is missing; touches neither apt nor
# the network when nothing is.
mc_deps_install() {
    local missing as_root=
    if ! command -v dpkg-query >/dev/null; then
        echo "no dpkg here: install by hand what cmake/deps.sh names" >&2
        return 0
    fi
    missing=$(mc_deps_missing "$@" | tr '\n' ' ')
    if [ -z "${missing// /}" ]; then
        return 0
    fi
    if [ "$(id -u)" -ne 0 ]; then
        as_root=sudo
    fi
    echo "installing: $missing"
    $as_root apt-get update -qq </dev/null || return 1
    # shellcheck disable=SC2086
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
        -o DPkg::Lock::Timeout=300 --no-install-recommends $missing </dev/null
}

# mc_deps_python: a python3 that can import zmq and msgpack. The first one on
# PATH need not be the one the packages are for.
mc_deps_python() {
    local candidate
    for candidate in "${MC_PYTHON3:-}" python3 /usr/bin/python3; do
        if [ -n "$candidate" ] && command -v "$candidate" >/dev/null &&
            "$candidate" -c 'import zmq, msgpack' 2>/dev/null; then
            command -v "$candidate"
            return 0
        fi
    done
    echo "no python3 with zmq and msgpack found" >&2
    return 1
}

# mc_deps_jobs: how many things to do at once.
mc_deps_jobs() {
    nproc 2>/dev/null || echo 2
}
