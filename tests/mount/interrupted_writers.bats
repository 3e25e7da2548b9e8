#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# Writers that are killed, fail, or run out of space. Half a message is never sent.

load support

setup() {
  start_two_inboxes
}

teardown() {
  stop_all
  if [ -d "$DIR/small" ] && mountpoint -q "$DIR/small"; then
    umount "$DIR/small"
  fi
}

interrupted() { # NAME
  wait_failed "$1"
  holds "$MOUNT/failed/$1.receipt.json" '.error | test("interrupted")'
  unlisted "$MOUNT/outbox/$1"
  missing "$MOUNT/sent/$1"
}

# ---------------------------------------------------------------- writers that die

@test "a writer killed by a signal is interrupted, and its text is kept in failed/" {
  run bash -c 'exec 7> "$1"; printf "%s" "$2" >&7; kill -KILL $$' - "$MOUNT/outbox/killed" "$(message "$BOB" killed)"
  interrupted killed
  cmp "$MOUNT/failed/killed" <(printf '%s' "$(message "$BOB" killed)")
  has_received "$BOB" killed 0
}

@test "a writer ended by SIGTERM, SIGINT, SIGHUP or SIGPIPE is interrupted" {
  local signal
  for signal in TERM INT HUP PIPE; do
    run dash -c 'exec 7> "$1"; printf "%s" "$2" >&7; kill -'$signal' $$' - "$MOUNT/outbox/$signal" "$(message "$BOB" "$signal")"
    interrupted "$signal"
  done
}

@test "a writer that exits with an error without closing is interrupted" {
  run dash -c 'exec 7> "$1"; echo "$2" >&7; exit 3' - "$MOUNT/outbox/error" "$(message "$BOB" error)"
  equal "$status" 3
  interrupted error
}

# ---------------------------------------------------------------- who only started the writer

# Runs COMMAND with the arguments outbox/NAME, a file that holds the message NAME, and a fifo. SIGPIPE does what it does
# at a terminal, whatever the tests were started with.
script() # NAME COMMAND...
{
  message "$BOB" "$1" >"$DIR/$1.eml"
  [ -p "$DIR/fifo" ] || mkfifo "$DIR/fifo"
  run env --default-signal=PIPE "${@:2}" "$MOUNT/outbox/$1" "$DIR/$1.eml" "$DIR/fifo"
}

@test "a script that fails while it holds the file that its programs wrote is interrupted" {
  script subshell dash -c '(cat "$1"; exit 3) > "$0"'
  interrupted subshell
  script descriptor dash -c 'exec 7> "$0"; cat "$1" >&7; exit 3'
  interrupted descriptor
  cmp "$MOUNT/failed/descriptor" "$DIR/descriptor.eml"
  script errexit bash -c 'exec bash -ec "cat \"\$0\"; false; echo rest" "$1" > "$0"'
  interrupted errexit
  script unreadable bash -c 'exec bash -ec "cat \"\$0\"; cat /nowhere; echo rest" "$1" > "$0"'
  interrupted unreadable
  script pipefail bash -c 'exec bash -o pipefail -ec "false | cat \"\$0\"; :" "$1" > "$0"'
  interrupted pipefail
  script xargs bash -ec '(printf "%s\n" "$1" /nowhere | xargs -n1 cat; :) > "$0"'
  interrupted xargs
}

@test "a program that hands its descriptor to another one and fails is interrupted" {
  script python python3 -c '
import os, subprocess, sys
file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
subprocess.run(["cat", sys.argv[2]], stdout=file, check=True)
sys.exit(2)'
  equal "$status" 2
  interrupted python
}

@test "a script that is killed while it holds the file that its programs wrote is interrupted" {
  local signal
  for signal in KILL TERM PIPE; do
    script "$signal" dash -c 'exec 7> "$0"; cat "$1" >&7; kill -'$signal' $$'
    interrupted "$signal"
  done
}

