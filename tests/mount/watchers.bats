#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# inotify watchers see what the service did, and nothing about telling them can hang.

load support
load scripted

setup() {
  WATCHED=$DIR/watched
  WATCHER_PID=
}

teardown() {
  stop_watching
  stop_all
}

# Notes "EVENT NAME" for each event in the given folders of the mount, without IN_OPEN.
watch() # FOLDER...
{
  local folders=() folder
  for folder; do
    folders+=("$MOUNT/$folder")
  done
  inotifywait -m -e create,close_write,moved_to --format '%e %f' "${folders[@]}" \
    >"$WATCHED" 2>"$DIR/inotifywait.log" 3>&- &
  WATCHER_PID=$!
  wait_until 10 grep -q 'Watches established' "$DIR/inotifywait.log"
}

stop_watching() {
  local pid=$WATCHER_PID
  WATCHER_PID=
  [ -n "$pid" ] || return 0
  kill "$pid" 2>/dev/null
  wait "$pid" || true
}

saw() # EVENT NAME-PATTERN [COUNT]
{
  [ "$(grep -c -- "^$1 .*$2" "$WATCHED")" = "${3:-1}" ]
}

helper_pid() {
  pgrep -P "$MOUNT_PID" -x inboxfs-watch
}

# As many messages to bob as that, at the service itself.
send_many() # COUNT
{
  local request=$DIR/request
  jq -n --arg from "$ALICE" --arg to "$BOB" \
    '{from_address: $from, subject: "many", plain_text: "x", to_addresses: [{address: $to, name: null}]}' >"$request"
  seq "$1" | sed "s|.*|url = \"$SERVICE_URL/api/v1/email/send\"\noutput = /dev/null|" >"$DIR/requests"
  curl -sS --fail -H "Authorization: Bearer $(cat "$KEY_FILE")" -H 'Content-Type: application/json' \
    --data-binary "@$request" --parallel --parallel-max 4 -K "$DIR/requests"
}

# A thousand mails come while the helper stands still: all of them have yet to be announced.
hold_announcements() {
  HELPER=$(helper_pid)
  send_many 1000
  kill -STOP "$HELPER"
  refresh 3>&- &
  REFRESH_PID=$!
  wait_until 20 eval '[ "$(ls "$MOUNT/inboxes/$BOB" | wc -l)" -ge 1000 ]'
  run ! grep -q _many_ "$WATCHED"
}

