#!/usr/bin/env bash
# Runs the commands of the README's `sh` blocks, as a reader would type them. `./dev test` is what
# runs this, so of it, only that the script knows it is checked. Exits 77 (skipped) where
# batchflow-sim is not built.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
[ -x build/release/bin/batchflow-sim ] || exit 77

commands=$(awk '/^```sh$/ {inside = 1; next} /^```$/ {inside = 0} inside' README.md)
[ -n "$commands" ] || { echo "no commands in README.md"; exit 1; }
while IFS= read -r command; do
  echo "== $command"
  if [[ $command == "./dev test"* ]]; then
    ./dev help | grep -q '^  test '
  else
    bash -c "$command" </dev/null
  fi
done <<<"$commands"
