# Shared by both init containers: settings, the hostfile, and queries to every worker over ssh.
#
# Rules for this text, which tests check:
# - bash of the job's own image runs it: only bash 4.2, coreutils and ssh may be used.
# - A table may put it into a command, where Kubernetes expands $(NAME) and halves a doubled dollar, and the rule
#   table expands $(word.word): no such spelling here.
# - No here-documents and no here-strings: older bash writes them to a temporary file, and the root file
#   system may be read-only.
# - The loader drops indentation, comment lines and blank lines, so the code must not depend on these.
set -feuo pipefail
# Child processes need no copy of this text.
unset ULTRASERVER_SCRIPT
# One stream: a container runtime reads two, and the log might then show errors before their causes.
exec 2>&1
export LC_ALL=C
SECONDS=0
# bash is process 1 of its container, where a signal without a handler is ignored.
trap 'exit 143' TERM INT

say() { printf '%s\n' "$@"; }
die() {
  say "ERROR: $1" "${@:2}" >&2
  exit 1
}
errors=() ns='<namespace>'
bad() { errors+=("$*"); }
# stop_if_bad [HINT]: ends with all errors, if there are any.
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

# ssh as the job's mpirun calls it: by the variables of Open MPI 4 and 5, MPICH and Intel MPI. From a list of programs
# with colons between them, Open MPI uses the first that exists.
agent=${OMPI_MCA_plm_rsh_agent:-${PRTE_MCA_plm_ssh_agent:-${HYDRA_LAUNCHER_EXEC:-${I_MPI_HYDRA_BOOTSTRAP_EXEC:-ssh}}}}
# Never a prompt, never without a timeout: ssh uses the first of two values of an option. Other options are the job's,
# then those of the image's ssh configuration.
# shellcheck disable=SC2206 # the words are meant to be split
ssh=(${agent%%:*} -o BatchMode=yes -o ConnectTimeout=5 -o ServerAliveInterval=5 -o LogLevel=ERROR
  ${OMPI_MCA_plm_rsh_args-} ${OMPI_MCA_plm_ssh_args-} ${PRTE_MCA_plm_ssh_args-} ${PRTE_MCA_plm_rsh_args-}
  ${HYDRA_LAUNCHER_EXTRA_ARGS-} ${I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS-})
need "${ssh[0]}" timeout sleep
n=${NEURON_ULTRASERVER_NODE_CONFIG:-4}
limit=${ULTRASERVER_WAIT_SECONDS:-1800}
workers=${ULTRASERVER_WORKERS:-0}
# Driver modes: 1 = X4, 2 = X2H, 3 = X2V, 4 = X1. With two nodes the driver reports ids for either link pair.
# shellcheck disable=SC2034 # the second container uses it
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

# hosts[i] is the name to ssh to, lines[i] the whole entry: "name slots=2" (Open MPI), "name:2" (Intel, MPICH).
# The operator names hosts pod.job.namespace.svc, so the namespace is the third label.
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
  # With runLauncherAsWorker this pod is in the hostfile. On the host's network its name is the node's, so the operator's
  # way of listing (launcher first, one entry more than there are workers) also identifies it.
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
  # A worker's host key is as new as its pod and is not verified; the job's own key pair protects the session. So if the
  # image leaves ssh at its default, which is to ask, any host key is accepted. If an image sets yes, no or accept-new,
  # that applies.
  [[ $policy != *"stricthostkeychecking ask"* ]] ||
    ssh+=(-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null)
  # OpenSSH 9 prefers a key exchange that takes six times the processor time of the rest of a login. The session has no
  # secrets, so a cheaper one comes first if ssh has it; the others follow.
  local kex=${policy#*$'\nkexalgorithms '}
  kex=${kex%%[[:space:]]*}
  [[ ,$kex, != *,curve25519-sha256,* ]] || ssh+=(-o "KexAlgorithms=curve25519-sha256,$kex")
}

# ask INDEX MEMBER...: runs $remote there (POSIX sh, without single quotes), with the words of args[INDEX]. The answer
# follows this run's mark, and a line that ends with "MARK ok" is success. Logins print other text, and ssh transports
# standard error separately: it may come between any two writes, and need not end with a newline.
# Then INDEX runs $relay, which asks each MEMBER in the same way. It needs the job's key, which mpi-operator mounts in
# every worker. It prints the lines of a member that have the mark, each after "MARK<MEMBER ", and so short that it is
# one write: no line of a member can appear within that of another.
mark=@$RANDOM$RANDOM$RANDOM
# shellcheck disable=SC2016 # expanded there, not here
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
# take_in OUTPUT INDEX MEMBER...: splits what ask printed into answers. INDEX cannot answer for others than its members,
# and a member only for itself: the leader's mark begins the line. Removing text by a pattern takes quadratic time in bash,
# so lines are cut first: other output comes before what the script prints on a line.
take_in() {
  local line i own='' members=" ${*:3} " IFS=$'\n'
  for i in "${@:2}"; do answer[i]=''; done
  for line in $1; do
    if [[ $line == "$mark<"[0-9]* ]]; then
      line=${line:${#mark}+1:499} i=${line%% *}
      [[ $members != *" $i "* ]] || answer[i]+=${line#* }$'\n'
    elif [[ $line != *"$mark<"* ]]; then
      ((${#line} < 999)) || line=${line: -999}
      own+=$'\n'$line
    fi
  done
  answer[$2]=$own
}
# ask_each WORDS...: calls ask with the words of each, in parallel, at most 32 at once. An answer has a limit, or a worker
# that prints without end fills the memory.
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
# ask_all INDEX...: asks them; each answer is in answer[INDEX]. Many are asked in groups, whose first worker asks the
# others. Then every worker whose answer is missing is asked directly: a leader may be dead, or without ssh or key.
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
ok() {
  local a=$'\n'${answer[$1]-}$'\n'
  [[ ${a//$'\r'/} == *"$mark ok"$'\n'* ]]
}
# Why INDEX did not answer: the last line of output, or how ssh ended.
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
