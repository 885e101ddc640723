# Starts a pod of a fleet. It runs in the namespaces of the fleet, with new net, mount and UTS namespaces.
# Arguments: the folder, host name and number of the pod, and then the command of its process 1.
set -euo pipefail
folder=$1 name=$2 number=$3
shift 3
hostname "$name"
ip link set lo up
# The interface of an earlier pod with this number may still exist for a moment.
nsenter --target 1 --net -- ip link delete "v$number" 2>/dev/null || :
ip link add eth0 type veth peer name "v$number" netns 1
nsenter --target 1 --net -- ip link set "v$number" master br0 up
ip address add "10.77.$((number / 250)).$((number % 250 + 1))/16" dev eth0
ip link set eth0 up
mount --make-rprivate /
mount -t overlay overlay -o "lowerdir=/etc,upperdir=$folder/etc,workdir=$folder/work" /etc
mount --bind "$folder/root" /root
mount -t tmpfs tmpfs /home
mkdir /home/mpiuser
mount --bind "$folder/root" /home/mpiuser
mount --bind "$folder/sys" /sys/class
mount -t tmpfs tmpfs /run
mkdir /run/sshd
mount -t tmpfs -o mode=1777 tmpfs /tmp
cd /
exec unshare --pid --fork --kill-child --mount-proc -- "$@"
