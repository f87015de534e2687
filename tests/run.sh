#!/usr/bin/env bash
# Installs what is missing (Debian 12, as root or with sudo), builds, and runs all tests.
#   tests/run.sh              release build
#   tests/run.sh --sanitize   the same under AddressSanitizer and UndefinedBehaviorSanitizer
set -euo pipefail
cd "$(dirname "$0")/.."

build=build/release
options=(-Dbuildtype=release)
patience=10  # times each test's own limit, for slow and busy machines
case "${1:-}" in
  '') ;;
  --sanitize)
    build=build/sanitize
    # Unoptimised and without debug information: g++ 12 takes three times as long at -O1 here, which
    # the tests do not win back.
    options=(-Dbuildtype=plain -Doptimization=0 -Db_sanitize=address,undefined -Db_lundef=false)
    patience=100
    export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
    ;;
  *)
    echo "usage: tests/run.sh [--sanitize]" >&2
    exit 2
    ;;
esac

.ci/install-packages.sh
[ -f "$build/build.ninja" ] || meson setup "$build" "${options[@]}"
meson compile -C "$build"
meson test -C "$build" --print-errorlogs --timeout-multiplier "$patience"
