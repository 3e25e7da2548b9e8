#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# How new mail becomes visible (ctl, polling), and how the mount reports it (status.json, events.jsonl).

load support
load scripted

setup() {
  start_service
  create_inboxes "$ALICE" "$BOB"
}

teardown() {
  stop_all
}

@test "new mail is visible when ctl sync returns" {
  start_mount
  local i
  for i in 1 2 3; do
    send_from_elsewhere "$ALICE" "$BOB" "fresh $i"
    # The folder's listing and a name that was not there are in the kernel's caches.
    ls "$MOUNT/inboxes/$BOB" >/dev/null
    echo sync >"$MOUNT/ctl"
    equal "$(find "$MOUNT/inboxes/$BOB" -name '*_fresh-*.json' | wc -l)" "$i"
  done
}

@test "sync ADDRESS fetches that inbox" {
  start_mount
  send_from_elsewhere "$ALICE" "$BOB" "for bob"
  echo "sync $BOB" >"$MOUNT/ctl"
  mounted "$BOB" "for bob"
}

@test "polling alone brings new mail" {
  start_mount --poll-interval=1
  send_from_elsewhere "$ALICE" "$BOB" "polled"
  wait_until 10 bash -c 'ls "$1"/*_polled_*' - "$MOUNT/inboxes/$BOB"
  send_from_elsewhere "$ALICE" "$BOB" "polled again"
  wait_until 10 bash -c 'ls "$1"/*_polled-again_*' - "$MOUNT/inboxes/$BOB"
}

# Bytes received so far.
received_bytes() {
  jq .counters.received_bytes "$MOUNT/status.json"
}

@test "an unchanged list is not transferred again" {
  local i before whole
  send_many_from_elsewhere "$ALICE" "$BOB" "one of many" 20
  start_mount
  before=$(received_bytes)
  refresh
  wait_for_probes
  whole=$(($(received_bytes) - before))
  # Twenty records at the least.
  [ "$whole" -gt 6000 ] || fail "$whole bytes"
  for i in 1 2 3; do
    refresh
    before=$(received_bytes)
    refresh
  done
  [ $(($(received_bytes) - before)) -lt $((whole / 4)) ] || fail "$(($(received_bytes) - before)) of $whole bytes"
  send_from_elsewhere "$ALICE" "$BOB" "one more" >/dev/null
  refresh
  present "$(mounted "$BOB" "one more")"
}

@test "with --poll-interval=0 the daemon asks for nothing until a sync is requested" {
  start_mount
  refresh
  wait_for_probes
  local before
  before=$(jq .counters.requests "$MOUNT/status.json")
  send_from_elsewhere "$ALICE" "$BOB" "unasked"
  run ! wait_until 3 bash -c 'ls "$1"/*_unasked_*' - "$MOUNT/inboxes/$BOB"
  equal "$(jq .counters.requests "$MOUNT/status.json")" "$before"
}

@test "an email with an old date is found although the list is not ordered" {
  start_mount
  refresh
  send_from_elsewhere "$ALICE" "$BOB" "one"
  send_from_elsewhere "$ALICE" "$BOB" "two"
  echo sync >"$MOUNT/ctl"
  equal "$(find "$MOUNT/inboxes/$BOB" -name '*_one_*.json' -o -name '*_two_*.json' | wc -l)" 2
}

@test "a record that changed at the service changes in the mount, with its size" {
  start_mount
  send_from_elsewhere "$ALICE" "$BOB" "to be marked"
  refresh
  local file id
  file=$(mounted "$BOB" "to be marked")
  id=$(jq -r .id "$file")
  holds "$file" '.user_mark_status == false'
  api POST "/email/$id/mark/true" >/dev/null
  refresh
  holds "$file" '.user_mark_status == true'
  has_true_size "$file"
}

server_has_status() { # CODE
  server_answers email "{\"body\": [{\"id\": \"m1\", \"inbox_id\": \"box\", \"date\": \"2026-01-02T03:04:05Z\",
    \"latest_webhook_log\": {\"status_code\": $1}}]}"
}

is_past() { # SECONDS
  [ "$(date +%s)" -gt "$1" ]
}

