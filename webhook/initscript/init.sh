# The second init container reads the state of the workers, checks and sorts them, configures each worker, and writes
# the new hostfile.
out=${ULTRASERVER_OUTPUT_DIR:-/root/ultraserver_init}
keys=(NEURON_GLOBAL_TOPOID{,0_HOST} NEURON_RT_ULTRASERVER_{MODE,SERVER_ID,NODE_ID})

need mkdir mktemp chmod mv rm sort
# If this run fails, results of an earlier run must not remain.
rm -f "$out/new_hostfile" "$out/launcher.env" 2>/dev/null || :
settings
say "Using $n-node config"
new=''
trap '[[ -z $new ]] || rm -f "$new"' EXIT
# store FILE TEXT: writes a file that every user can read.
store() { reason=$( (printf %s "$2" >"$1" && chmod 644 "$1") 2>&1) || bad_output "$reason"; }
bad_output() {
  bad "$out cannot be written by uid $EUID (${1##*: }): mount the volume ultraserver-init there" \
    "(ULTRASERVER_OUTPUT_DIR) and see that it is not full"
}
if reason=$(mkdir -p "$out" 2>&1) && reason=$(mktemp "$out/.new_hostfile.XXXXXX" 2>&1); then
  new=$reason
else
  bad_output "$reason"
