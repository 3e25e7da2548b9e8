# shellcheck shell=bash
# SPDX-License-Identifier: MIT
#
# Completion in bash for inboxfs, inboxd and inboxfs-sendmail. Their options are read from --help, so that there is
# nothing to keep in step.

_inboxfs_options() # PROGRAM
{
    "$1" --help 2>/dev/null | sed -n 's/^  //p' | grep -oE -- ' *--[a-z][a-z-]+=?' | tr -d ' ' | sort -u
}

_inboxfs_mounts()
{
    awk '{ for (i = 7; $i != "-"; i++); if ($(i + 1) == "fuse.inboxfs") print $5 }' /proc/self/mountinfo
}

# What may stand before the first argument that is no option: $1 the program, $2 its first word.
_inboxfs_words()
{
    case ${1##*/}:$2 in
    inboxfs:status) _inboxfs_mounts ;;
    inboxd:key) printf '%s\n' add list revoke ;;
    esac
    [ "$COMP_CWORD" -eq 1 ] || return 0
    case ${1##*/} in
    inboxfs) printf '%s\n' check status local ;;
    inboxd) printf '%s\n' key deliver ;;
    esac
}

# bash calls it with the program, the word, and the word before. `=` is a word of its own.
_inboxfs()
{
    local word=$2 option=$3
    if [ "$word" = = ]; then
        word=
    elif [ "$option" = = ]; then
        option=${COMP_WORDS[COMP_CWORD - 2]}
    else
        option=
    fi
    case $option in
    --state-dir | --data | --mount)
        compopt -o filenames
        mapfile -t COMPREPLY < <(compgen -d -- "$word")
        ;;
    --daily-limit | --tier) mapfile -t COMPREPLY < <(compgen -W 'free paid none' -- "$word") ;;
    --*)
        compopt -o filenames
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        ;;
    *)
        if [[ $word = -* ]]; then
            mapfile -t COMPREPLY < <(compgen -W "$(_inboxfs_options "$1")" -- "$word")
            [[ ${COMPREPLY[0]-} != *= ]] || compopt -o nospace
        else
            compopt -o filenames
            mapfile -t COMPREPLY < <(compgen -W "$(_inboxfs_words "$1" "${COMP_WORDS[1]}")" -- "$word"; compgen -d -- "$word")
        fi
        ;;
    esac
}

complete -F _inboxfs inboxfs inboxd inboxfs-sendmail
