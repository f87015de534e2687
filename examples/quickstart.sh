#!/usr/bin/env bash
# Installs what is missing (Debian 12, as root or with sudo), builds reshard-plan, then plans, proves and
# replays one switch of a built-in model and prints the result tables.
set -euo pipefail
cd "$(dirname "$0")/.."

.ci/install-packages.sh
build=build/release
[ -f "$build/build.ninja" ] || meson setup "$build" -Dbuildtype=release
meson compile -C "$build" reshard-plan

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
reshard_plan=$build/tools/reshard-plan
switch=(--model tiny-llama --strategies examples/strategies.json --from tp2-dp4 --to tp2-pp2-dp2
  --topology nodes=2,gpus=4,nvlink=400GB/s,nic=25GB/s)

step() { printf '\n== %s\n' "$1"; }

step 'check: is every entry of the list valid for the model?'
"$reshard_plan" check examples/strategies.json --model tiny-llama
step 'plan: tp2-dp4 -> tp2-pp2-dp2 on two nodes'
"$reshard_plan" plan "${switch[@]}" -o "$work/plan.json"
step 'show: what each rank does'
"$reshard_plan" show "$work/plan.json"
step 'verify: is the plan right?'
"$reshard_plan" verify "$work/plan.json"
step 'cost: beside the bounds that no plan can beat'
"$reshard_plan" cost "$work/plan.json"
step 'run: replay on position-coded data and compare every element'
"$reshard_plan" run "$work/plan.json" --executor host --check
