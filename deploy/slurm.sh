#!/usr/bin/env bash
# Trains on four machines of a Slurm cluster: sbatch deploy/slurm.sh --recipe ptb_large_tied --data-dir DIR --run DIR
# If a task is stopped or lost, Slurm ends all tasks. The job is then requeued and continues from the last checkpoint of
# the run.
#SBATCH --job-name=keras-tying
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=1
#SBATCH --signal=TERM@120
#SBATCH --requeue
set -uo pipefail
srun --kill-on-bad-exit=1 python train/lm.py --strategy multiworker --restartable "$@"
code=$?
if [ "$code" -ne 0 ] && [ "$code" -ne 1 ] && [ "$code" -ne 2 ]; then # 1: the loss diverged, 2: wrong arguments
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
