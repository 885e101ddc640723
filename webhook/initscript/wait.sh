# The first init container: waits until every worker answers ssh.
settings
declare -A up=() said=()
next=0 patience=5
say "Waiting at most $limit s until every worker answers ssh"
while :; do
  read_hosts
  todo=() missing=() reason='' count=0
  for i in "${!hosts[@]}"; do
    is_self "$i" && continue
    count=$((count + 1))
    [[ ${up[${hosts[i]}]-} ]] || todo+=("$i")
  done
  if ((${#todo[@]})); then
    ssh_policy
    ask_all "${todo[@]}"
    for i in "${todo[@]}"; do
      h=${hosts[i]}
      if ok "$i"; then
        up[$h]=1
        continue
      fi
      missing+=("$i")
      # The last session may have been cut short: an earlier answer then has more details.
      now=$(why "$i")
      [[ ${said[$h]-} && $now == "no answer within "* && $now != *" $patience s" ]] ||
        # sshd 9.8 and later rejects a client for a while after a failed login.
        [[ ${said[$h]-} == *denied* && $now == kex_* ]] ||
        said[$h]=$now
      [[ $reason ]] || reason=" (${h%%.*}: ${said[$h]})"
    done
    # Short at first, so that one that hangs does not hide the others; longer later, for a launcher with little CPU.
    patience=$((patience < 15 ? patience * 2 : 30))
  fi
  # The kubelet may write the hostfile late, so the number that the job requests is used as well.
  absent=$((workers > count ? workers - count : 0))
  total=$((count + absent)) away=$((${#missing[@]} + absent))
  names=$(pods ${missing[@]+"${missing[@]}"})
  if ((absent)); then names+="${names:+ and }$absent not yet in $hostfile"; fi
  if ((away == 0 && total)); then
    say "All $total workers answer ssh after $SECONDS s"
    exit 0
  fi
  ((SECONDS < limit)) || break
  if ((SECONDS >= next)); then
    say "$((total - away)) of $total workers answer ssh after $SECONDS s of $limit s; missing: $names$reason"
    next=$((SECONDS + 5))
  fi
  sleep 2
done
lines=("$away of $total workers did not answer ssh within $limit s; missing: $names")
for i in ${missing[@]+"${missing[@]}"}; do lines+=("pod ${hosts[i]%%.*}: ${said[${hosts[i]}]}"); done
lines+=("Where to look:"
  "  kubectl get pods -n $ns -o wide: a Pending pod has no node: no whole UltraServer is free for it"
  "  kubectl describe pod -n $ns <pod>: FailedScheduling: which affinity or resource it lacks; or image errors"
  "  kubectl logs -n $ns <pod>: a Running pod must run sshd and accept the job's key"
  "A longer wait: values: {waitSeconds: \"3600\"} in the webhook's rule table.")
die "${lines[@]}"