fi
recreate='delete the job and apply it again' repair='have the node repaired and keep jobs off it (kubectl cordon)'
read_hosts
all=("${!hosts[@]}") count=${#hosts[@]}
((count)) || die "$hostfile lists no worker: run this container again, or $recreate"
((count % n == 0)) ||
  bad "$count workers cannot form UltraServers of $n nodes: make replicas a multiple of $n," \
    "or choose another node config (annotation or NEURON_ULTRASERVER_NODE_CONFIG)"
((workers <= count)) || bad "$hostfile lists $count workers, the job asked for $workers: $recreate with the wanted replicas"
declare -A counts=()
for i in "${all[@]}"; do
  counts[${hosts[i]}]+=x
  [[ ${counts[${hosts[i]}]} != xx ]] || bad "$hostfile lists ${hosts[i]} twice: $recreate"
done
ssh_policy

# Reads the files of the Neuron driver on each worker. A missing file has the value "-", an empty file the value "empty".
# Also finds out whether /etc/environment, or else its directory, is writable.
# shellcheck disable=SC2016 # the worker expands the variables
remote='cd /sys/class/neuron_device 2>/dev/null && for f in ultraserver_mode server_id_$1 node_id_$1 reservation_id node_id
do
v=-
if [ -r $f ]; then read -r v <$f || :; v=${v:-empty}; fi
printf "%s %s=%.64s\n" $mark $f "$v"
done
f=$(readlink -f /etc/environment)
if [ -e "$f" ]; then w=$( { : >>"$f"; } 2>&1 ) && w=ok; else w="Permission denied"; fi
[ "$w" = ok ] || { [ -w "${f%/*}" ] && w=ok; }
echo "$mark write=${w##*: }, uid $(id -u)"
echo $mark ok'
for i in "${all[@]}"; do args[i]=$n; done
mode=() server=() node=() write=()
busy() { [[ ${mode[$1]} == busy || ${node[$1]} == busy ]]; }
# take INDEX: stores the values from the answer of a worker. Fails if the worker must be asked again, because it did not
# answer, or because its UltraServer is being set up. The setup can take until $limit.
take() {
  local i=$1 line value IFS=$'\n' reservation=- trn3=-
  mode[i]=- server[i]=- node[i]=- write[i]=ok
  ok "$i" || return 1
  for line in ${answer[i]//$'\r'/}; do
    [[ $line == *"$mark "* ]] || continue
    line=${line##*"$mark "} value=${line#*=} value=${value//[^[:print:]]/?}
    case $line in
      ultraserver_mode=*)
        IFS=', '
        # shellcheck disable=SC2086 # the words are meant to be split
        set -- $value
        IFS=,
        mode[i]="${*:-empty}"
        ;;
      server_id_*=*) server[i]=$value ;;
      node_id_*=*) node[i]=$value ;;
      reservation_id=*) reservation=$value ;;
      node_id=*) trn3=$value ;;
      write=*) write[i]=$value ;;
    esac
  done
  if [[ ${server[i]} == - && $reservation != - ]]; then
    server[i]=$reservation node[i]=$trn3
    reserved[$reservation]=1
    [[ ${mode[i]} != - ]] || mode[i]=${wants// /,}
  fi
  if busy "$i"; then
    grace=$limit
    return 1
  fi
}
declare -A reserved=()
least=10 soon=''
todo=("${all[@]}")
while :; do
  ask_all "${todo[@]}"
  # The grace period begins after the first attempt, which takes long if there are many workers, or if a worker hangs.
  missing=() grace=${soon:=$((SECONDS + 15))}
  for i in "${todo[@]}"; do take "$i" || missing+=("$i"); done
  ((${#missing[@]} && SECONDS < grace)) || break
  todo=("${missing[@]}") patience=10
  say "Asking again (no answer, or the UltraServer is still being set up): $(pods "${todo[@]}")"
  sleep 3
done
limit=999999 patience=30

row() { printf '%-8s %-18s %-8s %-8s %s\n' "$@"; }
say "" "Number of worker nodes: $count"
row MODES SERVER_ID NODE_ID '' FQDN
for i in "${all[@]}"; do row "${mode[i]}" "${server[i]}" "${node[i]}" '' "${hosts[i]}"; done

bad_worker() {
  local remedy="see what its node and its image do to that file"
  case $2 in
    *denied* | *permitted*) remedy="run the worker as root, or give its user that file in the image" ;;
    *ead-only*) remedy="give the worker a writable root (no readOnlyRootFilesystem)" ;;
    *space* | *quota*) remedy="its file system is full: see the node's disk and the pod's ephemeral-storage limit" ;;
  esac
  remedy="pod ${hosts[$1]%%.*}: its five NEURON_ variables cannot be written to /etc/environment: $2; $remedy"
  if ((n > 1)); then bad "$remedy" && return; fi
  write[$1]='' # with node config 1, no worker needs the variables
  say "WARNING: $remedy"
}
# Checks the workers. members[SERVER] has the workers on a server. unknown is set if the server of a worker is unknown.
declare -A members=() same_ids=()
fits=() unknown=''
place_again="$recreate when a whole UltraServer is free; see the affinity of its workers"
for i in "${all[@]}"; do
  pod="pod ${hosts[i]%%.*}"
  configs=''
  if ! ok "$i"; then
    bad "$pod: did not answer ssh: $(why "$i"); see kubectl describe pod and its logs"
    unknown=1
    continue
  fi
  if busy "$i"; then
    bad "$pod: its node is still setting up its UltraServer (mode ${mode[i]}, node id ${node[i]}) after $SECONDS s:" \
      "see the neuron driver's lines in the node's dmesg, or wait longer (ULTRASERVER_WAIT_SECONDS)"
    unknown=1
    continue
  fi
  is_self "$i" || [[ ${write[i]} == ok* ]] || bad_worker "$i" "${write[i]}"
  fits[i]=''
  for m in $wants; do
    [[ ,${mode[i]}, != *,$m,* ]] || fits[i]+=" $m"
  done
  for m in 1:4 2:2 3:2 4:1; do
    [[ ,${mode[i]}, != *,${m%:*},* || $configs == *${m#*:}* ]] || configs+=" ${m#*:}"
  done
  # On machines that are not UltraServers, the driver reports no modes. Node config 1 does not need a mode.
  if ((n == 1)) && [[ ${mode[i]} =~ ^(-|empty)$ ]]; then fits[i]=" $wants"; fi
  if [[ -z ${fits[i]} ]]; then
    case $configs in
      '') remedy="no node config:" ;;
      ' '?' '*) remedy="node configs$configs; choose one of them, or" ;;
      *) remedy="node config$configs; choose that one, or" ;;
    esac
    bad "$pod (server ${server[i]}, node ${node[i]}): ultraserver_mode is ${mode[i]}, node config $n needs" \
      "${wants// / or } (1=X4 2=X2H 3=X2V 4=X1): the node supports $remedy $repair"
  fi
  if ((n == 1)); then
    mode[i]=$wants server[i]=0000000000000000 node[i]=-1
    continue
  fi
  if [[ ${server[i],,} =~ ^((0x)?0*|empty|null|none|nil|nan|unknown|invalid|undefined|error|busy)$ ||
    ! ${server[i]} =~ ^[A-Za-z0-9][A-Za-z0-9_-]*$ || ! ${node[i]} =~ ^[0-9]{1,4}$ ]]; then
    bad "$pod: server id ${server[i]}, node id ${node[i]}: its node is not in a working UltraServer of $n" \
      "(/sys/class/neuron_device/{server_id_$n,node_id_$n}, on trn3 {reservation_id,node_id}):" \
      "$repair, then apply the job again"
    unknown=1
    continue
  fi
  node[i]=$((10#${node[i]}))
  members[${server[i]}]+=" $i"
  same_ids[${server[i]}.${node[i]}]+=" $i"
done
for s in ${members[@]+"${!members[@]}"}; do
  # shellcheck disable=SC2206 # the indexes are meant to be split
  group=(${members[$s]})
  # If the server of a worker is unknown, a server with too few workers is not an error.
  if ((${#group[@]} > n || (${#group[@]} < n && !unknown))); then
    remedy=$place_again
    if ((n == 2 && ${#group[@]} > n)) && [[ ${reserved[$s]-} ]]; then
      remedy='on trn3 a server is a reservation: use node config 4 or 1'
    fi
    bad "server $s holds ${#group[@]} of this job's workers, node config $n needs $n: $(pods "${group[@]}"); $remedy"
  fi
  # A server has one mode: the first suitable mode that all its workers have.
  common='' has_unfit=''
  for m in $wants; do
    shared=$m
    for i in "${group[@]}"; do
      [[ ${fits[i]} == *"$m"* ]] || shared=''
      [[ ${fits[i]} ]] || has_unfit=1
    done
    common=${common:-$shared}
  done
  if [[ $common ]]; then
    for i in "${group[@]}"; do mode[i]=$common; done
  elif [[ -z $has_unfit ]]; then
    modes=''
    for i in "${group[@]}"; do modes+=" $(pods "$i") has${fits[i]},"; done
    bad "server $s: its workers have no ultraserver_mode in common that node config $n can use" \
      "(${wants// / or }):${modes%,}: choose node config 1, or $repair"
  fi
done
for s in ${same_ids[@]+"${!same_ids[@]}"}; do
  # shellcheck disable=SC2206
  group=(${same_ids[$s]})
  if ((${#group[@]} > 1)); then
    bad "server ${s%.*}: node id ${s#*.} is claimed by $(pods "${group[@]}"), it must be unique: two workers on one" \
      "node, or a driver that reports wrong ids; see the nodes of these pods, then $place_again"
  fi
done
stop_if_bad

# Sorts the workers by server, then by node. With node config 1, they keep the order of the hostfile.
order=()
while read -r _ _ i; do order+=("$i"); done < <(
  for i in "${all[@]}"; do printf '%s\n' "${server[i]} ${node[i]} $i"; done | sort -k1,1 -k2,2n -k3,3n
)
((${#order[@]} == count)) || die "could not sort $count workers: the launcher's image has no working sort (coreutils)"
leader=${hosts[order[0]]}
say "" "Sorted nodes:"
row TOPO_ID SERVER_ID NODE_ID MODE FQDN
for t in "${!order[@]}"; do
  i=${order[t]}
  args[i]="$t $leader ${mode[i]} ${server[i]} ${node[i]}"
  row "$t" "${server[i]}" "${node[i]}" "${mode[i]}" "${hosts[i]}"
done
say "" "NEURON_GLOBAL_TOPOID0 node will be: $leader"

# Configures every worker. The new text is written to a temporary file, which is then renamed, so that no reader gets an
# incomplete file. If only the file is writable and not its directory, the file is written in place. Lines with the
# five variables are replaced, and all other lines stay.
# shellcheck disable=SC2016 # the worker expands the variables
remote='keys="'"${keys[*]}"'" f=$(readlink -f /etc/environment) old= new= nl="
"
if [ -e "$f" ]; then
while IFS= read -r l || [ -n "$l" ]; do
old="$old$l$nl"
k=${l#export }
case " $keys " in *" ${k%%=*} "*) ;; *) new="$new$l$nl" ;; esac
done <"$f" || exit 1
fi
for k in $keys; do new="$new$k=$1$nl"; shift; done
if [ "$old" = "$new" ]; then echo $mark ok; exit; fi
umask 022
fail() { echo "${w##*: }, uid $(id -u)"; exit 1; }
if t=$(mktemp "$f.XXXXXX" 2>/dev/null); then
trap "rm -f \"$t\"" EXIT
trap "exit 1" HUP INT PIPE TERM
if [ -e "$f" ]; then w=$(cp -p "$f" "$t" 2>&1); else chmod 644 "$t"; fi || fail
w=$(env printf %s "$new" 2>&1 >"$t") || fail
if mv -f "$t" "$f" 2>/dev/null; then echo $mark ok; exit; fi
fi
w=$( { env printf %s "$new" >"$f"; } 2>&1 ) && echo $mark ok && exit
{ printf %s "$old" >"$f"; } 2>/dev/null
fail'
text=''
for i in "${order[@]}"; do text+="${lines[i]}"$'\n'; done
store "$new" "$text"
todo=() values=()
for i in "${all[@]}"; do
  is_self "$i" || {
    [[ ${write[i]} != ok* ]] || todo+=("$i")
    continue
  }
  # The files of this container are lost when it ends, so the launcher's command gets a file with the variables.
  # shellcheck disable=SC2206
  values=(${args[i]})
  text=''
  for k in "${!keys[@]}"; do text+="export ${keys[k]}=${values[k]}"$'\n'; done
  store "$out/launcher.env" "$text"
  say "The launcher runs ranks too: its command must source $out/launcher.env"
done
stop_if_bad
ask_all ${todo[@]+"${todo[@]}"}
# Workers without an answer are asked again, because a session can break. It is safe to write the variables twice.
missing=()
for i in ${todo[@]+"${todo[@]}"}; do ok "$i" || missing+=("$i"); done
ask_all ${missing[@]+"${missing[@]}"}
for i in ${missing[@]+"${missing[@]}"}; do
  ok "$i" || bad_worker "$i" "$(why "$i")"
done
stop_if_bad

# Checks that an ssh session has the variables. Without them, the job would run and report no error. All workers have
# the same template, so the check of one worker is enough.
# shellcheck disable=SC2016
remote='echo "@$NEURON_GLOBAL_TOPOID $NEURON_GLOBAL_TOPOID0_HOST@"'
if ((${#todo[@]})); then
  i=${todo[0]}
  ask_all "$i"
  if [[ ${write[i]} == ok* && ${answer[i]} != *"@${args[i]%% *} $leader@"* ]]; then
    say "" "WARNING: /etc/environment is written, but an ssh session on ${hosts[i]%%.*} does not see it." \
      'Its sshd needs "UsePAM yes" and pam_env in /etc/pam.d/sshd; or let the program read /etc/environment itself.'
  fi
fi

mv -f "$new" "$out/new_hostfile"
new=''
say "" "Updated hostfile ($out/new_hostfile):"
for i in "${order[@]}"; do say "${lines[i]}"; done