@test "a record that changes and keeps its length gets a new ctime, so that git and tar notice" {
  local inbox=$MOUNT/inboxes/box file before after
  stop_service
  start_scripted_service
  server_has_status 500
  start_mount
  refresh
  file=$(echo "$inbox"/2*.json)
  git init -q --separate-git-dir="$DIR/git" "$DIR/work"
  git --git-dir="$DIR/git" --work-tree="$inbox" add "$file"
  tar -C "$inbox" --listed-incremental="$DIR/snapshot" -cf "$DIR/first.tar" .
  before=$(stat -c '%s %.9Y %.9Z' "$file")
  wait_until 3 is_past "$(stat -c %Z "$file")" # git looks at seconds alone
  server_has_status 200
  refresh
  holds "$file" '.latest_webhook_log.status_code == 200'
  after=$(stat -c '%s %.9Y %.9Z' "$file")
  equal "${after% *}" "${before% *}"
  [ "${after##* }" != "${before##* }" ]
  run -1 git --git-dir="$DIR/git" --work-tree="$inbox" diff --quiet
  tar -C "$inbox" --listed-incremental="$DIR/snapshot" -cf "$DIR/second.tar" .
  tar -tf "$DIR/second.tar" | grep -q '2026.*json'
  stop_mount
  start_mount
  equal "$(stat -c '%s %.9Y %.9Z' "$file")" "$after"
}

@test "ctl refuses unknown commands with EINVAL, and unknown names with ENOENT, each with words" {
  start_mount
  local command
  for command in nonsense "synchronise" "SYNC" "retry" "sync;ls"; do
    run syscall write "$MOUNT/ctl" w "$command"$'\n'
    equal "$output" "write EINVAL"
    holds "$MOUNT/status.json" '.refused | .path == "ctl" and (.error | contains("retry NAME"))'
  done
  expect "write ENOENT" write "$MOUNT/ctl" w $'sync nobody@x.example\n'
  holds "$MOUNT/status.json" '.refused | .path == "ctl" and (.error | contains("no inbox of this address"))'
  expect "write ENOENT" write "$MOUNT/ctl" w $'retry no-such-file\n'
  expect ok write "$MOUNT/ctl" w $'retry all\n'
}

@test "ctl accepts several commands in one write, and one without a newline" {
  start_mount
  send_from_elsewhere "$ALICE" "$BOB" "by one write"
  expect ok write "$MOUNT/ctl" w $'retry all\nsync\n'
  mounted "$BOB" "by one write"
  expect ok write "$MOUNT/ctl" w "sync"
  printf 'sync' >"$MOUNT/ctl"
  echo sync >>"$MOUNT/ctl"
}

@test "ctl cannot be read" {
  start_mount
  expect EACCES open "$MOUNT/ctl" r
  expect EACCES open "$MOUNT/ctl" rw
  expect ok open "$MOUNT/ctl" w
}

@test "ctl sync fails with EHOSTUNREACH if the service is away, and with EACCES if the key is refused" {
  start_mount
  stop_service
  within 15 expect "write EHOSTUNREACH" write "$MOUNT/ctl" w $'sync\n'
  holds "$MOUNT/status.json" '.online == false and (.error | length > 3)'
  mv "$SERVICE" "$SERVICE.away"
  start_service
  within 15 expect "write EACCES" write "$MOUNT/ctl" w $'sync\n'
  stop_service
  rm -rf "$SERVICE"
  mv "$SERVICE.away" "$SERVICE"
  start_service
  expect ok write "$MOUNT/ctl" w $'sync\n'
  holds "$MOUNT/status.json" '.online == true and .error == null'
}

@test "status.json has reachability, capabilities, sync, queue, quota and counters" {
  start_mount
  refresh
  holds "$MOUNT/status.json" '.online == true and .error == null'
  holds "$MOUNT/status.json" '.capabilities.inbox_list == "present"'
  holds "$MOUNT/status.json" '.sync.complete and .sync.inboxes == 2 and .sync.emails == 1'
  holds "$MOUNT/status.json" '.sync.last | fromdateiso8601? // (sub("\\.[0-9]+Z$"; "Z") | fromdateiso8601) > 1700000000'
  holds "$MOUNT/status.json" '.queue.queued == 0 and .queue.paused == false'
  holds "$MOUNT/status.json" '.quota.daily_limit == null and .quota.sent_today == 0'
  holds "$MOUNT/status.json" '.counters.requests > 0 and .counters.received_bytes > 0'
  message "$BOB" counted >"$MOUNT/outbox/x"
  wait_sent x
  holds "$MOUNT/status.json" '.quota.sent_today == 1 and .queue.sent == 1'
  stop_service
  message "$BOB" waiting >"$MOUNT/outbox/y"
  wait_until 10 jq -e '.queue.queued == 1 and .queue.next_attempt != null' "$MOUNT/status.json"
}

@test "status.json has the size that stat reports" {
  start_mount
  local i
  for i in {1..20}; do
    cp "$MOUNT/status.json" "$DIR/status"
    jq -e .version "$DIR/status" >/dev/null
    tail -c 2 "$DIR/status" | grep -q '}'
  done
}

