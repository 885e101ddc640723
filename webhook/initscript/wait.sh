# The first init container waits until every worker answers ssh.
settings
declare -A answered=() reasons=()
next=0 patience=5
say "Waiting at most $limit s until every worker answers ssh"
while :; do
  read_hosts
  todo=() missing=() reason='' count=0
  for i in "${!hosts[@]}"; do
    is_self "$i" && continue
    count=$((count + 1))
    [[ ${answered[${hosts[i]}]-} ]] || todo+=("$i")
  done
  if ((${#todo[@]})); then
    ssh_policy
    ask_all "${todo[@]}"
    for i in "${todo[@]}"; do
      host=${hosts[i]}
      if ok "$i"; then
        answered[$host]=1
        continue
      fi
      missing+=("$i")
      # Shortly before $limit, the timeout is shorter than $patience. The reason of an earlier session then has more details.
      now=$(why "$i")
      [[ ${reasons[$host]-} && $now == "no answer within "* && $now != *" $patience s" ]] ||
        # After a failed login, sshd 9.8 and later rejects the client for some time, which would hide the reason.
        [[ ${reasons[$host]-} == *denied* && $now == kex_* ]] ||
        reasons[$host]=$now
      [[ $reason ]] || reason=" (${host%%.*}: ${reasons[$host]})"
    done
    # The timeout is short at first, so that a worker that hangs delays the other workers little. It grows, because a
    # launcher with little CPU is slow.
    patience=$((patience < 15 ? patience * 2 : 30))
  fi
  # The kubelet may write the hostfile late, so the number of workers in the job is used as well.
  unlisted=$((workers > count ? workers - count : 0))
  total=$((count + unlisted)) unready=$((${#missing[@]} + unlisted))
  names=$(pods ${missing[@]+"${missing[@]}"})
  if ((unlisted)); then names+="${names:+ and }$unlisted not yet in $hostfile"; fi
  if ((unready == 0 && total)); then
    say "All $total workers answer ssh after $SECONDS s"
    exit 0
  fi
  ((SECONDS < limit)) || break
  if ((SECONDS >= next)); then
    say "$((total - unready)) of $total workers answer ssh after $SECONDS s of $limit s; missing: $names$reason"
    next=$((SECONDS + 5))
  fi
  sleep 2
done
lines=("$unready of $total workers did not answer ssh within $limit s; missing: $names")
for i in ${missing[@]+"${missing[@]}"}; do lines+=("pod ${hosts[i]%%.*}: ${reasons[${hosts[i]}]}"); done
lines+=("Where to look:"
  "  kubectl get pods -n $ns -o wide: a Pending pod has no node: no whole UltraServer is free for it"
  "  kubectl describe pod -n $ns <pod>: FailedScheduling: which affinity or resource it lacks; or image errors"
  "  kubectl logs -n $ns <pod>: a Running pod must run sshd and accept the job's key"
  "A longer wait: values: {waitSeconds: \"3600\"} in the webhook's rule table.")
die "${lines[@]}"
