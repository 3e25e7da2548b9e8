#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# The options of the programs: --help, the manuals and the sources say the same, and shells complete them.

load support

PATH=$BUILD:$PATH

teardown() {
  stop_all
}

# Prints the long options in the left column of --help, one a line, with `=` after those that take a value.
in_help() { # PROGRAM
  "$BUILD/$1" --help | sed -nE 's/^ +-/-/; T; s/  .*//; p' | grep -oE -- '--[a-z][a-z-]*=?' | sort -u
}

in_manual() { # PROGRAM
  awk '/^(\t|$)/ && before ~ /^\*-/ && start == "" { print before } { start = before; before = $0 }' "$REPOSITORY/man/$1.8.scd" |
    grep -oE -- '\*--[a-z][a-z-]*\*=?' | tr -d '*' | sort -u
}

# The source has a row for each option: in a table of its own (inboxfs), or in that of getopt_long(3).
in_source() { # FILE
  {
    sed -nE 's/^ +(\[OPTION_[A-Z_]+\] = )?\{"([a-z-]+)", OPTION_([A-Z]+), (EVERYWHERE|ON_COMMAND_LINE),.*/--\2=\3/p' \
      "$REPOSITORY/src/$1" | sed 's/=FLAG$//; s/=.*/=/'
    grep -oE '\{"[a-z-]+", (required|no)_argument' "$REPOSITORY/src/$1" |
      sed -E 's/\{"([a-z-]+)", required_argument/--\1=/; s/\{"([a-z-]+)", no_argument/--\1/'
    grep -oE '\{"--(help|version)"' "$REPOSITORY/src/$1" | tr -d '{"'
  } | sort -u
}

@test "--help, the manual and the source of a program list the same options" {
  local program file
  while read -r program file; do
    [ "$(in_help "$program" | wc -l)" -ge 6 ]
    equal "$program: $(in_manual "$program")" "$program: $(in_help "$program")"
    equal "$program: $(in_source "$file")" "$program: $(in_help "$program")"
  done <<'TABLE'
inboxfs options.c
inboxd inboxd_main.c
inboxfs-sendmail sendmail/main.c
TABLE
}

@test "--help and the manual of inboxfs-sendmail list the same options of one or two letters" {
  local in_help in_manual
  in_help=$("$BUILD/inboxfs-sendmail" --help | sed -nE 's/^ *-/-/; T; s/  .*//; p' | grep -owE -- '-[A-Za-z]{1,2}' | sort -u)
  in_manual=$(sed -nE '/^# OPTIONS/,/^# EXIT/s/^(\*-.*)/\1/p' "$REPOSITORY/man/inboxfs-sendmail.8.scd" |
    grep -oE '\*-[A-Za-z]{1,2}\*' | tr -d '*' | sort -u)
  [ "$(wc -l <<<"$in_help")" -ge 30 ]
  equal "$in_manual" "$in_help"
}

@test "the completions of each shell have each command of --help" {
  local program word shell
  for program in inboxfs inboxd; do
    for word in $("$BUILD/$program" --help | sed -nE "s/^ +$program ([a-z]+)( .*)?/\\1/p" | sort -u); do
      for shell in bash zsh fish; do
        grep -q "^[^#]*\\<$word\\>" "$REPOSITORY/completions/inboxfs.$shell" || fail "$shell: $program $word"
      done
    done
  done
}

# Prints the words on the shell's line after KEYS, in which \t is the key TAB. SETUP defines the function `words`, which prints
# its arguments, quoted if necessary. Control-A goes to the beginning of the line.
typed() { # SHELL SETUP KEYS
  printf '%s\n'"$3"'\001words \nexit\n' "$2" |
    timeout 30 script -qec "$1" /dev/null | tr -d '\r' | sed -n 's/^-> \(.*\) $/\1/p' | tail -n 1
}
# shellcheck disable=SC2016 # for the shell that is tried
WORDS='words() { printf "%s " "->"; printf "%q " "$@"; echo; }'

