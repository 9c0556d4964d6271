#!/usr/bin/env bash
# run_commands.sh DOCUMENT: runs the commands of its `sh` blocks, as a reader would type them, in a
# folder of their own. `./dev test` runs this script, so `./dev` commands are only checked to exist;
# benchmarks are only listed. Examples of docs/policy-guide.md are added to a copy of the tree, as a
# reader would do. Exits 77 (skipped) where batchflow-sim is not built.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
[ -x build/release/bin/batchflow-sim ] || { echo "skipped: $1: batchflow-sim is not built"; exit 77; }
document=$PWD/$1 tree=$PWD
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# The guide's `POLICY(...)` lines go into the table, its examples beside the other policies.
add_examples() {
  tree=$folder/tree
  mkdir "$tree"
  git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -t "$tree"
  cp "$tree"/docs/examples/*.cpp "$tree/policies"
  grep -o '^  POLICY(.*' "$document" >"$folder/lines"
  sed -i "/#define BATCHFLOW_POLICIES/r $folder/lines" "$tree/policies/registry.cpp"
}
[ "$1" != docs/policy-guide.md ] || add_examples

mkdir "$folder/here"
cd "$folder/here"
printf '#!/usr/bin/env bash\nexec "%s/dev" "$@"\n' "$tree" >dev
chmod +x dev

# As if they were installed.
PATH=$tree/build/release/bin:$PATH
export BATCHFLOW_PYTHON=$tree/python

commands=$(awk '/^```sh$/ {inside = 1; next} /^```$/ {inside = 0} inside' "$document")
[ -n "$commands" ] || { echo "no commands in $document"; exit 1; }
while IFS= read -r command; do
  echo "== $command"
  case $command in
    "./dev test"*) ./dev help | grep -q '^  test ' ;;
    "./dev bench"*) bash -c "$command --benchmark_list_tests" </dev/null | grep -q / ;;
    *) bash -o pipefail -c "$command" </dev/null ;;
  esac
done <<<"$commands"
