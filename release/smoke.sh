#!/bin/bash
# What every artifact must do where nothing of memd was before: release/try.sh runs it in an empty root, without a network.
# `memd` is on PATH, HOME is empty. The argument is the version.
set -euo pipefail
say() { printf '== %s\n' "$*"; }
# Greps all it is given: one that stops early would end the command before it.
has() { grep -- "$1" > /dev/null; }

say version; memd --version | has "memd $1"
mkdir -p ~/notes/memory; cd ~/notes
printf '# Memory\n\n## Kettle\n\nThe kettle whistles at nine.\n\n## Car\n\nMy automobile is blue.\n' > MEMORY.md
before=$(cat MEMORY.md)

say add; memd add . | has searchable
say word; memd query whistles | has MEMORY.md
say meaning; memd sync --vectors > /dev/null; memd query --mode vector "what colour is the vehicle" | has automobile
say note; memd note "The heron nests by the pond." > /dev/null; memd query heron | has memory/
say undo; memd undo > /dev/null; if memd query heron > /dev/null 2>&1; then echo "the note is still there"; exit 1; fi
say restart; memd restart | has running; memd query whistles | has MEMORY.md
say doctor; memd doctor > /dev/null
say mcp; python3 - <<'PY'
import json, os, subprocess
ask = {"jsonrpc": "2.0", "id": 1, "method": "initialize",
       "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "smoke", "version": "1"}}}
with subprocess.Popen(["memd", "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as bridge:
    bridge.stdin.write(json.dumps(ask) + "\n")
    bridge.stdin.flush()
    assert json.loads(bridge.stdout.readline())["result"]["serverInfo"]["name"] == "memd"
    bridge.stdin.close()
PY
say web; memd web --no-open --port 8499 > ~/web.out 2>&1 & web=$!
for _ in $(seq 300); do grep http ~/web.out > /dev/null 2>&1 && break; sleep 0.1; done
python3 -c 'import sys, urllib.request; assert b"memd" in urllib.request.urlopen(sys.argv[1]).read()' \
    "$(grep -o 'http://[^ ]*' ~/web.out | sed -n 1p)"
kill $web; wait $web 2> /dev/null || true; rm ~/web.out
say service files; memd service install --print | has ExecStart=
say leaves nothing but the notes; memd service uninstall --purge --yes > /dev/null
[ "$(cat MEMORY.md)" = "$before" ]; cd ~; rm -r notes
left=$(find . -mindepth 1 -not -name .config -not -name .local -not -path ./.local/state -not -path ./.local/share)
[ -z "$left" ] || { echo "left behind: $left"; exit 1; }
echo "smoke: passed"
