# What both init containers carry: settings, the hostfile, and one ssh to every worker at a time.
#
# Rules of this text (tests hold them):
# - It is handed to `bash -c` in the job's own image: bash 4.2, coreutils and ssh are all it may lean on.
# - Kubernetes expands $(NAME) and halves a doubled dollar in a command, and the rule table expands
#   $(word.word): no such spelling here.
# - No here-documents and no here-strings: older bash puts them in a temporary file, and the root file
#   system may be read-only.
# - The loader drops indentation, comment lines and blank lines, so nothing may depend on those.
set -feuo pipefail
export LC_ALL=C
SECONDS=0
# bash is process 1 of its container, where a signal without a handler is ignored.
trap 'exit 143' TERM INT

say() { printf '%s\n' "$@"; }
die() {
  printf '%s\n' "ERROR: $1" "${@:2}" >&2
  exit 1
}
number() { [[ $2 =~ ^[0-9]{1,6}$ ]] || die "$1 is \"$2\": it must be a whole number"; }

limit=${ULTRASERVER_WAIT_SECONDS:-1800}
number ULTRASERVER_WAIT_SECONDS "$limit"
workers=${ULTRASERVER_WORKERS:-0}
number ULTRASERVER_WORKERS "$workers"
limit=$((10#$limit)) workers=$((10#$workers))
hostfile=/etc/mpi/hostfile

# hosts[i] is the name to ssh to, lines[i] the whole entry: "name slots=2" (Open MPI), "name:2" (Intel, MPICH).
# The operator names hosts pod.job.namespace.svc, so the namespace is the third label.
hosts=() lines=() self='' ns='<namespace>'
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
  # With runLauncherAsWorker this very pod is listed. On the host's network its name is the node's, so the
  # operator's way of listing (launcher first, one entry more than there are workers) tells as well.
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

# Never a prompt, never without an end. Everything else is the image's own ssh configuration, as mpirun uses it.
ssh=(timeout 30 ssh -o BatchMode=yes -o ConnectTimeout=5 -o ServerAliveInterval=5 -o LogLevel=ERROR)
ssh_policy() {
  # A worker's host key is as new as its pod and nothing vouches for it; the job's own key pair is what protects
  # the session. So where the image leaves ssh at its default, which is to ask, any host key will do. An image
  # that says yes, no or accept-new is obeyed.
  case $(ssh -G "${hosts[0]}" 2>&1 || :) in
    *"stricthostkeychecking ask"*) ssh+=(-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null) ;;
  esac
}

# ask INDEX: runs $remote there (POSIX sh, without single quotes), with the words of args[INDEX].
remote='echo @ok'
args=() answer=()
ask() {
  if is_self "$1"; then
    # shellcheck disable=SC2086 # the words are meant to be split
    sh -c "$remote" sh ${args[$1]-} 2>&1
  else
    "${ssh[@]}" -- "${hosts[$1]}" "sh -c '$remote' sh ${args[$1]-}" </dev/null 2>&1
  fi
}
# ask_all INDEX...: asks them at the same time, at most 32 at once; what each said is in answer[INDEX].
ask_all() {
  local all=("$@") fds=() fd k
  for ((k = 0; k < $# + 32; k++)); do
    if ((k >= 32 && k - 32 < $#)); then
      fd=${fds[k - 32]}
      IFS= read -r -d '' -u "$fd" "answer[${all[k - 32]}]" || :
      exec {fd}<&-
    fi
    if ((k < $#)); then
      exec {fd}< <(ask "${all[k]}" || :)
      fds+=("$fd")
    fi
  done
}
ok() { [[ ${answer[$1]-} == *@ok* ]]; }
# Why INDEX did not answer: the last thing ssh said.
why() {
  local a=${answer[$1]-}
  a=${a//$'\r'/}
  while [[ $a == *$'\n' ]]; do a=${a%$'\n'}; done
  a=${a##*$'\n'}
  printf '%s' "${a:-no answer within 30 s}"
}
