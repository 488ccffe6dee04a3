#!/usr/bin/env bash
# A tour of memd on a copy of the example notes: ask, edit, ask again. Leaves nothing running.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
trial=$(mktemp -d "${TMPDIR:-/tmp}/memd-demo.XXXXXX")
export MEMD_HOME=$trial/home
trap 'memd stop >/dev/null 2>&1 || true; rm -rf "$trial"' EXIT
cp -r "$here/workspace" "$trial/agent"
cd "$trial/agent"

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
show() { printf '\033[2m$ %s\033[0m\n' "$*"; "$@"; }

say "1. Add the notes: text is searchable at once, meaning follows in the background."
show memd add . --ns pikamini
memd sync --vectors >/dev/null

say "2. Find a note by a word it has."
show memd query --limit 2 ErsatzTV

say "3. Find it by meaning: that note speaks of a lineup of animated shows on weekend mornings."
show memd query --limit 2 television for Tilda and Otto on weekend mornings

say "4. Edit a note, as any editor would, and ask a moment later."
printf '\n## Aquarium\n\nThe axolotl is called Gulliver and eats on Tuesdays.\n' >>memory/2026-02-15.md
show memd query --limit 1 axolotl

say "5. What the daemon is doing."
show memd status

say "6. Stop it."
show memd stop
