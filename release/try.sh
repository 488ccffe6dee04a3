#!/bin/bash
# Installs artifacts where nothing of memd was before, without a network, and runs release/smoke.sh as an ordinary user.
#
# release/try.sh 12|13 ARTIFACT…   a Debian of its own for each artifact, from debootstrap; needs root
# Without an artifact it only makes the Debian.
# A package is purged afterwards, and no file of it may be left. Wheels for the others come from build/wheels-PYTHON.
set -euo pipefail
[ "$(id -u)" = 0 ] || exec sudo "$0" "$@"
cd "$(dirname "$0")/.."
declare -A suites=([12]=bookworm [13]=trixie) pythons=([12]=3.11 [13]=3.13)
debian=$1; shift
suite=${suites[$debian]} python=${pythons[$debian]}
base=build/root-$suite
mkdir -p build

if [ ! -e "$base/ready" ]; then
    rm -rf "$base"
    debootstrap --variant=minbase --include=python3,python3-venv "$suite" "$base" > build/debootstrap-"$suite".log
    touch "$base/ready"
fi

inside() {   # a command in the root, with processes and a network of its own: nothing but the loopback
    unshare --mount --pid --net --fork --kill-child bash -c '
        mount -t proc proc "$0/proc"; mount --bind /dev "$0/dev"
        ip link set lo up
        exec chroot "$0" env -i PATH=/opt/memd/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"
    ' "$root" "$@"
}
files() { (cd "$root" && find . -xdev -not -path './proc/*' -not -path './var/lib/dpkg/*' -not -path './var/log/*' \
    -not -path './var/cache/*' -not -path './tmp/*' | sort); }

for artifact in "$@"; do
    root=$(mktemp -d -p build root-XXXXXX)
    trap 'rm -rf "$root"' EXIT
    cp -a "$base/." "$root"
    chmod 755 "$root"
    install -d -o 1000 -g 1000 -m 700 "$root/home/tester"
    cp "$artifact" release/smoke.sh "$root/tmp/"
    name=$(basename "$artifact")
    version=$(sed -E 's/^memd(_daemon)?[-_]([0-9.]+[0-9]).*/\2/' <<< "$name")
    files > build/before
    case $name in
    *.deb) inside dpkg --install "/tmp/$name" ;;
    *)
        cp -rL "build/wheels-$python" "$root/wheels"
        inside python3 -m venv /opt/memd
        inside /opt/memd/bin/pip install --quiet --no-index --find-links /wheels "/tmp/$name" ;;
    esac
    echo "$name on Debian $debian: $(du -sm "$root/usr/lib/memd" "$root/opt/memd" 2> /dev/null | cut -f1) MB"
    inside setpriv --reuid=1000 --regid=1000 --clear-groups env HOME=/home/tester bash /tmp/smoke.sh "$version"
    if [[ $name == *.deb ]]; then
        inside bash -c 'test -s /usr/share/man/man1/memd.1.gz && test -s /usr/share/bash-completion/completions/memd'
        inside dpkg --purge memd
        rm -rf "$root"/home/tester/.[cl]*
        files | diff build/before - || { echo "the package left these files behind"; exit 1; }
    fi
    rm -rf "$root"
done