bash_types() { # KEYS
  INPUTRC=/dev/null typed 'bash --norc -i' "bind 'set enable-bracketed-paste off'; $WORDS; source $REPOSITORY/completions/inboxfs.bash" "$1"
}

zsh_types() { # KEYS
  mkdir -p "$DIR/functions"
  cp "$REPOSITORY/completions/inboxfs.zsh" "$DIR/functions/_inboxfs"
  ZDOTDIR=$DIR typed 'zsh -f -i' "fpath=($DIR/functions \$fpath); autoload -U compinit; compinit -u -d $DIR/dump; PS1=; $WORDS" "$1"
}

fish_types() { # KEYS
  HOME=$DIR TERM=dumb typed "fish --no-config -C 'source $DIR/setup.fish'" true "$1"
}

fish_offers() { # LINE
  fish --no-config -c "source $REPOSITORY/completions/inboxfs.fish; complete -C '$1'"
}

@test "bash completes options, their values and commands" {
  mkdir "$DIR/state-of-alice"
  cd "$DIR"
  equal "$(bash_types 'inboxfs --poll\t5')" 'inboxfs --poll-interval=5'
  equal "$(bash_types 'inboxfs --adopt\tlocal')" 'inboxfs --adopt-state local'
  equal "$(bash_types 'inboxfs --state-dir=state-of\tx')" 'inboxfs --state-dir=state-of-alice/x'
  equal "$(bash_types 'inboxfs --daily-limit=fr\tx')" 'inboxfs --daily-limit=free x'
  equal "$(bash_types 'inboxfs ch\t--metadata\tx')" 'inboxfs check --metadata-only x'
  equal "$(bash_types 'inboxfs status --j\tx')" 'inboxfs status --json x'
  equal "$(bash_types 'inboxfs local state\tx')" 'inboxfs local state-of-alice/x'
  equal "$(bash_types 'inboxd ke\tre\tx')" 'inboxd key revoke x'
  equal "$(bash_types 'inboxd --li\tx')" 'inboxd --listen=x'
  equal "$(bash_types 'inboxfs-sendmail --wa\tx')" 'inboxfs-sendmail --wait x'
}

@test "zsh and fish complete options and commands" {
  needs zsh fish
  equal "$(fish_offers 'inboxfs --po')" '--poll-interval='
  equal "$(fish_offers 'inboxd k')" key
  equal "$(zsh_types 'inboxfs --poll\t5')" 'inboxfs --poll-interval=5'
  equal "$(zsh_types 'inboxd de\tx')" 'inboxd deliver x'
}

# Another user may have chosen the mount point. Commands in its name would make a file in the shell's folder.
@test "a shell completes a mount point with shell commands in its name without running them" {
  needs zsh fish
  local keys words
  cd "$DIR"
  # shellcheck disable=SC2016 # fish expands these
  printf '%s\n' "source '$REPOSITORY/completions/inboxfs.fish'" 'function words' \
    'echo "->" (string join " " -- (string escape -- $argv))" "' end >setup.fish
  # shellcheck disable=SC2034 # start_mount uses it
  SERVICE_URL=local:$SERVICE
  # shellcheck disable=SC2016 # part of the name
  for MOUNT in "$DIR/"'m$(id>pwned)' "$DIR/"$'n `id>pwned` \'"\\040;#&*\n%s$HOME'; do
    start_mount
    keys="inboxfs status ${MOUNT:0:${#DIR}+2}\t"
    printf -v words 'inboxfs status %q' "$MOUNT/"
    equal "bash: $(bash_types "$keys")" "bash: $words"
    # shellcheck disable=SC2016 # each shell quotes in a way of its own; zsh takes the slash away again
    words=$(zsh -f -c 'printf "%q %q %q" "$@"' - inboxfs status "$MOUNT")
    equal "zsh: $(zsh_types "$keys")" "zsh: $words"
    # shellcheck disable=SC2016
    words=$(fish --no-config -c 'string escape -- $argv' inboxfs status "$MOUNT/" | paste -sd' ')
    equal "fish: $(fish_types "$keys")" "fish: $words"
    missing "$DIR/pwned"
    stop_mount
  done
}