@test "events.jsonl gets a line for each event" {
  start_mount
  refresh
  send_from_elsewhere "$ALICE" "$BOB" "eventful"
  refresh
  wait_until 5 has_event '.event == "mail" and (.path | startswith("inboxes/\($bob)/"))' --arg bob "$BOB"
  local path
  path=$(events '.event == "mail"' | jq -r .path | tail -n 1)
  present "$MOUNT/$path"
  message "$BOB" "sent event" >"$MOUNT/outbox/x"
  wait_sent x
  wait_until 5 has_event '.event == "sent" and .path == "sent/x" and (.id | type == "string")'
  echo bad >"$MOUNT/outbox/bad"
  wait_failed bad
  wait_until 5 has_event '.event == "failed" and .path == "failed/bad" and (.error | type == "string")'
  mkdir "$MOUNT/inboxes/carol@$DOMAIN"
  wait_until 5 has_event '.event == "inbox" and .path == "inboxes/carol@\($domain)"' --arg domain "$DOMAIN"
  jq -es 'all(.[]; .time | test("^20[0-9]{2}-[0-9]{2}-[0-9]{2}T.*Z$"))' "$MOUNT/events.jsonl" >/dev/null
}

@test "an inbox created here before the first sync is reported once, and so is its mail" {
  local carol=carol@$DOMAIN
  send_from_elsewhere "$ALICE" "$BOB" "was there"
  start_mount
  mkdir "$MOUNT/inboxes/$carol"
  send_from_elsewhere "$ALICE" "$carol" "is new"
  refresh
  refresh
  equal "$(events '.event == "inbox"' | jq -r .path)" "inboxes/$carol"
  equal "$(events '.event == "mail"' | wc -l)" 1
  has_event '.event == "mail" and (.path | startswith("inboxes/\($carol)/"))' --arg carol "$carol"
}

@test "a failed send reports that the service is away, and a successful one that it is back" {
  start_mount
  holds "$MOUNT/status.json" .online
  stop_service
  message "$BOB" "waits" >"$MOUNT/outbox/waits"
  wait_until 10 has_event '.event == "offline"'
  holds "$MOUNT/status.json" '.online | not'
  start_service
  echo "retry all" >"$MOUNT/ctl"
  wait_sent waits
  wait_until 10 has_event '.event == "online"'
  holds "$MOUNT/status.json" .online
  equal "$(events '.event == "offline"' | wc -l)" 1
  # Nothing was asked for: what is new there does not show.
  run ! mounted "$BOB" "waits"
}

@test "a failed upload reports that the service is away" {
  start_mount
  stop_service
  echo data >"$MOUNT/attachments/data.txt"
  wait_until 10 has_event '.event == "offline"'
  holds "$MOUNT/status.json" '.online | not'
}

@test "offline and online are reported once each" {
  start_mount
  refresh
  stop_service
  for _ in 1 2 3; do
    syscall write "$MOUNT/ctl" w $'sync\n' || true
  done
  wait_until 5 has_event '.event == "offline" and (.error | length > 3)'
  equal "$(events '.event == "offline"' | wc -l)" 1
  start_service
  refresh
  refresh
  wait_until 5 has_event '.event == "online"'
  equal "$(events '.event == "online"' | wc -l)" 1
}

@test "head -n1 events waits for the next event, prints it, and ends" {
  start_mount
  refresh
  head -n1 "$MOUNT/events" >"$DIR/next" 2>"$DIR/words" 3>&- &
  local reader=$!
  # It must have it open before something happens.
  wait_until 10 eval 'readlink /proc/'$reader'/fd/* | grep -qx "$MOUNT/events"'
  send_from_elsewhere "$ALICE" "$BOB" awaited
  refresh
  wait_until 10 process_is_gone "$reader"
  wait "$reader"
  equal "$(cat "$DIR/words")" ""
  holds "$DIR/next" '.event == "mail"'
}

@test "a shell that reads events line by line gets every line, however many come at once" {
  start_mount
  refresh
  # It reads more than a line at once, and seeks back.
  bash -c 'while IFS= read -r line; do printf "%s\n" "$line"; done <"$1"' - "$MOUNT/events" >"$DIR/read" 3>&- &
  local reader=$!
  wait_until 10 eval 'readlink /proc/'$reader'/fd/* | grep -qx "$MOUNT/events"'
  send_many_from_elsewhere "$ALICE" "$BOB" line 30
  refresh
  wait_until 20 eval '[ "$(wc -l <"$DIR/read")" -ge 30 ]'
  kill "$reader"
  wait "$reader" || true
  equal "$(cat "$DIR/read")" "$(tail -n 30 "$MOUNT/events.jsonl")"
}

