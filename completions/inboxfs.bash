# shellcheck shell=bash
# SPDX-License-Identifier: MIT
#
# Completion in bash for inboxfs, inboxd and inboxfs-sendmail. Their options are read from --help, so that there is
# nothing to keep in step.
#
# Other users choose the names of mount points. `compgen -W` would expand them, and run the commands in them; here each
# candidate is compared as it is, and bash quotes what it puts on the line (-o filenames).

_inboxfs_options() # PROGRAM
{
    "$1" --help 2>/dev/null | sed -n 's/^  //p' | grep -oE -- ' *--[a-z][a-z-]+=?' | tr -d ' ' | sort -u
}

# Adds the candidates that begin with the word, as it was typed or without its backslashes.
_inboxfs_offer() # WORD CANDIDATE...
{
    local word=$1 candidate quoted
    shift
    for candidate; do
        printf -v quoted %q "$candidate"
        if [[ $candidate = "$word"* || $quoted = "$word"* ]]; then
            COMPREPLY+=("$candidate")
        fi
    done
}

# The kernel writes blanks, line ends, # and backslashes of a mount point as \ooo.
_inboxfs_offer_mounts() # WORD
{
    local mount rest
    while read -r _ _ _ _ mount rest; do
        [[ $rest = *' - fuse.inboxfs '* ]] || continue
        mount=${mount//'\040'/ }
        mount=${mount//'\011'/$'\t'}
        mount=${mount//'\012'/$'\n'}
        mount=${mount//'\043'/'#'}
        _inboxfs_offer "$1" "${mount//'\134'/\\}"
    done </proc/self/mountinfo
}

# What may stand before the first argument that is no option.
_inboxfs_offer_words() # PROGRAM WORD
{
    case ${1##*/}:${COMP_WORDS[1]} in
    inboxfs:status | inboxfs:umount) _inboxfs_offer_mounts "$2" ;;
    inboxd:key) _inboxfs_offer "$2" add list revoke ;;
    esac
    [ "$COMP_CWORD" -eq 1 ] || return 0
    case ${1##*/} in
    inboxfs) _inboxfs_offer "$2" check status umount local ;;
    inboxd) _inboxfs_offer "$2" key deliver backup ;;
    esac
}

# bash calls it with the program, the word, and the word before. `=` is a word of its own.
_inboxfs()
{
    local word=$2 option=$3 options
    COMPREPLY=()
    if [ "$word" = = ]; then
        word=
    elif [ "$option" = = ]; then
        option=${COMP_WORDS[COMP_CWORD - 2]}
    else
        option=
    fi
    case $option in
    --state-dir | --data | --mount) compopt -o filenames -o plusdirs ;;
    --daily-limit | --tier) _inboxfs_offer "$word" free paid none ;;
    --*) compopt -o filenames -o default ;;
    *)
        if [[ $word = -* ]]; then
            options=(--json)
            [ "${COMP_WORDS[1]}" = status ] || mapfile -t options < <(_inboxfs_options "$1")
            _inboxfs_offer "$word" "${options[@]}"
            [[ ${COMPREPLY[0]-} != *= ]] || compopt -o nospace
        else
            compopt -o filenames -o plusdirs
            _inboxfs_offer_words "$1" "$word"
        fi
        ;;
    esac
}

complete -F _inboxfs inboxfs inboxd inboxfs-sendmail
