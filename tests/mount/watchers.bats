#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# inotify watchers see new mail and the outcomes of messages.
#
# shellcheck disable=SC2034 # shared with watchers.bash

load support
load scripted
load watchers

setup() {
  WATCHED=$DIR/watched
  WATCHER_PID=
}

teardown() {
  stop_watching
  stop_all
}

@test "a watcher sees new mail created and closed" {
  start_two_inboxes
  refresh
  watch "inboxes/$BOB"
  send_from_elsewhere "$ALICE" "$BOB" arrives
  refresh
  wait_until 10 saw CLOSE_WRITE,CLOSE _arrives_
  saw CREATE _arrives_
  # What is announced is the record, whole.
  holds "$(mounted "$BOB" arrives)" '.subject == "arrives"'
}

@test "a watcher sees mail that a poll brings" {
  start_service
  create_inboxes "$ALICE" "$BOB"
  start_mount --poll-interval=1
  wait_until 10 test -e "$MOUNT/inboxes/$BOB"
  refresh
  watch "inboxes/$BOB"
  send_from_elsewhere "$ALICE" "$BOB" polled
  wait_until 20 saw CLOSE_WRITE,CLOSE _polled_
}

@test "a sent message appears in sent/ with its receipt, once each" {
  start_two_inboxes
  watch sent failed
  message "$BOB" out >"$MOUNT/outbox/out.eml"
  wait_until 20 saw CLOSE_WRITE,CLOSE 'out.eml.receipt.json$'
  saw CREATE 'out.eml$'
  saw CLOSE_WRITE,CLOSE 'out.eml$'
  saw CREATE 'out.eml.receipt.json$'
}

@test "a program that opens each announced file reads it whole" {
  start_two_inboxes
  refresh
  python3 "$REPOSITORY/tests/mount/watcher.py" "$MOUNT/inboxes/$BOB" "$MOUNT/sent" >"$WATCHED" 3>&- &
  WATCHER_PID=$!
  wait_until 10 grep -q watching "$WATCHED"
  message "$BOB" out >"$MOUNT/outbox/out"
  sync "$MOUNT/outbox"
  send_many 50
  refresh
  wait_until 10 eval '[ "$(wc -l <"$WATCHED")" -ge 54 ]'
  sed 1d "$WATCHED" >"$DIR/files"
  # Mail and receipts: 50 many, out, and its receipt.
  equal "$(jq -r 'select(.path | endswith(".json")).text | fromjson | .subject // .state' "$DIR/files" | sort | uniq -c |
    xargs)" "50 many 1 out 1 sent"
  equal "$(jq -r 'select(.path | endswith("/sent/out")).text' "$DIR/files")" "$(message "$BOB" out)"
}

@test "a refused message appears in failed/ with its receipt" {
  start_two_inboxes
  watch sent failed
  echo "no message" >"$MOUNT/outbox/bad"
  wait_until 20 saw CLOSE_WRITE,CLOSE 'bad.receipt.json$'
  saw CREATE 'bad$'
}

@test "only their users create files in outbox/ and attachments/" {
  start_two_inboxes
  watch outbox attachments
  echo data >"$DIR/data"
  cp "$DIR/data" "$MOUNT/attachments/data"
  wait_until 20 test -e "$MOUNT/attachments/data.receipt.json"
  message "$BOB" out >"$MOUNT/outbox/out"
  wait_sent out
  equal "$(sort "$WATCHED")" "$(printf '%s\n' 'CLOSE_WRITE,CLOSE data' 'CLOSE_WRITE,CLOSE out' 'CREATE data' 'CREATE out')"
}

@test "mail from before the first sync is not announced" {
  start_service
  create_inboxes "$ALICE" "$BOB"
  send_from_elsewhere "$ALICE" "$BOB" before
  start_mount
  watch "inboxes/$BOB"
  refresh
  send_from_elsewhere "$ALICE" "$BOB" after
  refresh
  wait_until 10 saw CLOSE_WRITE,CLOSE _after_
  run ! saw CREATE _before_
}

