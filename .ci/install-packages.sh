#!/usr/bin/env bash
# Installs the Debian 12 packages that building and testing need. As root, or through sudo.
# Does nothing when all are there, so it can run without a network.
set -euo pipefail

packages=(
  g++ meson ninja-build pkg-config python3 python3-jsonschema
  libboost-graph-dev nlohmann-json3-dev libcli11-dev libflatbuffers-dev flatbuffers-compiler libssl-dev
  catch2 libbenchmark-dev
)

missing=()
for package in "${packages[@]}"; do
  if ! dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed'; then
    missing+=("$package")
  fi
done
[ ${#missing[@]} -eq 0 ] && exit 0

as_root=()
[ "$(id -u)" -eq 0 ] || as_root=(sudo)
"${as_root[@]}" apt-get update -q
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install -q -y --no-install-recommends "${missing[@]}"