refuse() # NUMBER...
{
  local i
  for i; do
    echo "no message" >"$MOUNT/drafts/bad-$i"
    expect EBADMSG rename "$MOUNT/drafts/bad-$i" "$MOUNT/outbox/bad-$i"
  done
}

@test "tail -f follows events.jsonl" {
  start_mount
  refresh
  refuse 1
  tail -n 1 -f -s 0.1 "$MOUNT/events.jsonl" >"$DIR/tail" 2>/dev/null 3>&- &
  local tail=$!
  wait_until 10 grep -q 'bad-1' "$DIR/tail"
  send_from_elsewhere "$ALICE" "$BOB" "followed"
  refresh
  wait_until 10 grep -q '"mail"' "$DIR/tail"
  kill "$tail"
  wait "$tail" || true
}

@test "poll and epoll report that events has data, and a non-blocking read does not wait" {
  start_mount
  refresh
  python3 - "$MOUNT/events" "$DIR/ready" >"$DIR/seen" 3>&- <<'EOF' &
import os, select, sys
events = os.open(sys.argv[1], os.O_RDONLY | os.O_NONBLOCK)
poll, epoll = select.poll(), select.epoll()
poll.register(events, select.POLLIN)
epoll.register(events, select.EPOLLIN)
print("before", poll.poll(0), epoll.poll(0), [poll.poll(1) for _ in range(20)].count([]))
try:
    os.read(events, 4096)
except BlockingIOError:
    print("EAGAIN")
open(sys.argv[2], "w").close()
print("poll", len(poll.poll(20000)), "epoll", len(epoll.poll(20)))
print(os.read(events, 4096).decode(), end="")
print("after", poll.poll(0), epoll.poll(0))
EOF
  local reader=$!
  wait_until 10 test -e "$DIR/ready"
  refuse 1
  within 20 wait "$reader"
  equal "$(sed -n '1p;2p;3p;5p' "$DIR/seen" | paste -sd ';')" "before [] [] 20;EAGAIN;poll 1 epoll 1;after [] []"
  equal "$(sed -n 4p "$DIR/seen" | jq -r .event)" refused
}

@test "each reader of events gets every line, while one is stopped and another does not read" {
  local readers=() i
  start_mount
  refresh
  for i in 1 2 3 4; do
    head -n 30 "$MOUNT/events" >"$DIR/reader-$i" 2>/dev/null 3>&- &
    readers+=($!)
  done
  for i in "${readers[@]}"; do
    wait_until 10 eval 'readlink /proc/'"$i"'/fd/* | grep -qx "$MOUNT/events"'
  done
  exec 4<"$MOUNT/events"
  kill -STOP "${readers[3]}"
  within 20 refuse {1..30}
  for i in 0 1 2; do
    wait_until 10 process_is_gone "${readers[i]}"
  done
  tail -n 30 "$MOUNT/events.jsonl" >"$DIR/expected"
  equal "$(jq -r .event "$DIR/expected" | sort | uniq -c | xargs)" "30 refused"
  for i in 1 2 3; do
    cmp "$DIR/reader-$i" "$DIR/expected"
  done
  # They have missed nothing.
  kill -CONT "${readers[3]}"
  wait_until 10 process_is_gone "${readers[3]}"
  cmp "$DIR/reader-4" "$DIR/expected"
  within 10 head -n 30 <&4 >"$DIR/late"
  exec 4<&-
  cmp "$DIR/late" "$DIR/expected"
}

@test "tail -f and tail -F get every event once when the older of the two files is removed" {
  local form inode tails=()
  (umask 077 && mkdir "$STATE")
  seq 20000 | sed 's/.*/{"time":"2026-11-01T00:00:00.000Z","event":"sent","path":"sent\/&","id":null}/' |
    head -c 524000 | sed '$d' | tee "$STATE/events.jsonl.1" >"$STATE/events.jsonl"
  start_mount
  inode=$(stat -c %i "$MOUNT/events.jsonl")
  for form in f F; do
    tail -n 0 "-$form" -s 0.05 "$MOUNT/events.jsonl" >"$DIR/tail-$form" 2>"$DIR/words-$form" 3>&- &
    tails+=($!)
    wait_until 10 grep -q '^pos:.*[1-9]' "/proc/$!/fdinfo/3" # it has the file, and is at its end
  done
  refuse {1..30}
  # When nothing happens for a while, -F looks whether the name has come to be another file.
  inotifywait -m -e open "$MOUNT" >"$DIR/opened" 2>"$DIR/inotifywait.log" 3>&- &
  tails+=($!)
  wait_until 10 grep -q 'OPEN events.jsonl' "$DIR/opened"
  refuse {31..40}
  for form in f F; do
    wait_until 10 grep -q bad-40 "$DIR/tail-$form"
    equal "$(jq -r 'select(.event == "refused").path' "$DIR/tail-$form")" "$(seq -f 'drafts/bad-%g' 40)"
    equal "$(cat "$DIR/words-$form")" ""
  done
  kill "${tails[@]}"
  wait "${tails[@]}" || true
  [ "$(stat -c %s "$MOUNT/events.jsonl")" -lt 600000 ]
  equal "$(stat -c %i "$MOUNT/events.jsonl")" "$inode"
  equal "$(head -c 1 "$MOUNT/events.jsonl")" "{"
  equal "$(tail -n 1 "$MOUNT/events.jsonl" | jq -r .path)" drafts/bad-40
}

