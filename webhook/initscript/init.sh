# The second init container: collects, checks, orders, tells every worker its place, writes the new hostfile.
n=${NEURON_ULTRASERVER_NODE_CONFIG:-4}
out=${ULTRASERVER_OUTPUT_DIR:-/root/ultraserver_init}
none=0000000000000000
keys=(NEURON_GLOBAL_TOPOID NEURON_GLOBAL_TOPOID0_HOST NEURON_RT_ULTRASERVER_MODE
  NEURON_RT_ULTRASERVER_SERVER_ID NEURON_RT_ULTRASERVER_NODE_ID)
errors=()
bad() { errors+=("$*"); }
stop_if_bad() {
  ((${#errors[@]})) || return 0
  printf 'ERROR: %s\n' "${errors[@]}" >&2
  die "${#errors[@]} problem(s). Which node a pod is on: kubectl get pods -n $ns -o wide"
}

# Driver modes: 1 = X4, 2 = X2H, 3 = X2V, 4 = X1. With two nodes the driver reports ids for either link pair.
case $n in
  4) wants='1' ;;
  2) wants='3 2' ;;
  1) wants='4' ;;
  *) die "NEURON_ULTRASERVER_NODE_CONFIG is \"$n\": it must be 4, 2 or 1" ;;
esac
say "Using $n-node config"
read_hosts
all=("${!hosts[@]}") count=${#hosts[@]}
((count)) || die "$hostfile lists no worker"
((count % n == 0)) ||
  bad "$count workers cannot form UltraServers of $n nodes: make replicas a multiple of $n," \
    "or choose another node config (annotation or NEURON_ULTRASERVER_NODE_CONFIG)"
((workers <= count)) || bad "$hostfile lists $count workers, the job asked for $workers: run this container again"
{ mkdir -p "$out" && [[ -w $out ]]; } 2>/dev/null ||
  bad "$out cannot be written by uid $(id -u): mount the volume ultraserver-init there (ULTRASERVER_OUTPUT_DIR)"
ssh_policy

# Collect. A missing file is "-", an empty one "empty".
# shellcheck disable=SC2016 # expanded there, not here
remote='cd /sys/class/neuron_device 2>/dev/null && for f in ultraserver_mode server_id_$1 node_id_$1 reservation_id node_id
do
v=-
if [ -r $f ]; then read -r v <$f || :; v=${v:-empty}; fi
echo "@$f=$v"
done
echo @ok'
for i in "${all[@]}"; do args[i]=$n; done
mode=() server=() node=()
# Takes what INDEX said apart; fails if it is worth asking again.
take() {
  local i=$1 word IFS=$' \n' reservation=- trn3=-
  mode[i]=- server[i]=- node[i]=-
  ok "$i" || return 1
  for word in ${answer[i]//$'\r'/}; do
    case $word in
      @ultraserver_mode=*) mode[i]=${word#*=} ;;
      @server_id_*) server[i]=${word#*=} ;;
      @node_id_*) node[i]=${word#*=} ;;
      @reservation_id=*) reservation=${word#*=} ;;
      @node_id=*) trn3=${word#*=} ;;
    esac
  done
  if [[ ${server[i]} == - && $reservation != - ]]; then
    server[i]=$reservation node[i]=$trn3
    if [[ ${mode[i]} == - ]]; then mode[i]=${wants// /,}; fi
  fi
  if [[ ${mode[i]} == busy || ${node[i]} == busy ]]; then
    grace=$limit
    return 1
  fi
}
todo=("${all[@]}")
while :; do
  ask_all "${todo[@]}"
  again=() grace=15
  for i in "${todo[@]}"; do take "$i" || again+=("$i"); done
  ((${#again[@]} && SECONDS < grace)) || break
  todo=("${again[@]}")
  say "Asking again (no answer, or the UltraServer is still being set up): $(pods "${todo[@]}")"
  sleep 3
done

row() { printf '%-8s %-18s %-8s %-8s %s\n' "$@"; }
say "" "Number of worker nodes: $count"
row MODES SERVER_ID NODE_ID '' FQDN
for i in "${all[@]}"; do row "${mode[i]}" "${server[i]}" "${node[i]}" '' "${hosts[i]}"; done

# Check. members[SERVER] are the workers there; unknown counts those whose server cannot be told.
declare -A members=() twins=()
unknown=0
placed='delete the job and apply it again when a whole UltraServer is free; see the affinity of its workers'
for i in "${all[@]}"; do
  pod="pod ${hosts[i]%%.*}"
  use='' can=''
  if ! ok "$i"; then
    bad "$pod: did not answer ssh: $(why "$i"); see kubectl describe pod and its logs"
    unknown=$((unknown + 1))
    continue
  fi
  if [[ ${mode[i]} == busy || ${node[i]} == busy ]]; then
    bad "$pod: its node is still setting up its UltraServer (mode ${mode[i]}, node id ${node[i]}) after $SECONDS s:" \
      "see the neuron driver's lines in the node's dmesg, or wait longer (ULTRASERVER_WAIT_SECONDS)"
    unknown=$((unknown + 1))
    continue
  fi
  for m in $wants; do
    if [[ -z $use && ,${mode[i]}, == *,$m,* ]]; then use=$m; fi
  done
  for m in 1:4 2:2 3:2 4:1; do
    if [[ ,${mode[i]}, == *,${m%:*},* && $can != *${m#*:}* ]]; then can+=" ${m#*:}"; fi
  done
  # A driver without UltraServers reports no modes; a single node needs none.
  if ((n == 1)) && [[ ${mode[i]} == - || ${mode[i]} == empty ]]; then use=$wants; fi
  if [[ -z $use ]]; then
    bad "$pod (server ${server[i]}, node ${node[i]}): ultraserver_mode is ${mode[i]}, node config $n needs" \
      "${wants// / or } (1=X4 2=X2H 3=X2V 4=X1): the node supports node config${can:- none};" \
      "choose that one, or have the node repaired and keep jobs off it (kubectl cordon)"
  fi
  mode[i]=$use
  if ((n == 1)); then
    server[i]=$none node[i]=-1
    continue
  fi
  if [[ ${server[i]} == "$none" || ! ${server[i]} =~ ^[A-Za-z0-9_]+$ ||
    ${server[i]} == empty || ! ${node[i]} =~ ^[0-9]{1,4}$ ]]; then
    bad "$pod: server id ${server[i]}, node id ${node[i]}: its node is not in a working UltraServer of $n" \
      "(/sys/class/neuron_device/{server_id_$n,node_id_$n}, on trn3 {reservation_id,node_id}):" \
      "have the node repaired and keep jobs off it (kubectl cordon), then apply the job again"
    unknown=$((unknown + 1))
    continue
  fi
  members[${server[i]}]+=" $i"
  twins[${server[i]}.${node[i]}]+=" $i"
done
for s in ${members[@]+"${!members[@]}"}; do
  # shellcheck disable=SC2206 # the indexes are meant to be split
  here=(${members[$s]})
  # Too few is no finding of its own while some worker's server is unknown.
  if ((${#here[@]} > n || (${#here[@]} < n && unknown == 0))); then
    bad "server $s holds ${#here[@]} of this job's workers, node config $n needs $n: $(pods "${here[@]}"); $placed"
  fi
done
for s in ${twins[@]+"${!twins[@]}"}; do
  # shellcheck disable=SC2206
  here=(${twins[$s]})
  if ((${#here[@]} > 1)); then
    bad "server ${s%.*}: node id ${s#*.} is claimed by $(pods "${here[@]}"), it must be unique: two workers on one" \
      "node, or a driver that reports wrong ids; see the nodes of these pods, then $placed"
  fi
done
stop_if_bad

# Order: by server, then node; single nodes stay as the hostfile has them.
order=()
while read -r _ _ i; do order+=("$i"); done < <(
  for i in "${all[@]}"; do printf '%s\n' "${server[i]} ${node[i]} $i"; done | sort -k1,1 -k2,2n -k3,3n
)
leader=${hosts[order[0]]}
say "" "Sorted nodes:"
row TOPO_ID SERVER_ID NODE_ID MODE FQDN
for t in "${!order[@]}"; do
  i=${order[t]}
  args[i]="$t $leader ${mode[i]} ${server[i]} ${node[i]}"
  row "$t" "${server[i]}" "${node[i]}" "${mode[i]}" "${hosts[i]}"
done
say "" "NEURON_GLOBAL_TOPOID0 node will be: $leader"

# Tell every worker. Only the new text is ever seen under the file's name (rename); where the file may be
# written but its directory may not, it is written in place. Other lines stay, older values of ours go.
# shellcheck disable=SC2016 # expanded there, not here
remote='f=$(readlink -f /etc/environment) old= new= nl="
"
if [ -e "$f" ]; then
while IFS= read -r l || [ -n "$l" ]; do
old="$old$l$nl"
case "${l#export }" in
NEURON_GLOBAL_TOPOID=*|NEURON_GLOBAL_TOPOID0_HOST=*) ;;
NEURON_RT_ULTRASERVER_MODE=*|NEURON_RT_ULTRASERVER_SERVER_ID=*|NEURON_RT_ULTRASERVER_NODE_ID=*) ;;
*) new="$new$l$nl" ;;
esac
done <"$f" || exit 1
fi
for k in '"${keys[*]}"'; do new="$new$k=$1$nl"; shift; done
if [ "$old" = "$new" ]; then echo @ok; exit; fi
umask 022
if t=$(mktemp "$f.XXXXXX" 2>/dev/null); then
trap "rm -f \"$t\"" EXIT
if [ -e "$f" ]; then cp -p "$f" "$t"; else chmod 644 "$t"; fi &&
printf %s "$new" >"$t" && mv -f "$t" "$f" 2>/dev/null && echo @ok && exit
fi
{ printf %s "$new" >"$f"; } 2>/dev/null && echo @ok || echo "uid $(id -u) cannot write $f"'
todo=()
for i in "${all[@]}"; do
  if is_self "$i"; then
    # What is written in this container is gone with it, so the launcher's own ranks get a file to source.
    # shellcheck disable=SC2206
    values=(${args[i]})
    for k in "${!keys[@]}"; do printf 'export %s\n' "${keys[k]}=${values[k]}"; done >"$out/launcher.env"
    say "The launcher runs ranks too: its command must source $out/launcher.env"
  else
    todo+=("$i")
  fi
done
ask_all ${todo[@]+"${todo[@]}"}
for i in ${todo[@]+"${todo[@]}"}; do
  ok "$i" || bad "pod ${hosts[i]%%.*}: its five NEURON_ variables could not be written to /etc/environment:" \
    "$(why "$i"); run the worker as root, or give its user that file in the image"
done
stop_if_bad

# A session must see them, or the job would run without and nobody would know. All workers are made from one
# template, so asking one tells.
# shellcheck disable=SC2016
remote='echo @ok; echo "@$NEURON_GLOBAL_TOPOID $NEURON_GLOBAL_TOPOID0_HOST@"'
if ((${#todo[@]})); then
  i=${todo[0]}
  ask_all "$i"
  if [[ ${answer[i]} != *"@${args[i]%% *} $leader@"* ]]; then
    say "" "WARNING: /etc/environment is written, but an ssh session on ${hosts[i]%%.*} does not see it." \
      'Its sshd needs "UsePAM yes" and pam_env in /etc/pam.d/sshd; or let the program read /etc/environment itself.'
  fi
fi

new=$(mktemp "$out/.new_hostfile.XXXXXX")
for i in "${order[@]}"; do printf '%s\n' "${lines[i]}"; done >"$new"
chmod 644 "$new"
mv -f "$new" "$out/new_hostfile"
say "" "Updated hostfile ($out/new_hostfile):"
for i in "${order[@]}"; do say "${lines[i]}"; done