@test "mail that arrives at the server is created and closed for a watcher" {
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

@test "a poll that brings mail is seen by a watcher" {
  start_service
  create_inbox "$ALICE" >/dev/null
  create_inbox "$BOB" >/dev/null
  start_mount --poll-interval=1
  wait_until 10 test -e "$MOUNT/inboxes/$BOB"
  refresh
  watch "inboxes/$BOB"
  send_from_elsewhere "$ALICE" "$BOB" polled
  wait_until 20 saw CLOSE_WRITE,CLOSE _polled_
}

@test "what is sent appears in sent/ with its receipt, once each" {
  start_two_inboxes
  watch sent failed
  message "$BOB" out >"$MOUNT/outbox/out.eml"
  wait_until 20 saw CLOSE_WRITE,CLOSE 'out.eml.receipt.json$'
  saw CREATE 'out.eml$'
  saw CLOSE_WRITE,CLOSE 'out.eml$'
  saw CREATE 'out.eml.receipt.json$'
}

@test "a program that opens what inotify tells it of reads each file whole" {
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

@test "what is refused appears in failed/ with its receipt" {
  start_two_inboxes
  watch sent failed
  echo "no message" >"$MOUNT/outbox/bad"
  wait_until 20 saw CLOSE_WRITE,CLOSE 'bad.receipt.json$'
  saw CREATE 'bad$'
}

@test "nothing is created in outbox/ and attachments/ but by their users" {
  start_two_inboxes
  watch outbox attachments
  echo data >"$DIR/data"
  cp "$DIR/data" "$MOUNT/attachments/data"
  wait_until 20 test -e "$MOUNT/attachments/data.receipt.json"
  message "$BOB" out >"$MOUNT/outbox/out"
  wait_sent out
  equal "$(sort "$WATCHED")" "$(printf '%s\n' 'CLOSE_WRITE,CLOSE data' 'CLOSE_WRITE,CLOSE out' 'CREATE data' 'CREATE out')"
}

@test "what was there before the first sync is not announced" {
  start_service
  create_inbox "$ALICE" >/dev/null
  create_inbox "$BOB" >/dev/null
  send_from_elsewhere "$ALICE" "$BOB" before
  start_mount
  watch "inboxes/$BOB"
  refresh
  send_from_elsewhere "$ALICE" "$BOB" after
  refresh
  wait_until 10 saw CLOSE_WRITE,CLOSE _after_
  run ! saw CREATE _before_
}

@test "a thousand mails at once reach a watcher, each, while the folder is listed again and again" {
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

@test "ten thousand mails at once reach a watcher, each once" {
  start_scripted_service
  server_has_email '{"id": "e1", "inbox_id": "box-1", "subject": "before"}'
  start_mount
  refresh
  # Its events alone fit into what the kernel keeps for a watcher.
  inotifywait -m -e close_write --format '%e %f' "$MOUNT/inboxes/box-1" >"$WATCHED" 2>"$DIR/inotifywait.log" 3>&- &
  WATCHER_PID=$!
  wait_until 10 grep -q 'Watches established' "$DIR/inotifywait.log"
  list_of 10000 | jq -c '{email: [{always: {body: .}}]}' >"$DIR/storm"
  control "@$DIR/storm"
  within 60 refresh
  wait_until 60 saw CLOSE_WRITE,CLOSE _storm_ 10000
  equal "$(sort -u "$WATCHED" | wc -l)" 10000
  equal "$(find "$MOUNT/inboxes/box-1" -name '*_storm_*.json' | wc -l)" 10000
}

@test "mail is seen by a watcher while the rest of the list never comes, and the mount can be ended" {
  local first
  start_scripted_service
  server_has_email '{"id": "e1", "inbox_id": "box-1", "subject": "before"}'
  start_mount
  refresh
  watch inboxes/box-1
  first='{"id": "e2", "inbox_id": "box-1", "subject": "halfway", "date": "2026-11-20T08:00:00Z"}'
  server_answers email "$(jq -n --arg first "$first" '{verbatim: ("HTTP/1.1 200 OK\r\n" +
    "Content-Type: application/json\r\nContent-Length: 100000\r\n\r\n[" + $first + ","), stall: true}')"
  refresh 3>&- &
  REFRESH_PID=$!
  wait_until 10 saw CLOSE_WRITE,CLOSE _halfway_
  saw CREATE _halfway_
  within 2 grep -q halfway "$MOUNT"/inboxes/box-1/*_halfway_*.json
  run ! process_is_gone "$REFRESH_PID"
  within 10 kill_mount TERM
  wait "$REFRESH_PID" || true
}

# A Python that has the library.
python_with_watchdog() {
  local python
  for python in python3 /usr/bin/python3; do
    ! "$python" -c 'import watchdog' 2>/dev/null || echo "$python"
  done | head -n 1
}

@test "Python's watchdog is told of new mail, and of what was sent and refused" {
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

@test "entr -d ends when mail came" {
  command -v entr >/dev/null || skip "entr is not installed"
  start_two_inboxes
  refresh
  printf '%s\n' "$MOUNT/inboxes/$BOB"/*.json >"$DIR/files"
  # It runs its command when it has begun to watch.
  entr -dn touch "$DIR/watching" <"$DIR/files" >"$WATCHED" 2>&1 3>&- &
  local pid=$!
  wait_until 10 test -e "$DIR/watching"
  run ! process_is_gone "$pid"
  send_from_elsewhere "$ALICE" "$BOB" arrives
  refresh
  wait_until 10 process_is_gone "$pid"
  local status=0
  wait "$pid" || status=$?
  equal "$status" 2
  contains "$(cat "$WATCHED")" "directory altered"
}

@test "when a barrier is over, watchers were told, and fusermount3 -u finds the mount idle" {
  local i
  start_two_inboxes
  for i in {1..10}; do
    [ -n "$MOUNT_PID" ] || start_mount
    refresh
    watch sent "inboxes/$BOB"
    message "$BOB" "round $i" >"$MOUNT/drafts/round-$i"
    mv "$MOUNT/drafts/round-$i" "$MOUNT/outbox/"
    sync "$MOUNT/outbox"
    fusermount3 -u "$MOUNT"
    wait_until 10 saw CREATE "round-$i.receipt.json\$"
    stop_watching
    wait_until 10 process_is_gone "$MOUNT_PID"
    MOUNT_PID=
  done
}

@test "when a sync is over, watchers were told, and fusermount3 -u finds the mount idle" {
  local i
  start_two_inboxes
  for i in {1..10}; do
    [ -n "$MOUNT_PID" ] || start_mount
    refresh
    watch "inboxes/$BOB"
    send_many 20
    refresh
    fusermount3 -u "$MOUNT"
    wait_until 10 saw CREATE _many_ 20
    stop_watching
    wait_until 10 process_is_gone "$MOUNT_PID"
    MOUNT_PID=
  done
}

@test "a helper that is killed is replaced" {
  start_two_inboxes
  refresh
  watch "inboxes/$BOB"
  kill -KILL "$(helper_pid)"
  send_from_elsewhere "$ALICE" "$BOB" again
  within 5 refresh
  wait_until 10 saw CLOSE_WRITE,CLOSE _again_
  [ -n "$(helper_pid)" ]
}

@test "the helper holds nothing but its pipe, and ends with the daemon" {
  start_two_inboxes
  local helper
  helper=$(helper_pid)
  equal "$(ls "/proc/$helper/fd")" 0
  equal "$(readlink "/proc/$helper/cwd")" /
  stop_mount
  process_is_gone "$helper"
  start_mount
  helper=$(helper_pid)
  kill_mount KILL
  wait_until 10 process_is_gone "$helper"
  # The lock of the state went with the daemon.
  start_mount
}

@test "killing the daemon in the middle of a thousand announcements leaves nothing that hangs" {
  start_two_inboxes
  refresh
  watch "inboxes/$BOB"
  hold_announcements
  kill -CONT "$HELPER"
  kill_mount KILL
  wait_until 10 process_is_gone "$HELPER"
  wait "$REFRESH_PID" || true
  stop_watching
  start_mount
  within 10 refresh
}

@test "SIGTERM in the middle of a thousand announcements ends the mount" {
  start_two_inboxes
  refresh
  watch "inboxes/$BOB"
  hold_announcements
  kill -CONT "$HELPER"
  within 10 kill_mount TERM
  process_is_gone "$HELPER"
  wait "$REFRESH_PID" || true
  run ! mountpoint -q "$MOUNT"
}

@test "SIGTERM ends the mount while the helper stands still" {
  start_two_inboxes
  refresh
  watch "inboxes/$BOB"
  hold_announcements
  within 10 kill_mount TERM
  process_is_gone "$HELPER"
  wait "$REFRESH_PID" || true
  run ! mountpoint -q "$MOUNT"
}

@test "a lazy unmount in the middle of a thousand announcements ends the daemon, and nothing is made below it" {
  start_two_inboxes
  refresh
  watch "inboxes/$BOB"
  hold_announcements
  local pid=$MOUNT_PID
  MOUNT_PID=
  umount -l "$MOUNT" || fusermount3 -uz "$MOUNT"
  kill -CONT "$HELPER"
  stop_watching
  wait_until 10 process_is_gone "$pid"
  wait "$REFRESH_PID" || true
  wait "$pid"
  equal "$(ls -A "$MOUNT")" ""
}

@test "moves out of sent/, removals and barriers while mail goes out do not hang with announcements" {
  start_two_inboxes
  watch sent failed "inboxes/$BOB"
  local i
  for i in {1..25}; do
    message "$BOB" "crowd $i" >"$MOUNT/outbox/crowd-$i"
  done
  local started=()
  for i in {1..5}; do
    (
      exec 3>&-
      while [ ! -e "$DIR/enough" ]; do
        status=0
        case $i in
        1) timeout 10 mv "$MOUNT/sent/crowd-1" "$MOUNT/outbox/again-1" ;;
        2) timeout 10 rm -f "$MOUNT"/sent/again-1* ;;
        3) timeout 20 sync "$MOUNT/outbox" ;;
        4) timeout 20 sh -c "echo sync >'$MOUNT/ctl'" ;;
        5) timeout 10 ls -l "$MOUNT/sent" "$MOUNT/inboxes/$BOB" ;;
        esac || status=$?
        [ "$status" -ne 124 ] || touch "$DIR/hung"
      done
    ) >/dev/null 2>&1 &
    started+=($!)
  done
  wait_until 30 saw CREATE 'crowd-25.receipt.json$'
  touch "$DIR/enough"
  wait "${started[@]}"
  missing "$DIR/hung"
}