@test "events.jsonl is a regular read-only file with a size, and can be sought in" {
  start_mount
  refresh
  send_from_elsewhere "$ALICE" "$BOB" "ordinary"
  refresh
  wait_until 5 has_event '.event == "mail"'
  has_true_size "$MOUNT/events.jsonl"
  tail -c 10 "$MOUNT/events.jsonl" | grep -q '}'
  run ! bash -c 'echo x >> "$1"' - "$MOUNT/events.jsonl"
  expect EPERM unlink "$MOUNT/events.jsonl"
  expect EPERM rename "$MOUNT/events.jsonl" "$MOUNT/drafts/events"
}

@test "events survive a restart of the daemon" {
  start_mount
  refresh
  send_from_elsewhere "$ALICE" "$BOB" "before"
  refresh
  wait_until 5 has_event '.event == "mail"'
  stop_mount
  start_mount
  has_event '.event == "mail"'
}

@test "everything in memory is readable at once while the service hangs" {
  start_mount --poll-interval=1
  send_from_elsewhere "$ALICE" "$BOB" "in memory"
  refresh
  freeze_service
  syscall write "$MOUNT/ctl" w $'sync\n' >/dev/null 3>&- &
  local sync=$!
  at_once ls -la "$MOUNT/inboxes/$BOB" >/dev/null
  at_once mounted "$BOB" "in memory"
  at_once cat "$MOUNT/status.json" >/dev/null
  at_once bash -c 'echo x > "$1"' - "$MOUNT/drafts/x"
  message "$BOB" "while it hangs" >"$DIR/m"
  at_once cp "$DIR/m" "$MOUNT/outbox/m"
  at_once ls "$MOUNT/outbox" >/dev/null
  kill -CONT "$SERVICE_PID"
  wait "$sync" || true
  wait_sent m
  has_received "$BOB" "while it hangs"
}

# It has opened ctl, and waits for an answer: to what it writes.
writes_to_ctl() # PID
{
  [ "$(readlink "/proc/$1/fd/1")" = "$MOUNT/ctl" ] && grep -q wait_answer "/proc/$1/wchan"
}

# A shell that itself writes to ctl, whose job ends while it waits for the answer.
sync_with_a_job_that_ends() {
  bash -c 'read -r _ <"$2" & echo sync >"$1"' - "$MOUNT/ctl" "$DIR/go" 2>"$DIR/words" 3>&- &
  writer=$!
  wait_until 10 writes_to_ctl "$writer"
  timeout 10 sh -c 'echo >"$1"' - "$DIR/go"
  wait_until 10 eval '[ "$(ps -o state= --ppid '$writer')" = Z ]'
}

@test "a job of the shell that ends does not interrupt its ctl sync, and Ctrl-C afterwards does" {
  local writer
  mkfifo "$DIR/go"
  start_mount
  freeze_service
  sync_with_a_job_that_ends
  kill -CONT "$SERVICE_PID"
  wait "$writer"
  equal "$(cat "$DIR/words")" ""

  freeze_service
  sync_with_a_job_that_ends
  kill -TERM "$writer"
  wait_until 5 process_is_gone "$writer"
  run ! wait "$writer"
  kill -CONT "$SERVICE_PID"
}

@test "a hanging ctl sync can be interrupted" {
  start_mount
  freeze_service
  syscall write "$MOUNT/ctl" w $'sync\n' >/dev/null 3>&- &
  local sync=$!
  wait_until 5 grep -q . "/proc/$sync/wchan"
  kill -INT "$sync"
  kill -TERM "$sync"
  wait_until 5 process_is_gone "$sync"
  wait "$sync" || true
  kill -CONT "$SERVICE_PID"
}
