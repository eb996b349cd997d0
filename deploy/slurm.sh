#!/usr/bin/env bash
# Trains as a Slurm job, one worker per task; --run is a folder that all machines see:
#   sbatch --nodes=4 --gpus-per-node=1 deploy/slurm.sh --recipe ptb_large_tied --data-dir DIR --run DIR    # four machines
#   sbatch --ntasks=2 deploy/slurm.sh --run DIR                                                       # without GPUs
# If a task is stopped or lost, Slurm ends all tasks. The job is then requeued and continues from the last checkpoint of
# the run. To try it on one machine: deploy/slurm_here.sh
#SBATCH --job-name=keras-tying
#SBATCH --signal=TERM@120
#SBATCH --requeue
#SBATCH --open-mode=append
set -uo pipefail
srun --kill-on-bad-exit=1 --distribution=block python train/lm.py --strategy multiworker --restartable "$@"
code=$?
if [ "$code" -ne 0 ] && [ "$code" -ne 1 ] && [ "$code" -ne 2 ]; then # 1: the loss diverged, 2: wrong arguments
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
