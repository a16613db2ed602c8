#!/bin/bash
# A Slurm job for several machines: docs/scoring.md explains it.
#SBATCH --job-name=pact-eval
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --time=04:00:00
#SBATCH --requeue
set -euo pipefail
source .venv/bin/activate
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN=$(openssl rand -hex 32)
export RAY_USAGE_STATS_ENABLED=0 HF_HUB_OFFLINE=1
head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
address=$(getent ahostsv4 "$head" | awk 'NR == 1 {print $1}'):6379
srun ray symmetric-run --address "$address" --min-nodes "$SLURM_JOB_NUM_NODES" -- \
  pact-eval score adapters/mine --data data/holdout.jsonl --k 4 --out runs/mine --ray auto --workers 32
