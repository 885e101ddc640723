#!/bin/sh
# Prepares the namespaces of a node: its network, file systems and control groups.
#
# usage: node.sh NAME ADDRESS GATEWAY FOLDER CGROUP
# The fixed paths to which containerd and the kubelet write are mounts that only this node sees.
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
# These folders are on a disk, because overlayfs needs a disk. /var/lib/kubelet is shared, so that containers
# see the volumes that the kubelet mounts.
mount --bind "$folder/kubelet" /var/lib/kubelet
mount --make-shared /var/lib/kubelet
mount --bind "$folder/containerd" /var/lib/containerd
mount --bind "$folder/pods" /var/log/pods

# A new sysfs shows the interfaces of this network namespace. The control groups are mounted into it again.
mount --rbind /sys/fs/cgroup "$folder/cgroups"
mount -t sysfs sysfs /sys
mount --rbind "$folder/cgroups" /sys/fs/cgroup
umount --recursive --lazy "$folder/cgroups"
for top in /sys/fs/cgroup/*/; do
  [ -e "$top/cgroup.procs" ] || continue
  for group in "$top/$cgroup" "$top/$cgroup/$name"; do
    mkdir -p "$group"
    # A new cpuset is empty, and accepts no process until it has processors and memory nodes.
    for file in cpuset.cpus cpuset.mems; do
      [ ! -e "$top/$file" ] || cat "$top/$file" > "$group/$file"
    done
    # By default, a group with all its containers gets as much CPU time as one process outside, so that Pods
    # would starve next to other programs of this machine. Pods of a real node have a machine for themselves.
    [ ! -e "$group/cpu.shares" ] || echo 16384 > "$group/cpu.shares"
  done
done

# The kubelet would set six kernel parameters of the whole machine. These mounts replace the parameters with
# files that already have the right values.
for pair in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 \
    kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
  value=$folder/sysctl/$(basename "${pair%=*}")
  echo "${pair#*=}" > "$value"
  mount --bind "$value" "/proc/sys/${pair%=*}"
done
