# Process 1 of a fleet: it creates the bridge that connects the pods. When it dies, the kernel ends all pods.
set -euo pipefail
ip link set lo up
ip link add br0 type bridge
ip link set br0 up
printf 'ready\n'
sleep infinity &
while :; do wait || :; done
