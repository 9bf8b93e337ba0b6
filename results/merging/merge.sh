#!/bin/sh
# The merged models of results/merging: merge.sh RUNS, where sweep=merging_cpu has left its runs.
set -e
for seed in 1 2 3; do
  parents="$1/csts-biencoder-cosent-s$seed-* $1/lcqmc-biencoder-cosent-s$seed-* $1/ocnli-biencoder-cosent-s$seed-*"
  juzhen merge $parents "$1/linear-s$seed"
  juzhen merge $parents "$1/dev-s$seed" --weights dev --trials 15
  juzhen merge $parents "$1/ties-s$seed" --method ties
  juzhen merge $parents "$1/task_arithmetic-s$seed" --method task_arithmetic
  juzhen merge $parents "$1/greedy_soup-s$seed" --method greedy_soup
  juzhen merge $parents "$1/model_stock-s$seed" --method model_stock
  juzhen merge $parents "$1/multislerp-s$seed" --method multislerp
done
