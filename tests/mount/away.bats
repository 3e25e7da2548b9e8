#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# The recipe of docs/COOKBOOK.md that answers while the user is away: whom it answers and how often. Two robots must not
# answer each other without end.

load support
load recipes

CAROL=carol@x.example

teardown() {
  stop_all
  [ ${#OTHER_SIDE[@]} = 0 ] || {
    change_sides
    stop_all
  }
}

# Midnight may pass meanwhile: mail is of the day on which the test began.
BEGINNING=$(date -u -R)

# Mail to alice from elsewhere. Header lines that are given come first, and so before those of the same name.
arrives() { # FROM SUBJECT [HEADER...]
  printf '%s\n' "${@:3}" "From: $1" "To: $ALICE" "Subject: $2" "Date: $BEGINNING" '' 'Are you there?' |
    "$INBOXD" deliver --data="$SERVICE" "$ALICE"
}

# Cron comes by, and what it has sent is out.
passes() { # [ADDRESS]
  refresh
  cook "Answer while you are away" "$@"
  sync "$MOUNT/outbox"
}

# Those who were written to, in the order of time.
answered() {
  api GET /email/outbound | jq -r 'sort_by(.date)[].to_addresses[].address' | xargs
}

@test "each sender gets one automatic answer a day, in the thread" {
  start_two_inboxes
  arrives "Carol <$CAROL>" 'Täglich: "1"'
  passes
  arrives Carol@X.example again
  arrives "$CAROL" 'and again'
  passes
  equal "$(answered)" "$CAROL"
  holds <(api GET /email/outbound) '.[0].subject == "Auto: Täglich: \"1\"" and .[0].message_type == "reply"'
  # The mail of the day before has an answer of its own; older mail has none.
  arrives "$CAROL" yesterday "Date: $(date -u -R -d "$BEGINNING - 1 day")"
  arrives dan@x.example long-ago "Date: $(date -u -R -d "$BEGINNING - 3 days")"
  passes
  passes
  equal "$(answered)" "$CAROL $CAROL"
}

@test "own inboxes, lists, bounces, automatic and anonymous mail get no answer" {
  local header address
  start_two_inboxes
  arrives "$BOB" own
  arrives "${BOB^^}" OWN
  for header in 'List-Id: <news.example>' 'List-Unsubscribe: <https://news.example>' 'Precedence: bulk' \
    'Auto-Submitted: auto-replied' 'auto-submitted: Auto-Generated (cron)' $'Auto-Submitted:\n auto-replied' \
    'X-Auto-Response-Suppress: All' 'Return-Path: <>' 'Content-Type: multipart/report; boundary=b' \
    'Subject: Auto: away'; do
    arrives "a.list@x.example" robot "$header" "Message-ID: <${#header}@x.example>"
  done
  for address in MAILER-DAEMON@x.example noreply@x.example no-reply@x.example news-bounces@x.example \
    owner-news@x.example news-request@x.example postmaster@x.example '"../../x y"@x.example' nobody '<>'; do
    arrives "$address" robot "Message-ID: <${#address}.2@x.example>"
  done
  printf 'From: dan@x.example\nTo: list@x.example\nSubject: by Bcc\n\nx\n' | "$INBOXD" deliver --data="$SERVICE" "$ALICE"
  passes
  equal "$(answered)" ""
  # One who says to be no robot.
  arrives "$CAROL" hello 'Auto-Submitted: no'
  passes
  equal "$(answered)" "$CAROL"
  # Nobody takes the answer: it came back.
  has_received "$ALICE" "Undelivered: Auto: hello"
  passes
  equal "$(answered)" "$CAROL"
}

# What the functions of support.bash work on, for the side that they do not work on now.
declare -gA OTHER_SIDE

change_sides() {
  local variable was
  for variable in DIR MOUNT STATE SERVICE KEY_FILE MOUNT_LOG MOUNT_PID SERVICE_PID SERVICE_URL SERVICE_PORT; do
    was=${!variable}
    printf -v "$variable" %s "${OTHER_SIDE[$variable]}"
    OTHER_SIDE[$variable]=$was
  done
}

# Alice's service and mount, and Carol's elsewhere; each relays to the other. This side is Alice's.
start_both_sides() {
  local there=$DIR/there port other_port
  OTHER_SIDE=([DIR]=$there [MOUNT]=$there/mail [STATE]=$there/state [SERVICE]=$there/service [KEY_FILE]=$there/key
    [MOUNT_LOG]=$there/inboxfs.log [MOUNT_PID]='' [SERVICE_PID]='' [SERVICE_URL]='' [SERVICE_PORT]=0)
  mkdir "$there"
  port=$(choose_port && echo "$SERVICE_PORT")
  other_port=$(choose_port && echo "$SERVICE_PORT")
  start_service --smtp="127.0.0.1:$port" --relay="smtp://127.0.0.1:$other_port"
  create_inboxes "$ALICE"
  start_mount
  change_sides
  DOMAIN=x.example start_service --smtp="127.0.0.1:$other_port" --relay="smtp://127.0.0.1:$port"
  create_inboxes "$CAROL"
  start_mount
  change_sides
}

@test "two absent users do not answer each other without end" {
  start_both_sides
  change_sides
  send_from_elsewhere "$CAROL" "$ALICE" hello
  change_sides
  wait_until 20 has_received "$ALICE" hello
  passes
  change_sides
  wait_until 20 has_received "$CAROL" "Auto: hello"
  passes "$CAROL"
  equal "$(answered)" "$ALICE" # by the first mail alone
  change_sides
  passes
  equal "$(answered)" "$CAROL"
}

is_far_from_midnight() {
  [ "$(date -u +%H:%M)" != 23:59 ]
}

@test "a robot that answers everything gets one answer a day" {
  wait_until 90 is_far_from_midnight
  start_both_sides
  change_sides
  send_from_elsewhere "$CAROL" "$ALICE" hello
  change_sides
  wait_until 20 has_received "$ALICE" hello
  passes
  change_sides
  wait_until 20 has_received "$CAROL" "Auto: hello"
  send_from_elsewhere "$CAROL" "$ALICE" "Re: Auto: hello"
  change_sides
  wait_until 20 has_received "$ALICE" "Re: Auto: hello"
  passes
  passes
  equal "$(answered)" "$CAROL"
}