@test "a program killed as by Ctrl-C interrupts its file, although the script continues" {
  local signal
  for signal in INT KILL; do
    script "$signal" dash -c 'exec 7> "$0"; cat "$1" >&7; dash -c "kill -'$signal' \$\$"; echo end >&7'
    interrupted "$signal"
  done
}

@test "a program that fails without having written interrupts nothing while another one holds the file" {
  script first dash -c 'exec 7> "$0"; dash -c "exit 3"; cat "$1" >&7; dash -c "exit 3"; :'
  went_out first first
  # The script fails; what it left in the background holds the file, and ends well.
  script behind dash -c '(cat "$1"; (read line <"$2"; :) 2>/dev/null & exit 3) > "$0"'
  equal "$status" 3
  present "$MOUNT/outbox/behind"
  has_received "$BOB" behind 0
  echo go >"$DIR/fifo"
  went_out behind behind
  # The other way round.
  script failing dash -c '(cat "$1"; (read line <"$2"; exit 3) 2>/dev/null &) > "$0"'
  equal "$status" 0
  echo go >"$DIR/fifo"
  interrupted failing
}

@test "SIGPIPE of a program interrupts a file that it wrote, and not one that is only its stderr" {
  script held bash -c '(cat "$1"; yes | head -n1 >/dev/null) > "$0" 2>&1'
  went_out held held
  script wrote bash -c '(cat "$1"; dash -c "echo more >&2; while :; do echo; done" | head -n1 >/dev/null) > "$0" 2>&1'
  interrupted wrote
  equal "$(tail -n1 "$MOUNT/failed/wrote")" more
}

@test "scripts that succeed send the whole file when the last holder ends" {
  script pipeline bash -o pipefail -ec '(cat "$1" | tee /dev/stderr 2>/dev/null; printf "one\ntwo\n" | xargs -n1 echo) > "$0"'
  went_out pipeline pipeline $'Hello.\none\ntwo'
  script background dash -c '(cat "$1"; (read line <"$2"; echo "$line") 2>/dev/null &) > "$0"'
  present "$MOUNT/outbox/background"
  has_received "$BOB" background 0
  echo "from behind" >"$DIR/fifo"
  went_out background background $'Hello.\nfrom behind'
}

@test "a program that closes the file by executing another one is not an interrupted writer" {
  message "$BOB" becomes >"$DIR/becomes.eml"
  run timeout -k 1 20 python3 -c '
import os, sys
with open(sys.argv[1], "rb") as file:
    message = file.read()
fd = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT)  # closed by the next call
os.write(fd, message)
os.execv("/bin/sh", ["sh", "-c", "exit 3"])' "$DIR/becomes.eml" "$MOUNT/outbox/becomes"
  equal "$status" 3
  wait_sent becomes
  has_received "$BOB" becomes 1
  message "$BOB" starts >"$DIR/starts.eml"
  timeout -k 1 20 perl -e '
use IO::Handle;
open(my $in, "<", $ARGV[0]) or die; open(my $out, ">", $ARGV[1]) or die;
print {$out} <$in>; $out->flush; system("true") == 0 or die; print {$out} "The end.\n"; close($out) or die' \
    "$DIR/starts.eml" "$MOUNT/outbox/starts"
  wait_sent starts
  has_received "$BOB" starts 1
  cmp "$MOUNT/sent/starts" <(message "$BOB" starts; echo "The end.")
}

@test "a program that wrote through a mapping and fails interrupts the file, whoever holds it then" {
  message "$BOB" mapped >"$DIR/mapped.eml"
  local how
  for how in well 'failing' killed; do
    exec 7>"$MOUNT/outbox/$how"
    run python3 -c '
import mmap, os, sys
text = open(sys.argv[2], "rb").read()
file = os.open(sys.argv[1], os.O_RDWR)
os.ftruncate(file, len(text))
mmap.mmap(file, len(text))[:] = text
if sys.argv[3] == "killed":
    os.kill(os.getpid(), 9)
os._exit(3 if sys.argv[3] == "failing" else 0)' "$MOUNT/outbox/$how" "$DIR/mapped.eml" "$how"
    exec 7>&-
  done
  wait_sent well
  interrupted failing
  interrupted killed
  has_received "$BOB" mapped
}

