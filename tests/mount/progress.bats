#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# The progress line on the terminal that `inboxfs -f` was started on.

load support
load scripted

setup() {
  export TERM=xterm
  SCREEN=$DIR/screen
}

teardown() {
  stop_all
}

# Starts the mount on a terminal of its own. $SCREEN gets all output to the terminal.
start_on_terminal() # COLUMNS [MORE OF THE COMMAND]
{
  mkdir -p "$MOUNT"
  script -qefc "stty cols $1; exec '$INBOXFS' -f --api-key-file='$KEY_FILE' --state-dir='$STATE' --poll-interval=0 \
    '$SERVICE_URL' '$MOUNT' ${2:-}" "$SCREEN" </dev/null >/dev/null 2>&1 3>&- {PAUSE}>&- &
  # shellcheck disable=SC2034 # support.bash uses it
  MOUNT_PID=$!
  wait_until 30 mount_answers_or_ended
  mount_answers || fail "inboxfs ended:" "$(cat "$SCREEN")"
}

# Prints all texts that the progress line has had, one below the other.
shown() {
  tr '\r' '\n' <"$SCREEN" | sed -n 's/^\x1b\[Kinboxfs: //p'
}

has_shown() # LINE
{
  shown | grep -qxF -- "$1"
}

# Returns 0 if the last output wiped the progress line.
is_wiped() {
  [ "$(tail -c 4 "$SCREEN")" = $'\r\x1b[K' ]
}

hand_in() # COUNT
{
  local i
  for ((i = 1; i <= $1; i++)); do
    message "$BOB" "number $i" >"$MOUNT/outbox/m$i"
  done
}

has_shown_more() # TEXTS
{
  [ "$(shown | wc -l)" -gt "$1" ]
}

@test "the terminal shows the number of waiting messages and files until none is left" {
  start_service
  create_inboxes "$ALICE" "$BOB"
  start_on_terminal 80
  freeze_service
  hand_in 30
  wait_until 20 has_shown '30 messages to send'
  echo data >"$MOUNT/attachments/a.txt"
  wait_until 20 has_shown '1 file to upload, 30 messages to send'
  run ! is_wiped

  kill -CONT "$SERVICE_PID"
  wait_until 30 is_wiped
  holds "$MOUNT/status.json" '.queue.queued == 0 and .queue.uploading == 0 and .queue.sent == 30'
  # The number of waiting messages does not grow after 30.
  shown | sed -n 's/.*\b\([0-9]*\) messages* to send.*/\1/p' | awk 'NR > 1 && $1 > last && last < 30 {exit 1} {last = $1}'
}

@test "a line of the log replaces the progress line, which continues below it" {
  local hook before
  start_service
  create_inboxes "$ALICE" "$BOB"
  (umask 077 && echo secret >"$DIR/secret")
  start_on_terminal 80 "--webhook-listen=127.0.0.1:0 --webhook-secret-file='$DIR/secret'"
  hook=http://$(sed -n 's/.*webhooks are taken at //p' "$SCREEN" | tr -d '\r')/
  freeze_service
  hand_in 2
  wait_until 20 has_shown '2 messages to send'
  curl -sS -H 'X-BotMailRoom-Signature: wrong' -d '{}' "$hook"
  wait_until 20 grep -aq 'refused a webhook' "$SCREEN"
  before=$(shown | wc -l)
  wait_until 20 has_shown_more "$before"
  # As a terminal shows it: each line has the text after its last wipe.
  sed 's/\r*$//; s/.*\r\x1b\[K//' "$SCREEN" >"$DIR/rendered"
  grep -qx 'inboxfs: refused a webhook: it is not signed with this secret' "$DIR/rendered"
  equal "$(tail -n 1 "$DIR/rendered")" 'inboxfs: 2 messages to send'
  equal "$(grep -c 'to send' "$DIR/rendered")" 1
  kill -CONT "$SERVICE_PID"
  wait_until 30 is_wiped
}

@test "the terminal shows the first sync until it is complete" {
  start_scripted_service
  server_answers email '"ok"' '"ok"' '{"delay_ms": 1500, "body": []}' '"ok"'
  start_on_terminal 80 --poll-interval=60
  wait_until 20 has_shown 'first sync, 0 inboxes, 0 emails'
  wait_until 20 is_wiped
  holds "$MOUNT/status.json" '.sync.complete'
}

@test "a narrow terminal shows the beginning of the progress line" {
  start_service
  create_inboxes "$ALICE" "$BOB"
  start_on_terminal 20
  freeze_service
  hand_in 3
  wait_until 20 has_shown '3 messages'
  kill -CONT "$SERVICE_PID"
  wait_until 30 is_wiped
}

# Keeps a message waiting for a second, in which a terminal would show it.
let_one_wait() {
  freeze_service
  hand_in 1
  sleep 1
  kill -CONT "$SERVICE_PID"
  wait_until 30 test -e "$MOUNT/sent/m1"
}

@test "no progress is shown if standard error is not a terminal or TERM is dumb" {
  start_service
  create_inboxes "$ALICE" "$BOB"
  start_on_terminal 80 "2>'$MOUNT_LOG'"
  let_one_wait
  run ! grep -a 'to send' "$SCREEN" "$MOUNT_LOG"
  stop_mount
  rm -rf "$STATE"
  TERM=dumb start_on_terminal 80
  let_one_wait
  run ! grep -a 'to send' "$SCREEN"
}
