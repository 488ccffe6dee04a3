#!/bin/bash
# user_systemd.sh COMMAND...: runs COMMAND under a real `systemd --user`, whatever PID 1 is.
#
# CHECKOUT is the directory of the code; COMMAND finds it at /mnt/checkout.
# As root only. Everything happens in private mount, network, process and control group namespaces: /run, /mnt and the
# home of the run (/mnt/home) are memory that is gone afterwards, so nothing outside is touched.
# Exit 99: the manager did not come up.
set -eu

if [ -z "${IN_NAMESPACES:-}" ]; then
    # The tree of version 2 control groups: alone, or beside version 1.
    tree=/sys/fs/cgroup
    [ -d $tree/unified ] && tree=$tree/unified
    group=$tree/memd-test-$$
    mkdir "$group"
    status=0
    # The shell enters the group before it makes the namespace in which that group is the root.
    IN_NAMESPACES=1 unshare --mount --net --pid --fork --kill-child --mount-proc --propagation private \
        bash -c 'echo $$ >"$1/cgroup.procs"; shift; exec unshare --cgroup bash "$@"' _ "$group" "$0" "$@" || status=$?
    for _ in $(seq 20); do
        find "$group" -depth -type d -exec rmdir {} + 2>/dev/null || true
        [ -d "$group" ] || break
        sleep 0.1
    done
    exit $status
fi

ip link set lo up  # No other run, and no memd of this machine, holds the ports here.
uid=$(id -u)
mount -t tmpfs -o mode=755 tmpfs /run
mount -t tmpfs -o mode=755 tmpfs /mnt
mkdir -p /mnt/home /mnt/checkout /run/user/"$uid" /run/log/journal
# The code under another name: a checkout below /tmp would be hidden from a service with a /tmp of its own.
mount --bind "$CHECKOUT" /mnt/checkout
# The first tells programs that systemd runs; the others are where it builds the view of a confined service.
mkdir -p /run/systemd/{system,unit-root,propagate,incoming}
chmod 700 /mnt/home /run/user/"$uid"
mount -t cgroup2 cgroup2 /sys/fs/cgroup
scope=/sys/fs/cgroup/user.slice/user-$uid.slice/user@$uid.service
mkdir -p "$scope"

export HOME=/mnt/home XDG_RUNTIME_DIR=/run/user/$uid DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/$uid/bus
unset XDG_CONFIG_HOME XDG_STATE_HOME XDG_DATA_HOME MEMD_HOME NOTIFY_SOCKET LISTEN_FDS IN_NAMESPACES

/lib/systemd/systemd-journald >/run/journald.log 2>&1 &
for _ in $(seq 3000); do
    [ -S /run/systemd/journal/stdout ] && break
    sleep 0.1
done
(echo $BASHPID >"$scope/cgroup.procs" && exec /lib/systemd/systemd --user) >/run/manager.log 2>&1 &
manager=$!
state=
for _ in $(seq 3000); do
    kill -0 $manager 2>/dev/null || break
    state=$(systemctl --user is-system-running 2>/dev/null || true)
    case $state in running | degraded) break ;; esac
    sleep 0.1
done
case $state in
running | degraded) ;;
*)
    cat /run/manager.log >&2
    exit 99
    ;;
esac

status=0
"$@" || status=$?
systemctl --user exit || true
exit $status
