#!/bin/bash
# The same build by SLURM and without it: a cluster of one node on this machine, all chapters and trainings of the smoke
# profile through it, jobs killed and the controller restarted on the way; then the same locally, and both compared.
#
#   sudo checks/cluster.sh [PYTHON]     of the environment with reefcore (.venv/bin/python)
#
# For Debian and Ubuntu, as root: it installs slurm-wlm and munge where they are missing, and starts its own daemons with
# files below a temporary folder. It ends them and removes the folder, also when it fails. It reads this checkout alone.
set -euo pipefail

top=$(cd "$(dirname "$0")/.." && pwd)
python=$(realpath -s "${1:-$top/.venv/bin/python}")
[ "$(id -u)" = 0 ] || { echo "cluster.sh: this starts the daemons of a cluster: run it as root" >&2; exit 2; }
"$python" -c "import reefcore, snakemake_executor_plugin_slurm" || {
  echo "cluster.sh: $python lacks reefcore or Snakemake's executor: pip install -e '.[train,book,cluster]'" >&2; exit 2; }
if ! { command -v slurmctld && command -v slurmd && command -v munged; } >/dev/null; then
  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends slurm-wlm munge >/dev/null
fi

work=$(mktemp -d -t reefcluster.XXXXXX)
chmod 755 "$work"
export SLURM_CONF=$work/slurm.conf
say() { printf '%6d s  %s\n' "$SECONDS" "$*"; }
end_of() { # ends a daemon by the number in its file, and waits for it
  local process; process=$(cat "$work/$1.pid" 2>/dev/null) || return 0
  kill "$process" 2>/dev/null || return 0
  for _ in $(seq 100); do readlink "/proc/$process/exe" >/dev/null || return 0; sleep 0.1; done
  kill -9 "$process" 2>/dev/null || true
}
finish() {
  status=$?
  trap - EXIT INT TERM
  [ -z "${build:-}" ] || kill -9 "$build" 2>/dev/null || true
  scancel --quiet --partition=main 2>/dev/null && sleep 3 || true
  for daemon in slurmd slurmctld munge/munged; do end_of $daemon; done
  [ "$status" = 0 ] || tail -n 40 "$work"/{build,slurmctld,slurmd}.log 2>/dev/null || true
  [ -n "${KEEP:-}" ] && echo "kept: $work" || rm -rf "$work"
  exit "$status"
}
trap finish EXIT
trap 'exit 130' INT TERM

# ---------------------------------------------------------------------------------------------------------- the cluster
mkdir "$work"/{state,spool}
install -d -o munge -m 711 "$work/munge"
dd if=/dev/urandom of="$work/munge/key" bs=1024 count=1 status=none
chown munge "$work/munge/key" && chmod 400 "$work/munge/key"
runuser -u munge -- "$(command -v munged)" --key-file="$work/munge/key" --socket="$work/munge/socket" \
  --pid-file="$work/munge/munged.pid" --log-file="$work/munge/log" --seed-file="$work/munge/seed"
node=$(hostname -s)
cat >"$SLURM_CONF" <<END
ClusterName=one
SlurmctldHost=$node(127.0.0.1)
SlurmUser=root
SlurmctldPort=16817
SlurmdPort=16818
AuthType=auth/munge
AuthInfo=socket=$work/munge/socket
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd.pid
SlurmctldLogFile=$work/slurmctld.log
SlurmdLogFile=$work/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=2,bf_interval=2
ReturnToService=2
MinJobAge=86400
JobCompType=jobcomp/filetxt
JobCompLoc=$work/jobs.txt
NodeName=$node NodeAddr=127.0.0.1 CPUs=$(nproc) RealMemory=$(awk '/MemTotal/ {print int($2 / 1024)}' /proc/meminfo) State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
END
# On a cluster the settings lie in /etc. Here SLURM_CONF names them, and the executor hides that from srun.
mkdir "$work/bin"
printf '#!/bin/sh\nSLURM_CONF=%s exec %s "$@"\n' "$SLURM_CONF" "$(command -v srun)" >"$work/bin/srun"
chmod +x "$work/bin/srun"
export PATH=$work/bin:$PATH
touch "$work/jobs.txt"
slurmctld && slurmd
for _ in $(seq 100); do sinfo --noheader --format=%T 2>/dev/null | grep -q '^idle$' && break; sleep 0.2; done
say "A cluster of one node: $(sinfo --version), $(nproc) cores, $(sinfo --noheader --format=%T)."

# ------------------------------------------------------------------------------------------------------------ by SLURM
for folder in slurm local; do
  mkdir "$work/$folder"
  cp -r "$top"/{Snakefile,notebooks,requirements.lock} "$work/$folder"
done
mkdir "$work/settings"
cat >"$work/settings/config.yaml" <<END
# There is no database of jobs here for sacct, so squeue is asked; it remembers jobs for MinJobAge.
slurm-status-command: squeue
slurm-init-seconds-before-status-checks: 5
END
reefcore() { # in a subshell, which it becomes
  cd "$work/$1" && PYTHONPATH=$top exec "$python" -m reefcore --with-parent run all --profile smoke "${@:2}"
}
slurm() { reefcore slurm --executor slurm --jobs 8 --workflow-profile "$work/settings"; }
wait_for() { until "$@"; do kill -0 "$build" 2>/dev/null || return 1; sleep 0.5; done; } # or for the end of the build
training() { # one that runs: its number in $job, its rule in $name
  read -r job name < <(squeue --noheader --states=RUNNING --format='%i %k' | grep -E ' rule_step_.*-S[1-4]_smoke$')
}
process() { # of a training that runs: its number in $process; not those of SLURM and Snakemake around it
  training || return 1
  for process in $(scontrol listpids "$job" 2>/dev/null | awk 'NR > 1 {print $1}'); do
    tr '\0' ' ' <"/proc/$process/cmdline" 2>/dev/null | grep -q -- '-m reefcore --with-parent job' && return 0
  done
  return 1
}
ended() { [ "$(wc -l <"$work/jobs.txt")" -ge "$1" ]; }

began=$SECONDS
(slurm) >"$work/build.log" 2>&1 &
build=$!
wait_for training && scancel "$job" && say "Cancelled job $job ($name)."
wait_for ended 16 && wait_for process && kill -9 "$process" && say "Killed process $process of job $job ($name)."
wait_for ended 20 && kill -9 "$(cat "$work/slurmctld.pid")" && say "Killed the controller of SLURM while jobs ran." &&
  sleep 5 && slurmctld && say "Started it again."
if ! wait "$build"; then
  say "The build did not finish at the first go; the same command again."
  (slurm) >>"$work/build.log" 2>&1
fi
build=
say "By SLURM: $((SECONDS - began)) s. Jobs by how they ended:"
sed -E 's/.*JobState=(\w+).*/\1/' "$work/jobs.txt" | sort | uniq -c
say "Trainings: $(find "$work/slurm/build/smoke/predictions" -name '*.parquet' | wc -l)."
for state in CANCELLED FAILED; do # else nothing was proven
  grep -q "JobState=$state" "$work/jobs.txt" || { echo "cluster.sh: the build was over before a job was $state" >&2; exit 1; }
done

# -------------------------------------------------------------------------------------------------------- and without
began=$SECONDS
(reefcore local --cores "$(nproc)") >"$work/local.log" 2>&1 || { tail -n 40 "$work/local.log"; exit 1; }
say "Without: $((SECONDS - began)) s."
PYTHONPATH=$top "$python" "$top/checks/same_tables.py" "$work/slurm" "$work/local"
