# bash completion for memd: asks memd itself, which knows commands, flags, workspaces, keys, agents and jobs.
_memd() {
    local IFS=$'\n'
    COMPREPLY=($(COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD="$COMP_CWORD" _MEMD_COMPLETE=complete_bash "$1" 2>/dev/null))
}
complete -o default -F _memd memd