@test "a watcher sees each of a thousand new emails, while the folder is listed again and again" {
  start_two_inboxes
  refresh
  send_many 1000
  watch "inboxes/$BOB"
  (while [ ! -e "$DIR/listed" ]; do ls -l "$MOUNT/inboxes/$BOB" >/dev/null; done) 3>&- &
  local lister=$!
  refresh
  wait_until 30 saw CLOSE_WRITE,CLOSE _many_ 1000
  touch "$DIR/listed"
  wait "$lister"
  saw CREATE _many_ 1000
}

# As many records for one inbox of the scripted service, the newest last.
list_of() # COUNT
{
  jq -nc --argjson count "$1" '[range($count) | {id: "storm-\(1000000 + .)", inbox_id: "box-1",
    subject: "storm", date: (1790000000 + . | todate)}]'
}

@test "a watcher sees each of ten thousand new emails once" {
  start_scripted_service
  server_has_email '{"id": "e1", "inbox_id": "box-1", "subject": "before"}'
  start_mount
  refresh
  # Its events alone fit into what the kernel keeps for a watcher.
  inotifywait -m -e close_write --format '%e %f' "$MOUNT/inboxes/box-1" >"$WATCHED" 2>"$DIR/inotifywait.log" 3>&- &
  WATCHER_PID=$!
  wait_until 10 grep -q 'Watches established' "$DIR/inotifywait.log"
  list_of 10000 | jq -c '{email: [{always: {body: .}}]}' >"$DIR/storm"
  control "$(<"$DIR/storm")"
  within 60 refresh
  wait_until 60 saw CLOSE_WRITE,CLOSE _storm_ 10000
  equal "$(sort -u "$WATCHED" | wc -l)" 10000
  equal "$(find "$MOUNT/inboxes/box-1" -name '*_storm_*.json' | wc -l)" 10000
}

# A Python that has the library.
python_with_watchdog() {
  local python
  for python in python3 /usr/bin/python3; do
    ! "$python" -c 'import watchdog' 2>/dev/null || echo "$python"
  done | head -n 1
}

@test "Python's watchdog sees new mail, and sent and refused messages" {
  local python
  python=$(python_with_watchdog)
  [ -n "$python" ] || skip "python3-watchdog is not installed"
  start_two_inboxes
  refresh
  "$python" - "$MOUNT/inboxes/$BOB" "$MOUNT/sent" "$MOUNT/failed" >"$WATCHED" 3>&- <<'EOF' &
import sys
from watchdog.events import FileSystemEventHandler
from watchdog.observers import Observer

class Teller(FileSystemEventHandler):
    def on_any_event(self, event):
        if not event.is_directory:
            print(event.event_type, event.src_path.rsplit("/", 1)[1], flush=True)

observer = Observer()
for folder in sys.argv[1:]:
    observer.schedule(Teller(), folder)
observer.start()
print("watching", flush=True)
observer.join()
EOF
  WATCHER_PID=$!
  wait_until 10 grep -q watching "$WATCHED"
  message "$BOB" out >"$MOUNT/outbox/out"
  echo "no message" >"$MOUNT/outbox/bad"
  wait_sent out
  wait_failed bad
  refresh
  wait_until 10 eval '[ "$(grep -c ^closed "$WATCHED")" -ge 5 ]'
  equal "$(sed 's/[0-9TZ]*_out_.*\.json/MAIL/' "$WATCHED" | sed 1d | sort | paste -sd ,)" \
    "closed MAIL,closed bad,closed bad.receipt.json,closed out,closed out.receipt.json,created MAIL,created bad,created bad.receipt.json,created out,created out.receipt.json"
}

mail_ends() { # PID
  send_from_elsewhere "$ALICE" "$BOB" arrives
  refresh
  process_is_gone "$1"
}

@test "entr -d ends when mail comes" {
  command -v entr >/dev/null || skip "entr is not installed"
  start_two_inboxes
  refresh
  printf '%s\n' "$MOUNT/inboxes/$BOB"/*.json >"$DIR/files"
  # It runs its command when it has begun to watch.
  entr -dn touch "$DIR/watching" <"$DIR/files" >"$WATCHED" 2>&1 3>&- &
  local pid=$!
  wait_until 10 test -e "$DIR/watching"
  run ! process_is_gone "$pid"
  # What comes within its first 50 ms after the command it takes for the command's own doing.
  wait_until 20 mail_ends "$pid"
  local status=0
  wait "$pid" || status=$?
  equal "$status" 2
  contains "$(cat "$WATCHED")" "directory altered"
}
