#!/usr/bin/env bash
# Starts the ranks of one start with torchrun, on the first NUM_NODES of the hosts; ends after the last of them.
# A host that fails does not stop the others: their ranks end by their own bounds, and say what they saw.
#   launch.sh NUM_NODES RANKS_PER_NODE PORT PYTHON SPEC OUT HOST...
set -uo pipefail
num_nodes=$1 ranks_per_node=$2 port=$3 python=$4 spec=$5 out=$6
shift 6
if (($# < num_nodes)); then
  echo "launch.sh: $# hosts are named, $num_nodes are needed: name more in place.yaml, or measure a smaller EP size" >&2
  exit 2
fi
hosts=("${@:1:num_nodes}")
processes=()
trap 'kill "${processes[@]}" 2>/dev/null' TERM INT
for node_rank in "${!hosts[@]}"; do
  # -tt gives the remote side a terminal, so that it ends when this side does.
  ssh -tt -o BatchMode=yes "${hosts[node_rank]}" "cd $(printf %q "$PWD") && exec $(printf %q "$python") -m torch.distributed.run \
--nnodes=$num_nodes --nproc-per-node=$ranks_per_node --node-rank=$node_rank --master-addr=${hosts[0]} --master-port=$port \
--module ep_worker launch $(printf %q "$spec") $(printf %q "$out")" </dev/null &
  processes+=($!)
done
status=0
for process in "${processes[@]}"; do
  wait "$process" || status=$?
done
exit "$status"
