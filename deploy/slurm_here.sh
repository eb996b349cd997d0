#!/usr/bin/env bash
# A Slurm cluster of this machine alone, to try deploy/slurm.sh. Needs Debian's packages slurm-wlm and munge.
#
#   deploy/slurm_here.sh up DIR [CPUS]    starts munged, slurmctld and slurmd; all files are in DIR, an absolute path
#   export SLURM_CONF=DIR/slurm.conf      for sbatch, squeue, scancel
#   deploy/slurm_here.sh down DIR         stops them
#
# Jobs of the partition `high` pre-empt those of the partition `low`, which is the default.
set -euo pipefail

up() {
    local folder=$1 cpus=$2
    mkdir -p "$folder"/{state,spool}
    chmod 755 "$folder"
    head -c 1024 /dev/urandom > "$folder/munge.key"
    chmod 600 "$folder/munge.key"
    cat > "$folder/slurm.conf" <<CONF
ClusterName=here
SlurmctldHost=$(hostname -s)(127.0.0.1)
SlurmctldPort=16817
SlurmdPort=16818
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
AuthType=auth/munge
AuthInfo=socket=$folder/munge.socket
CredType=cred/munge
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
ReturnToService=2
NodeName=localhost NodeHostname=$(hostname -s) NodeAddr=127.0.0.1 CPUs=$cpus
PartitionName=low Nodes=localhost Default=YES PriorityTier=1 GraceTime=60 MaxTime=INFINITE State=UP
PartitionName=high Nodes=localhost PriorityTier=2 PreemptMode=OFF MaxTime=INFINITE State=UP
CONF
    munged --force --key-file="$folder/munge.key" --socket="$folder/munge.socket" --pid-file="$folder/munged.pid" \
        --log-file="$folder/munged.log" --seed-file="$folder/munged.seed"
    export SLURM_CONF=$folder/slurm.conf
    slurmctld -f "$SLURM_CONF"
    slurmd -f "$SLURM_CONF"
    for _ in $(seq 60); do
        [[ $(sinfo --noheader --partition=low --format=%t 2> /dev/null) == idle ]] && return
        sleep 0.5
    done
    echo "The node did not become idle within 30 seconds; see $folder/slurmctld.log and slurmd.log." >&2
    return 1
}

down() {
    local folder=$1 name
    for name in slurmd slurmctld munged; do
        [[ -s $folder/$name.pid ]] && kill "$(< "$folder/$name.pid")" || true
    done
}

case "${1-} ${2-}" in
    "up /"*) up "$2" "${3:-2}" ;;
    "down /"*) down "$2" ;;
    *) sed -n 's/^# \?//; 2,8p' "$0" >&2; exit 2 ;;
esac
