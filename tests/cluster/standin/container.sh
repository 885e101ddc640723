#!/bin/bash
# A container's view of the machine, then its command: container.sh ROOT MOUNTS USER GROUP ENV... -- COMMAND...
# Run in mount and UTS namespaces of its own. MOUNTS is a file of lines "source target ro|rw"; KEEP in the environment
# has the folders, separated by colons, that the command's program is made of, wherever they are.
set -euo pipefail
root=$1 mounts=$2 user=$3 group=$4
shift 4
environment=()
while [[ $1 != -- ]]; do environment+=("$1"); shift; done
shift
for word in "${environment[@]}"; do
    [[ $word != HOSTNAME=* ]] || printf %s "${word#*=}" > /proc/sys/kernel/hostname
done

read_only() { # DIRECTORY AT
    mkdir -p "$2"
    mount --rbind "$1" "$2"
    mount -o remount,bind,ro "$2"
}

mount -t tmpfs standin "$root"
for entry in /*; do
    name=$root$entry
    if [[ -L $entry ]]; then
        cp -P "$entry" "$name"
    elif [[ $entry == /etc ]]; then
        # A copy, because mount points are made in it.
        cp -a /etc "$name"
    elif [[ $entry =~ ^/(dev|proc|sys)$ ]]; then
        mkdir "$name"
        mount --rbind "$entry" "$name"
    # What is people's own, or another container's, is not seen.
    elif [[ -d $entry && ! $entry =~ ^/(tmp|run|root|home)$ ]]; then
        read_only "$entry" "$name"
    fi
done
mkdir -p "$root/run" "$root/tmp"
while read -r source target mode; do
    # /var/run is a link, which would lead out of the root from here.
    target=$root${target/#\/var\/run\//\/run\/}
    if [[ $mode == ro ]]; then
        read_only "$source" "$target"
    else
        mkdir -p "$target"
        mount --rbind "$source" "$target"
    fi
done < "$mounts"
# Last, because a volume at /tmp would hide a checkout that lies below it.
IFS=: read -ra keep <<< "${KEEP:-}"
for folder in "${keep[@]}"; do
    # The same folder, and not just one of its name that an earlier start left in the volume.
    [[ $root$folder -ef $folder ]] || read_only "$folder" "$root$folder"
done
mount -o remount,ro "$root"
exec chroot "$root" setpriv --reuid="$user" --regid="$group" --clear-groups --inh-caps=-all \
    --bounding-set=-all --no-new-privs env -i "${environment[@]}" "$@"
