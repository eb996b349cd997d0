#!/usr/bin/env bash
# Trains on four machines of a Slurm cluster: sbatch deploy/slurm.sh --recipe ptb_large_tied --data-dir DIR --run DIR
# A task that is stopped or lost ends the step; the job is then put back into the queue and goes on from the run's last
# checkpoint.
#SBATCH --job-name=keras-tying
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=1
#SBATCH --signal=TERM@120
#SBATCH --requeue
set -uo pipefail
srun --kill-on-bad-exit=1 python train/lm.py --strategy multiworker --restartable "$@"
code=$?
if [ "$code" -ne 0 ] && [ "$code" -ne 1 ] && [ "$code" -ne 2 ]; then # not diverged, not mistaken
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
