#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# The options of the programs: --help, the manuals and the sources say the same, and shells complete them.

load support

PATH=$BUILD:$PATH

# The long options that a text is about, a line each, `=` behind those that take a value.
in_help() { # PROGRAM
  "$BUILD/$1" --help | sed -n 's/^  //p' | grep -oE -- '--[a-z][a-z-]*=?' | sort -u
}

in_manual() { # PROGRAM
  awk '/^(\t|$)/ && before ~ /^\*-/ && start == "" { print before } { start = before; before = $0 }' "$REPOSITORY/man/$1.8.scd" |
    grep -oE -- '\*--[a-z][a-z-]*\*=?' | tr -d '*' | sort -u
}

# inboxfs has a row for each option; what getopt_long(3) is given has one, too.
in_source() { # FILE
  {
    awk 'match($0, /\.name = "[a-z-]+"/) {
        name = substr($0, RSTART + 9, RLENGTH - 10); value = "="; command_line = 0 }
      /OPTION_FLAG[,}]/ { value = "" }
      /\.places = (EVERYWHERE|ON_COMMAND_LINE)/ { command_line = 1 }
      /}/ && name != "" { if (command_line) print "--" name value; name = "" }' "$REPOSITORY/src/$1"
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
inboxfs-sendmail sendmail_main.c
TABLE
}

# What stands on the shell's line after KEYS, with \t for the key TAB: the shell prints the line itself. Control-A goes to
# its beginning.
typed() { # SHELL SETUP KEYS
  printf '%s\n'"$3"'\001echo "->" \nexit\n' "$2" |
    timeout 30 script -qec "$1" /dev/null | tr -d '\r' | sed -n 's/^-> //p' | tail -n 1
}

bash_types() { # KEYS
  INPUTRC=/dev/null typed 'bash --norc -i' "bind 'set enable-bracketed-paste off'; source $REPOSITORY/completions/inboxfs.bash" "$1"
}

@test "bash completes options, their values and commands" {
  mkdir "$DIR/state-of-alice"
  cd "$DIR"
  equal "$(bash_types 'inboxfs --poll\t5')" 'inboxfs --poll-interval=5'
  equal "$(bash_types 'inboxfs --adopt\tlocal')" 'inboxfs --adopt-state local'
  equal "$(bash_types 'inboxfs --state-dir=state-of\tx')" 'inboxfs --state-dir=state-of-alice/x'
  equal "$(bash_types 'inboxfs --daily-limit=fr\tx')" 'inboxfs --daily-limit=free x'
  equal "$(bash_types 'inboxfs ch\t--metadata\tx')" 'inboxfs check --metadata-only x'
  equal "$(bash_types 'inboxfs local state\tx')" 'inboxfs local state-of-alice/x'
  equal "$(bash_types 'inboxd ke\tre\tx')" 'inboxd key revoke x'
  equal "$(bash_types 'inboxd --li\tx')" 'inboxd --listen=x'
  equal "$(bash_types 'inboxfs-sendmail --wa\tx')" 'inboxfs-sendmail --wait x'
}

@test "zsh and fish complete options and commands" {
  run -0 fish --no-config -c "source $REPOSITORY/completions/inboxfs.fish; complete -C 'inboxfs --po'; complete -C 'inboxd k'"
  equal "$output" $'--poll-interval=\nkey'
  mkdir "$DIR/functions"
  cp "$REPOSITORY/completions/inboxfs.zsh" "$DIR/functions/_inboxfs"
  export ZDOTDIR=$DIR
  zsh_types() {
    typed 'zsh -f -i' "fpath=($DIR/functions \$fpath); autoload -U compinit; compinit -u -d $DIR/dump; PS1=; unsetopt zle_bracketed_paste" "$1"
  }
  equal "$(zsh_types 'inboxfs --poll\t5')" 'inboxfs --poll-interval=5'
  equal "$(zsh_types 'inboxd de\tx')" 'inboxd deliver x'
}
