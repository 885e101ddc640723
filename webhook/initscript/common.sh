# Both init containers run this part: it reads the settings and the hostfile, and runs commands on workers over ssh.
#
# Tests check these rules for the script:
# - It runs in the image of the job, so it uses only bash 4.2, coreutils and ssh.
# - It contains no $(NAME) and no doubled dollar, which Kubernetes would expand in a command. It also contains no
#   $(word.word), which the rule table would expand.
# - It has no here-documents and no here-strings, because older versions of bash write them to a temporary file, and
#   the root file system may be read-only.
# - It does not depend on indentation, comment lines or blank lines, which are removed.
set -feuo pipefail
# Child processes need no copy of the script.
unset ULTRASERVER_SCRIPT
# Errors go to standard output, too. A container runtime reads streams separately, and could log errors before causes.
exec 2>&1
export LC_ALL=C
SECONDS=0
# bash is process 1 of the container, and the kernel ignores signals for which process 1 has no handler.
trap 'exit 143' TERM INT

say() { printf '%s\n' "$@"; }
die() {
  say "ERROR: $1" "${@:2}" >&2
  exit 1
}
errors=() ns='<namespace>'
bad() { errors+=("$*"); }
# stop_if_bad [HINT]: if there are errors, prints them all and exits.
stop_if_bad() {
  ((${#errors[@]})) || return 0
  printf 'ERROR: %s\n' "${errors[@]}" >&2
  die "${#errors[@]} problem(s). ${1:-Which node a pod is on: kubectl get pods -n $ns -o wide}"
}
number() { [[ $2 =~ ^[0-9]{1,6}$ ]] || bad "$1 is \"$2\": it must be a whole number: $3"; }
need() {
  local word lacking=''
  for word in "$@"; do type -P "$word" >/dev/null || lacking+=" $word"; done
  [[ -z $lacking ]] || bad "the image lacks$lacking: install coreutils and an ssh client in the launcher's image"
}

# The script calls ssh as the job's mpirun does: it reads the variables of Open MPI 4 and 5, MPICH and Intel MPI. Open
# MPI accepts a list of programs with colons between them, of which the script uses the first.
agent=${OMPI_MCA_plm_rsh_agent:-${PRTE_MCA_plm_ssh_agent:-${HYDRA_LAUNCHER_EXEC:-${I_MPI_HYDRA_BOOTSTRAP_EXEC:-ssh}}}}
# ssh must neither prompt nor wait without a timeout. ssh uses the first value of an option, so these options come
# before those of the job and of the image's ssh configuration.
# shellcheck disable=SC2206 # the words are meant to be split
ssh=(${agent%%:*} -o BatchMode=yes -o ConnectTimeout=5 -o ServerAliveInterval=5 -o LogLevel=ERROR
  ${OMPI_MCA_plm_rsh_args-} ${OMPI_MCA_plm_ssh_args-} ${PRTE_MCA_plm_ssh_args-} ${PRTE_MCA_plm_rsh_args-}
  ${HYDRA_LAUNCHER_EXTRA_ARGS-} ${I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS-})
need "${ssh[0]}" timeout sleep
n=${NEURON_ULTRASERVER_NODE_CONFIG:-4}
limit=${ULTRASERVER_WAIT_SECONDS:-1800}
workers=${ULTRASERVER_WORKERS:-0}
# The modes of the Neuron driver are 1 = X4, 2 = X2H, 3 = X2V and 4 = X1. For node config 2, both X2H and X2V are
# suitable, because the driver reports ids for both pairs of links.
# shellcheck disable=SC2034 # the second container uses the variable
case $n in
  4) wants='1' ;;
  2) wants='3 2' ;;
  1) wants='4' ;;
  *) bad "NEURON_ULTRASERVER_NODE_CONFIG is \"$n\": it must be 4, 2 or 1: correct the job's annotation or variable" ;;
