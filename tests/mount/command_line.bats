#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# The options of the programs: --help, the manuals and the sources say the same, and shells complete them.

load support

PATH=$BUILD:$PATH

teardown() {
  stop_all
}

# The long options that a text is about, a line each, `=` behind those that take a value: in --help, those of the left column.
in_help() { # PROGRAM
  "$BUILD/$1" --help | sed -nE 's/^ +-/-/; T; s/  .*//; p' | grep -oE -- '--[a-z][a-z-]*=?' | sort -u
}

in_manual() { # PROGRAM
  awk '/^(\t|$)/ && before ~ /^\*-/ && start == "" { print before } { start = before; before = $0 }' "$REPOSITORY/man/$1.8.scd" |
    grep -oE -- '\*--[a-z][a-z-]*\*=?' | tr -d '*' | sort -u
}

# inboxfs has a row for each option, and so has getopt_long(3) for those of the other programs.
in_source() { # FILE
  {
    sed -nE 's/^ +(\[OPTION_[A-Z_]+\] = )?\{"([a-z-]+)", OPTION_([A-Z]+), (EVERYWHERE|ON_COMMAND_LINE),.*/--\2=\3/p' \
      "$REPOSITORY/src/$1" | sed 's/=FLAG$//; s/=.*/=/'
    grep -oE '\{"[a-z-]+", (required|no)_argument' "$REPOSITORY/src/$1" |
      sed -E 's/\{"([a-z-]+)", required_argument/--\1=/; s/\{"([a-z-]+)", no_argument/--\1/'
    grep -oE '\{"--(help|version)"' "$REPOSITORY/src/$1" | tr -d '{"'
  } | sort -u
}

@test "each option is in --help, in its manual and in the source, and nothing else is" {
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

@test "each option of one letter, and each mode, that inboxfs-sendmail takes is in --help and in its manual" {
  local in_help in_manual
  in_help=$("$BUILD/inboxfs-sendmail" --help | sed -nE 's/^ *-/-/; T; s/  .*//; p' | grep -owE -- '-[A-Za-z]{1,2}' | sort -u)
  in_manual=$(sed -nE '/^# OPTIONS/,/^# EXIT/s/^(\*-.*)/\1/p' "$REPOSITORY/man/inboxfs-sendmail.8.scd" |
    grep -oE '\*-[A-Za-z]{1,2}\*' | tr -d '*' | sort -u)
  [ "$(wc -l <<<"$in_help")" -ge 30 ]
  equal "$in_manual" "$in_help"
}

@test "each command of --help is completed in each shell" {
  local program word shell
  for program in inboxfs inboxd; do
    for word in $("$BUILD/$program" --help | sed -nE "s/^ +$program ([a-z]+)( .*)?/\\1/p" | sort -u); do
      for shell in bash zsh fish; do
        grep -q "^[^#]*\\<$word\\>" "$REPOSITORY/completions/inboxfs.$shell" || fail "$shell: $program $word"
      done
    done
  done
}

# The words on the shell's line after KEYS, with \t for the key TAB: the shell prints them itself by a function `words`, each
# quoted where it has to be. Control-A goes to the beginning of the line.
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

# Another user may choose it. The folder of the shell is where its commands would leave a file.
@test "a mount point whose name has commands is completed as it is, and no shell runs them" {
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
