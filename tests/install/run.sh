#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/install/run.sh BUILD_DIR [CC]: installs BUILD_DIR into an empty prefix,
# and builds every example against what stands there, once by pkg-config and
# once by the CMake package. Also: only public headers are installed, each of
# them compiles by itself as C and as C++, shared libraries show no names but
# ours, and the subscriber's library needs nothing of the store's.
set -euo pipefail

build=$(cd "$1" && pwd)
cc=${2:-cc}
here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix

fail() {
    echo "house.install: $*" >&2
    exit 1
}

# The libraries that a program's includes ask for, joined by "+".
libraries_of() {
    local wanted=()
    if grep -Eq '#include [<"](mckv/)?mc_(client[a-z_]*|publisher|master)\.h' "$1"
    then
        wanted+=(mckv)
    fi
    if grep -Eq '#include [<"](mckv/)?mc_(subscriber|index)\.h' "$1"; then
        wanted+=(mckv-subscriber)
    fi
    if [ ${#wanted[@]} -eq 0 ]; then
        wanted+=(mckv-base)
    fi
    (IFS=+ && echo "${wanted[*]}")
}

check_headers() {
    local header other
    [ -d "$prefix/include/mckv" ] || fail "no headers were installed"
    other=$(find "$prefix/include" -type f ! -path '*/mckv/mc_*.h')
    [ -z "$other" ] || fail "not public, but installed: $other"
    for header in "$source"/{base,schema,transfer,events,store,subscriber}/mc_*.h
    do
        [ -e "$header" ] || continue
        [ -f "$prefix/include/mckv/${header##*/}" ] ||
            fail "not installed: ${header##*/}"
    done
    for header in "$prefix"/include/mckv/*.h; do
        # A header of macros alone is an empty unit, which C forbids.
        printf '#include "%s"\nint alone;\n' "${header##*/}" >"$work/alone.c"
        "$cc" -std=c11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only \
            -I"$prefix/include/mckv" -x c "$work/alone.c" ||
            fail "${header##*/} does not compile by itself as C"
        "$cc" -std=c++11 -Wall -Wextra -Werror -fsyntax-only \
            -I"$prefix/include/mckv" -x c++ "$work/alone.c" ||
            fail "${header##*/} does not compile by itself as C++"
    done
}

check_libraries() {
    local name other
    for name in "$libdir"/libmckv*.so; do
        [ -e "$name" ] || continue
        other=$(nm -D --defined-only "$name" | awk '$3 !~ /^mci?_/ {print $3}')
        [ -z "$other" ] || fail "${name##*/} shows names of its inside: $other"
    done
    for name in mckv-base mckv-subscriber; do
        [ -e "$libdir/lib$name.so" ] || continue
        if readelf -d "$libdir/lib$name.so" | grep NEEDED | grep -q 'libmckv\.so'
        then
            fail "lib$name.so needs the store's library"
        fi
    done
}

runs_from_prefix() {
    local loaded
    loaded=$(LD_LIBRARY_PATH=$libdir ldd "$1")
    if grep -q 'not found' <<<"$loaded"; then
        fail "$1: $loaded"
    fi
    if grep 'libmckv' <<<"$loaded" | grep -qv "=> $prefix"; then
        fail "$1 loads a library from elsewhere: $loaded"
    fi
}

build_by_pkg_config() {
    local program libraries name flags
    export PKG_CONFIG_PATH=$libdir/pkgconfig
    mkdir "$work/by-pkg-config"
    for program in "${programs[@]}"; do
        libraries=$(libraries_of "$program")
        # shellcheck disable=SC2086
        flags=$(pkg-config --cflags --libs ${libraries//+/ })
        name=$work/by-pkg-config/$(basename "$program" .c)
        # shellcheck disable=SC2086
        "$cc" -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror -o "$name" \
            "$program" $flags -pthread || fail "$program by pkg-config"
        runs_from_prefix "$name"
    done
    LD_LIBRARY_PATH=$libdir "$work/by-pkg-config/probe_base" ||
        fail "the probe does not run"
}

build_by_cmake() {
    local program rows=
    for program in "${programs[@]}"; do
        rows="$rows${rows:+;}$program|$(libraries_of "$program")"
    done
    # A registry or a folder of the developer's must not be found instead.
    cmake -S "$here" -B "$work/by-cmake" -DCMAKE_C_COMPILER="$cc" \
        -DCMAKE_C_FLAGS="-std=c11 -D_GNU_SOURCE -pthread -Wall -Wextra -Werror" \
        -DCMAKE_PREFIX_PATH="$prefix" "-DPROGRAMS=$rows" \
        -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF >"$work/cmake.log" 2>&1 ||
        { cat "$work/cmake.log" && fail "find_package(mckv)"; }
    cmake --build "$work/by-cmake" >"$work/cmake.log" 2>&1 ||
        { cat "$work/cmake.log" && fail "building by the CMake package"; }
    for program in "${programs[@]}"; do
        runs_from_prefix "$work/by-cmake/$(basename "$program" .c)"
    done
}

cmake --install "$build" --prefix "$prefix" >"$work/install.log" ||
    { cat "$work/install.log" && fail "cmake --install"; }
libdir=$(dirname "$(find "$prefix" -name 'libmckv-base.*' | head -1)")

programs=("$here/probe_base.c")
for program in "$source"/examples/*.c; do
    [ -e "$program" ] && programs+=("$program")
done

check_headers
check_libraries
build_by_pkg_config
build_by_cmake
echo "house.install: ${#programs[@]} programs built twice against $(
    find "$prefix/include/mckv" -name '*.h' | wc -l) headers"
