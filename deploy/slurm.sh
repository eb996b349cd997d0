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
# srun returns the code of a signal if it had to stop other tasks. So a task that ends for good leaves a file.
for_good="$PWD/slurm-$SLURM_JOB_ID.ended"
srun --kill-on-bad-exit=1 --distribution=block bash -c '
trap : TERM # the training gets the signal too
python train/lm.py --strategy multiworker --restartable "${@:2}"
code=$?
if [ "$code" -eq 1 ] || [ "$code" -eq 2 ]; then touch "$1"; fi # 1: the training diverged, 2: wrong arguments
exit "$code"' - "$for_good" "$@"
code=$?
if [ -e "$for_good" ]; then
    rm "$for_good"
elif [ "$code" -ne 0 ]; then
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
