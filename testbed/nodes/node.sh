#!/bin/sh
# Makes the namespaces of one process a node: its network, its file systems, its control groups.
#
# usage: node.sh NAME ADDRESS GATEWAY FOLDER CGROUP
# Everything that containerd and the kubelet write to fixed paths is on mounts that only this node sees.
set -eu
name=$1 address=$2 gateway=$3 folder=$4 cgroup=$5

hostname "$name"
ip link set lo up
ip address add "$address/24" dev eth0
ip link set eth0 up
ip route add default via "$gateway"
echo 1 > /proc/sys/net/ipv4/ip_forward

mkdir -p "$folder/kubelet" "$folder/containerd" "$folder/pods" "$folder/cgroups" "$folder/sysctl"
for path in /run /var/lib /var/log; do mount -t tmpfs tmpfs "$path"; done
mkdir -p /run/lock /var/lib/kubelet /var/lib/containerd /var/lib/cni /var/log/pods /var/log/containers
# On a disk: overlays need one below what containers write. Shared: the kubelet's mounts have to reach containers.
mount --bind "$folder/kubelet" /var/lib/kubelet
mount --make-shared /var/lib/kubelet
mount --bind "$folder/containerd" /var/lib/containerd
mount --bind "$folder/pods" /var/log/pods

# The sysfs of this network, with the control groups back in it.
mount --rbind /sys/fs/cgroup "$folder/cgroups"
mount -t sysfs sysfs /sys
mount --rbind "$folder/cgroups" /sys/fs/cgroup
umount --recursive --lazy "$folder/cgroups"
for top in /sys/fs/cgroup/*/; do
  [ -e "$top/cgroup.procs" ] || continue
  for group in "$top/$cgroup" "$top/$cgroup/$name"; do
    mkdir -p "$group"
    # A set of processors begins empty, and takes no process until it is not.
    for file in cpuset.cpus cpuset.mems; do
      [ ! -e "$top/$file" ] || cat "$top/$file" > "$group/$file"
    done
    # By itself, a group with all its containers weighs as much as one process outside: with any request, they would
    # starve next to other programs of this machine. A node's Pods have a machine of their own.
    [ ! -e "$group/cpu.shares" ] || echo 16384 > "$group/cpu.shares"
  done
done

# The kubelet sets six values of the whole machine. It gets to see files in their place that say what it wants.
for pair in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 \
    kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
  value=$folder/sysctl/$(basename "${pair%=*}")
  echo "${pair#*=}" > "$value"
  mount --bind "$value" "/proc/sys/${pair%=*}"
done
