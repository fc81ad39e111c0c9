#!/bin/sh
# Runs a Slurm cluster on this host, below one directory. No file outside it is read or written.
# usage: slurm_cluster.sh start DIRECTORY NODES FIRST_PORT | slurm_cluster.sh stop DIRECTORY
#        slurm_cluster.sh kill-node DIRECTORY NODE | slurm_cluster.sh start-node DIRECTORY NODE
# After start: SLURM_CONF=DIRECTORY/slurm.conf srun -N NODES hostname
# Needs root, and munged, slurmctld, slurmd, sinfo on PATH.
set -eu

action=$1 dir=$2
PATH=$PATH:/usr/sbin:/sbin

stop() {
    [ -f "$dir/pids" ] || return 0
    # Last started, first stopped, so that the nodes report their end.
    for pid in $(sort -rn "$dir/pids"); do
        kill "$pid" 2>/dev/null || :
    done
    for pid in $(cat "$dir/pids"); do
        tries=0
        while kill -0 "$pid" 2>/dev/null; do
            tries=$((tries + 1))
            [ "$tries" -lt 100 ] || { kill -9 "$pid" 2>/dev/null || :; break; }
            sleep 0.1
        done
    done
    rm -f "$dir/pids"
}

start_daemon() { # NAME COMMAND...
    name=$1
    shift
    "$@" >"$dir/log/$name.out" 2>&1 </dev/null &
    echo $! >>"$dir/pids"
    echo $! >"$dir/$name.daemon"
}

# Ends a node as a power failure does: its daemon, and all processes of its jobs.
kill_node() { # NODE
    kill -9 "$(cat "$dir/$1.daemon")" || :
    for environ in /proc/[0-9]*/environ; do
        # Processes of the kernel and those that have ended cannot be read.
        variables=$(cat "$environ" 2>/dev/null | tr '\0' '\n')
        printf '%s\n' "$variables" | grep -qxF "SLURMD_NODENAME=$1" || continue
        printf '%s\n' "$variables" | grep -qxF "SLURM_CONF=$dir/slurm.conf" || continue
        process=${environ#/proc/} process=${process%/environ}
        # The parent of a job's script is slurmstepd.
        parent=$(sed -n 's/^PPid:[[:space:]]*//p' "/proc/$process/status" 2>/dev/null) || continue
        case $(cat "/proc/$parent/comm" 2>/dev/null) in slurmstepd*) kill -9 "$parent" 2>/dev/null || : ;; esac
        kill -9 "$process" 2>/dev/null || :
    done
}

start_node() { # NODE
    export SLURM_CONF="$dir/slurm.conf"
    start_daemon "$1" slurmd -D -N "$1"
}

configure() {
    host=$(hostname -s)
    cat <<END
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/munge/socket
SlurmctldPort=$port
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool/%n
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd.%n.pid
SlurmctldLogFile=$dir/log/slurmctld.log
SlurmdLogFile=$dir/log/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
ReturnToService=2
SlurmdTimeout=15
SlurmdParameters=config_overrides
JobAcctGatherType=jobacct_gather/none
END
    for node in $(seq "$nodes"); do
        echo "NodeName=n$node NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + node)) CPUs=2 State=UNKNOWN"
    done
    echo "PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP"
}

start() {
    nodes=$1 port=$2
    mkdir -p "$dir/munge" "$dir/state" "$dir/log"
    chmod 755 "$dir" "$dir/munge"
    # The key belongs to the user of the daemon, which is root here.
    (umask 077 && head -c 1024 /dev/urandom >"$dir/munge/key")
    configure >"$dir/slurm.conf"
    export SLURM_CONF="$dir/slurm.conf"
    start_daemon munged munged --foreground --key-file "$dir/munge/key" --socket "$dir/munge/socket" \
        --pid-file "$dir/munge/pid" --log-file "$dir/log/munged.log" --seed-file "$dir/munge/seed"
    tries=0
    until [ -S "$dir/munge/socket" ]; do
        tries=$((tries + 1))
        [ "$tries" -lt 100 ] || { echo "munged does not start: $(tail -n 1 "$dir/log/munged.out")" >&2; return 1; }
        sleep 0.1
    done
    start_daemon slurmctld slurmctld -D -c
    for node in $(seq "$nodes"); do
        mkdir -p "$dir/spool/n$node"
        start_node "n$node"
    done
    tries=0
    until [ "$(sinfo -h -t idle -o %D 2>/dev/null)" = "$nodes" ]; do
        tries=$((tries + 1))
        [ "$tries" -lt 120 ] || { echo "the nodes do not start: $(tail -n 1 "$dir/log/slurmctld.out")" >&2; return 1; }
        sleep 0.5
    done
}

case $action in
    start) start "$3" "$4" || { stop; exit 1; } ;;
    stop) stop ;;
    kill-node) kill_node "$3" ;;
    start-node) start_node "$3" ;;
    *) echo "usage: slurm_cluster.sh start DIRECTORY NODES FIRST_PORT | stop DIRECTORY" >&2; exit 2 ;;
esac
