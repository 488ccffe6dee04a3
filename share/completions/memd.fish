# fish completion for memd: asks memd itself, which knows commands, flags, workspaces, keys, agents and jobs.
function __memd_complete
    set -lx COMP_WORDS (commandline -cp | string collect)
    set -lx COMP_CWORD (count (commandline -opc))
    set -lx _MEMD_COMPLETE complete_bash
    memd 2>/dev/null
end
complete -c memd -a "(__memd_complete)"