# ---------------------------------------------------------------- several writers

@test "a killed writer interrupts the file, although another holder ends later" {
  exec 8>"$MOUNT/outbox/both"
  run bash -c 'printf "%s" "$1" >&8; kill -KILL $$' - "$(message "$BOB" both)"
  exec 8>&-
  interrupted both
}

@test "an error of one of two writers interrupts the file, whether it is the first or the last" {
  run dash -c 'exec 7> "$1"; dash -c "echo one >&7; exit 3"; dash -c "echo two >&7"' - "$MOUNT/outbox/first"
  interrupted first
  equal "$(cat "$MOUNT/failed/first")" "one"$'\n'"two"
  run dash -c 'exec 7> "$1"; echo "$2" >&7; dash -c "echo more >&7; exit 3"' - \
    "$MOUNT/outbox/last" "$(message "$BOB" last)"
  interrupted last
}

# Each of them reads what it writes from a pipe; the first has written when the second one opens the file.
@test "two programs that open one file and write to it interrupt it, with O_TRUNC or without" {
  local mode
  for mode in w r+ a; do
    mkfifo "$DIR/one"
    cat "$DIR/one" >"$MOUNT/outbox/two-$mode" 3>&- &
    local one=$!
    exec 8>"$DIR/one"
    message "$BOB" "one $mode" >&8
    wait_until 20 test -s "$MOUNT/outbox/two-$mode"
    python3 -c '
import sys
with open(sys.argv[1], sys.argv[2]) as file:
    file.write(sys.argv[3])
' "$MOUNT/outbox/two-$mode" "$mode" "$(message "$BOB" "other $mode")"
    exec 8>&-
    wait "$one"
    interrupted "two-$mode"
    holds "$MOUNT/failed/two-$mode.receipt.json" '.error | contains("two programs")'
    rm "$DIR/one"
  done
  equal "$(ls -A "$MOUNT/sent")" ""
}

@test "a killed writer of another user, who was handed the open file, interrupts it; else it is sent" {
  [ "$(id -u)" -eq 0 ] || skip "needs root"
  local as=(setpriv --reuid=65534 --regid=65534 --clear-groups dash -c)
  exec 7>"$MOUNT/outbox/other"
  run "${as[@]}" 'echo "$1" >&7; kill -KILL $$' - "$(message "$BOB" other)"
  exec 7>&-
  interrupted other
  exec 7>"$MOUNT/outbox/error"
  run "${as[@]}" 'echo "$1" >&7; exit 3' - "$(message "$BOB" error)"
  exec 7>&-
  interrupted error
  exec 7>"$MOUNT/outbox/well"
  "${as[@]}" 'echo "$1" >&7' - "$(message "$BOB" well)"
  exec 7>&-
  went_out well well
}

@test "a killed cp is interrupted" {
  mkfifo "$DIR/slow"
  cp "$DIR/slow" "$MOUNT/outbox/slow" 3>&- &
  local pid=$!
  exec 8>"$DIR/slow"
  message "$BOB" slow >&8
  wait_until 5 test -e "$MOUNT/outbox/slow"
  kill -KILL "$pid"
  wait "$pid" || true
  exec 8>&-
  # Nothing written yet is an empty file, and never sent either.
  wait_until 20 test -e "$MOUNT/failed/slow.receipt.json" -o ! -s "$MOUNT/outbox/slow"
  missing "$MOUNT/sent/slow"
  has_received "$BOB" slow 0
}

@test "an interrupted message can be moved back, and is sent" {
  run bash -c 'exec 7> "$1"; printf "%s\n" "$2" >&7; kill -KILL $$' - "$MOUNT/outbox/again" "$(message "$BOB" again)"
  interrupted again
  mv "$MOUNT/failed/again" "$MOUNT/outbox/again"
  went_out again again
  missing "$MOUNT/failed/again" "$MOUNT/failed/again.receipt.json"
}

# ---------------------------------------------------------------- a full disk