esac
number ULTRASERVER_WAIT_SECONDS "$limit" "correct waitSeconds in the webhook's rule table"
number ULTRASERVER_WORKERS "$workers" "correct the job's number of worker replicas"
settings() {
  stop_if_bad 'The settings are variables of this container.'
  limit=$((10#$limit)) workers=$((10#$workers))
}
hostfile=/etc/mpi/hostfile

# hosts[i] is the host name of a worker. lines[i] is its line in the file: "name slots=2" (Open MPI) or "name:2" (Intel
# MPI and MPICH). The operator's host names are pod.job.namespace.svc, so the namespace is the third part.
hosts=() lines=() self=''
read_hosts() {
  local host rest
  [[ -r $hostfile ]] ||
    die "cannot read $hostfile: the volume mpi-job-config must be mounted at /etc/mpi of this container"
  hosts=() lines=()
  while read -r host rest || [[ $host ]]; do
    [[ $host && $host != \#* ]] || continue
    lines+=("$host${rest:+ $rest}")
    host=${host%%:*}
    [[ $host =~ ^[A-Za-z0-9][A-Za-z0-9._-]*$ ]] || die "$hostfile: cannot understand \"$host\""
    hosts+=("$host")
  done <"$hostfile"
  ((${#hosts[@]})) || return 0
  # With runLauncherAsWorker, this pod is in the hostfile under its host name. With the host network, however, the host
  # name is the name of the node. So a first entry "*-launcher" is this pod, if there is one entry more than workers.
  ns=${hosts[0]#*.*.}
  ns=${ns%%.*}
  self=${HOSTNAME%%.*}
  if ((${#hosts[@]} == workers + 1)) && [[ ${hosts[0]%%.*} == *-launcher ]]; then self=${hosts[0]%%.*}; fi
}
is_self() { [[ ${hosts[$1]%%.*} == "$self" ]]; }
pods() {
  local i names=''
  for i in "$@"; do names+=" ${hosts[i]%%.*}"; done
  printf '%s' "${names# }"
}

policy=''
ssh_policy() {
  [[ -z $policy ]] || return 0
  policy=$("${ssh[@]}" -G "${hosts[${#hosts[@]} - 1]}" 2>&1 || :)$'\n'
  # The host key of a worker is created with the pod, so it cannot be verified. The job's own key pair protects the
  # session. If StrictHostKeyChecking has its default (ask), the script accepts every host key. If the image sets yes,
  # no or accept-new, ssh uses this value.
  [[ $policy != *"stricthostkeychecking ask"* ]] ||
    ssh+=(-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null)
  # OpenSSH 9 prefers a key exchange that takes six times the processor time of the rest of a login. The sessions
  # contain no secrets, so a cheaper key exchange comes first if ssh has it. The other key exchanges follow.
  local kex=${policy#*$'\nkexalgorithms '}
  kex=${kex%%[[:space:]]*}
  [[ ,$kex, != *,curve25519-sha256,* ]] || ssh+=(-o "KexAlgorithms=curve25519-sha256,$kex")
}

# ask INDEX MEMBER...: runs $remote on worker INDEX with the words of args[INDEX]. $remote is POSIX sh without single
# quotes. Lines of the answer begin with a mark, which is random, because a login can print other text. The answer is
# complete if a line ends with "MARK ok". ssh transports standard error separately, so error text can come between any
# two writes, and need not end with a newline.
# Worker INDEX then runs $relay, which asks each worker MEMBER in the same way. This needs the job's ssh key, which
# mpi-operator mounts in every worker. $relay prints those lines of a member that have the mark, each after
# "MARK<MEMBER ". Each line is short enough for one write, so that lines of two members cannot mix.
# The timeout is the remaining time, at least $least and at most $patience seconds. With members, worker INDEX has twice
# this time. If the exit code is not 0, the output ends with "@code=CODE TIMEOUT". For up to $direct workers, ask_all
# does not use $relay.
mark=@$RANDOM$RANDOM$RANDOM
# shellcheck disable=SC2016 # the worker expands the variables
remote='echo $mark ok'
# shellcheck disable=SC2016
relay='set -f
mark=$1 ssh=$2 text=$3 q=$(printf "\047")
shift 3
for member; do
set -- $member
i=$1 host=$2
shift 2
$ssh -- $host "sh -c $q$text$q sh $*" </dev/null 2>/dev/null | while IFS= read -r l; do
case $l in *$mark*) printf "%.499s\n" "$mark<$i $l" ;; esac
done &
done
wait'
args=() answer=() patience=30 least=2 direct=32
ask() {
  local text="echo; echo >&2; mark=$mark; export LC_ALL=C; $remote" left=$((limit - SECONDS)) i
  ((left < patience)) || left=$patience
  ((left >= least)) || left=$least
  local command="sh -c '$text' sh ${args[$1]-}"
  if (($# > 1)); then
    command+="; sh -c '$relay' sh $mark 'timeout $left ${ssh[*]}' '$text'"
    for i in "${@:2}"; do command+=" '$i ${hosts[i]} ${args[i]-}'"; done
    left=$((2 * left))
  fi
  if is_self "$1"; then
    sh -c "$command" 2>&1
  else
    timeout "$left" "${ssh[@]}" -- "${hosts[$1]}" "$command" </dev/null 2>&1
  fi || printf '\n@code=%s %s' "$?" "$left"
}
# take_in OUTPUT INDEX MEMBER...: splits the output of ask into the answers of the workers. A line that begins with
# "MARK<MEMBER " belongs to that member, if it is an argument. All other lines belong to INDEX.
# bash takes quadratic time to remove text by a pattern, so long lines are cut first. The end of a line stays, because
# other output comes before the answer.
take_in() {
  local line i other='' members=" ${*:3} " IFS=$'\n'
  for i in "${@:2}"; do answer[i]=''; done
  for line in $1; do
    if [[ $line == "$mark<"[0-9]* ]]; then
      line=${line:${#mark}+1:499} i=${line%% *}
      [[ $members != *" $i "* ]] || answer[i]+=${line#* }$'\n'
    elif [[ $line != *"$mark<"* ]]; then
      ((${#line} < 999)) || line=${line: -999}
      other+=$'\n'$line
    fi
  done
  answer[$2]=$other
}
# ask_each WORDS...: calls ask once for each argument, whose words are the arguments of ask. Up to 32 calls run in
# parallel. The length of an answer is limited, because a worker could print text without end.
ask_each() {
  local all=("$@") fds=() fd k out
  for ((k = 0; k < $# + 32; k++)); do
    if ((k >= 32)); then
      fd=${fds[k - 32]}
      IFS= read -r -d '' -n 99999 -u "$fd" out || :
      exec {fd}<&-
      # shellcheck disable=SC2086 # the words are meant to be split
      take_in "$out" ${all[k - 32]}
    fi
    if ((k < $#)); then
      # shellcheck disable=SC2086
      exec {fd}< <(ask ${all[k]} || :)
      fds+=("$fd")
    fi
  done
}
# ask_all INDEX...: asks these workers, and stores each answer in answer[INDEX]. If there are many workers, they are
# asked in batches, and the first worker of a batch asks the others. After that, each worker whose answer is missing is
# asked directly, because the first worker of its batch may be dead, or may lack ssh or the key.
ask_all() {
  local todo=("$@") size=2 k i
  if (($# > direct)) && [[ ${ssh[*]} != *\'* ]]; then
    while ((size * size < $#)); do size=$((size + 1)); done
    todo=()
    for ((k = 1; k <= $#; k += size)); do todo+=("${*:k:size}"); done
    ask_each "${todo[@]}"
    todo=()
    for i; do ok "$i" || todo+=("$i"); done
  fi
  ask_each ${todo[@]+"${todo[@]}"}
}
# ok INDEX: succeeds if the answer of worker INDEX is complete.
ok() {
  local a=$'\n'${answer[$1]-}$'\n'
  [[ ${a//$'\r'/} == *"$mark ok"$'\n'* ]]
}
# why INDEX: prints why a worker did not answer: the last line of its output, a timeout, or the exit code of ssh.
why() {
  local a=${answer[$1]-} code=0
  if [[ $a == *$'\n@code='* ]]; then
    code=${a##*$'\n@code='}
    a=${a%$'\n@code='*}
  fi
  if [[ $code == 124\ * ]]; then
    a="no answer within ${code#* } s"
  else
    ((${#a} < 999)) || a=${a: -999}
    while [[ $a == *[$'\r\n'] ]]; do a=${a%?}; done
    a=${a##*$'\n'}
    a=${a//[^[:print:]]/} a=${a:0:200}
  fi
  printf '%s' "${a:-ssh ended with code ${code%% *}}"
}