@test "on a full disk the write fails, and half a message is never sent" {
  [ "$(id -u)" -eq 0 ] || skip "needs root"
  stop_mount
  mkdir -p "$DIR/small"
  mount -t tmpfs -o size=3m,mode=700 none "$DIR/small"
  export STATE=$DIR/small/state
  start_mount
  message "$BOB" "queued before" >"$MOUNT/outbox/before"
  wait_sent before
  run bash -c '{ printf "From: %s\nTo: %s\nSubject: full\n\n" "$1" "$2"; head -c 8000000 /dev/zero | tr "\0" x; } > "$3"' - \
    "$ALICE" "$BOB" "$MOUNT/outbox/full"
  local wrote=$status
  syscall fsync "$MOUNT/outbox" || true
  has_received "$BOB" full 0
  missing "$MOUNT/sent/full"
  rm -f "$MOUNT/outbox/full" "$MOUNT/failed/full"
  message "$BOB" "room again" >"$MOUNT/outbox/again"
  wait_sent again
  [ "$wrote" -ne 0 ]
}

# ---------------------------------------------------------------- other pid namespaces

# Runs in the mount namespace of the daemon that is being started, and in this test's pid namespace.
beside() { # COMMAND...
  nsenter --mount --target "$(pgrep -P "$MOUNT_PID" | head -n 1)" "$@"
}

@test "for a writer of another pid namespace the start, status and an event warn, and mv is certain" {
  [ "$(id -u)" = 0 ] || skip "only root can have a pid namespace"
  stop_mount
  hide_other_mounts
  "${AMONG_OWN_MOUNTS[@]}" unshare --pid --fork --kill-child --mount-proc "$INBOXFS" -f --api-key-file="$KEY_FILE" --state-dir="$STATE" "$SERVICE_URL" "$MOUNT" \
    >>"$MOUNT_LOG" 2>&1 3>&- {PAUSE}>&- &
  MOUNT_PID=$!
  wait_until 30 beside test -e "$MOUNT/status.json"
  contains "$(<"$MOUNT_LOG")" "in a pid namespace of its own"
  message "$BOB" "half" >"$DIR/half"
  message "$BOB" "moved" | beside tee "$MOUNT/drafts/moved" >/dev/null
  beside mv "$MOUNT/drafts/moved" "$MOUNT/outbox/"
  # shellcheck disable=SC2016 # for the inner shell
  beside bash -c 'exec >"$1"; cat "$2"; kill -KILL $$' - "$MOUNT/outbox/half" "$DIR/half" || true
  wait_until 20 beside grep -q '"event":"unseen","path":"outbox/half"' "$MOUNT/events.jsonl"
  run ! beside grep '"unseen".*moved' "$MOUNT/events.jsonl"
  beside cat "$MOUNT/status.json" >"$DIR/status"
  holds "$DIR/status" '.queue.unseen_writers | startswith("in a pid namespace of its own")'
  contains "$(beside "$INBOXFS" status "$MOUNT")" "in a pid namespace of its own"
  kill -TERM "$(pgrep -P "$MOUNT_PID" | head -n 1)"
  wait_until 20 process_is_gone "$MOUNT_PID"
  wait "$MOUNT_PID" || true
  MOUNT_PID=
}

@test "the /proc of another pid namespace is not taken for the daemon's own" {
  [ "$(id -u)" = 0 ] || skip "only root can have a pid namespace"
  stop_mount
  unshare --pid --fork --kill-child "$INBOXFS" -f --api-key-file="$KEY_FILE" --state-dir="$STATE" "$SERVICE_URL" "$MOUNT" \
    >>"$MOUNT_LOG" 2>&1 3>&- {PAUSE}>&- &
  MOUNT_PID=$!
  wait_until 30 mount_answers
  contains "$(<"$MOUNT_LOG")" "/proc is not of this program's pid namespace"
  message "$BOB" "whole" >"$MOUNT/outbox/whole"
  wait_until 20 has_event '.event == "unseen" and .path == "outbox/whole"'
}
