#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# The folder beside each email: bodies, attachments, the raw message, the thread.

load support
load scripted

teardown() {
  stop_all
}

# Requests to the service so far, by all.
asked() {
  jq .counters.requests "$MOUNT/status.json"
}

# Sends from bob to alice at the service itself: more fields of the request as JSON.
send_fields() # JSON
{
  jq -n --arg from "$BOB" --arg to "$ALICE" --argjson more "$1" \
    '{from_address: $from, to_addresses: [{address: $to, name: null}]} + $more' |
    api POST /email/send -H 'Content-Type: application/json' -d @- >/dev/null
}

pool_id() # FILE NAME
{
  api POST /email/add-attachment-to-pool -F "file=@$1;filename=$2" | jq -r .id
}

# What is in a folder, in order.
names() # FOLDER
{
  find "$1" -mindepth 1 -maxdepth 1 -printf '%f\n' | LC_ALL=C sort | tr '\n' ' '
}

start_with_inboxd() {
  start_two_inboxes
  refresh
  wait_for_folders "$ALICE"
}

# Emails mail-1 … mail-N with content "body N" at the scripted service, and a mount that knows of the content.
start_with_contents() # COUNT [OPTION of inboxfs...]
{
  start_scripted_service
  jq -nc --argjson count "$1" 'range(1; $count + 1) | {id: "mail-\(.)", inbox_id: "in-1", subject: "subject \(.)",
    date: "2026-11-20T10:\(. % 60 + 100 | tostring | .[1:]):00Z"}' | server_has_emails
  jq -nc --argjson count "$1" '{contents: ([range(1; $count + 1) | {key: "mail-\(.)",
    value: {id: "mail-\(.)", subject: "subject \(.)", plain_text: "body \(.)", attachments: [
      {id: "a", filename: "a.txt"}]}}] | from_entries),
    raws: ([range(1; $count + 1) | {key: "mail-\(.)", value: "Subject: \(.)\r\n\r\nraw \(.)"}] | from_entries),
    files: ([range(1; $count + 1) | {key: "mail-\(.)/a", value: "attached \(.)"}] | from_entries)}' >"$DIR/control"
  control "$(<"$DIR/control")"
  start_mount "${@:2}"
  refresh
  wait_for_folders in-1
}

# ---------------------------------------------------------------- what it holds

@test "after the first sync the folders of all emails exist" {
  start_service
  start_mount
  mkdir "$MOUNT/inboxes/$ALICE"
  ls "$MOUNT" "$MOUNT/inboxes/$ALICE" >/dev/null
  echo sync >"$MOUNT/ctl"
  has_folders "$ALICE"
  [ -d "$MOUNT/maildir/$ALICE/cur" ]
}

@test "the folder of an email holds its body, its raw message and its attachments" {
  start_service
  create_inboxes "$ALICE" "$BOB"
  head -c 100000 /dev/urandom >"$DIR/photo.jpg"
  local id
  id=$(pool_id "$DIR/photo.jpg" photo.jpg)
  send_fields "$(jq -nc --arg id "$id" '{subject: "the photo", plain_text: "Here it is.\n", html: "<p>Here it <b>is</b>.</p>",
    alternative_content: true, attachment_ids: [$id]}')"
  start_mount
  refresh
  wait_for_folders "$ALICE"
  local it
  it=$(folder "$ALICE" "the photo")
  equal "$(names "$it")" "attachments body.html body.txt message.eml new.txt prompt.md thread.md "
  equal "$(cat "$it/body.txt")" "Here it is."
  equal "$(cat "$it/body.html")" "<p>Here it <b>is</b>.</p>"
  cmp "$it/attachments/photo.jpg" "$DIR/photo.jpg"
  id=$(received "$ALICE" "the photo" | jq -r '.[0].id')
  api GET "/email/$id/raw" | cmp - "$it/message.eml"
  api GET "/email/$id" >"$DIR/content"
  jq -j .prompt "$DIR/content" | cmp - "$it/prompt.md"
  jq -j .thread_prompt "$DIR/content" | cmp - "$it/thread.md"
}

@test "sizes are exact, and times are those of the email" {
  start_with_inboxd
  send_fields '{"subject": "sizes", "plain_text": "four", "html": "<p>four</p>"}'
  refresh
  local it file
  it=$(folder "$ALICE" sizes)
  for file in "$it"/*; do
    [ -d "$file" ] || has_true_size "$file"
    equal "$file $(stat -c %Y "$file")" "$file $(stat -c %Y "$it.json")"
  done
  equal "$(stat -c %A "$it/body.txt" "$it")" $'-r--r--r--\ndrwx------'
}

@test "HTML without a text part is readable as text" {
  start_with_inboxd
  send_fields '{"subject": "html", "plain_text": "", "html": "<h1>Sale</h1><p>All <b>must</b> go.</p><script>x</script>"}'
  refresh
  grep -q 'All must go' "$(folder "$ALICE" html)/body.txt"
  run ! grep -q script "$(folder "$ALICE" html)/body.txt"
}

@test "new.txt has no quoted history" {
  start_with_inboxd
  send_fields '{"subject": "history", "plain_text": "Yes, at noon.\n\nOn Mon, Nov 2, 2026 Alice wrote:\n> Lunch?\n"}'
  refresh
  equal "$(cat "$(folder "$ALICE" history)/new.txt")" "Yes, at noon."
}

@test "new.txt of an email that answers nothing has every line" {
  start_with_inboxd
  send_fields '{"subject": "setup", "plain_text": "Run this:\n\n> npm install\n\nFrom: me\nTo: you\nSubject: it\n"}'
  refresh
  cmp "$(folder "$ALICE" setup)/new.txt" "$(folder "$ALICE" setup)/body.txt"
}

@test "a folder shows only files that exist" {
  start_scripted_service
  server_has_email '{"id": "e-1", "inbox_id": "in-1", "subject": "bare", "date": "2026-11-20T10:00:00Z"}'
  server_has_email '{"id": "e-2", "inbox_id": "in-1", "subject": "also", "date": "2026-11-20T10:00:00Z"}'
  control '{"contents": {"e-1": {"id": "e-1", "html": "<p>x</p>"}, "e-2": {"id": "e-2", "plain_text": "y", "prompt": null}}}'
  start_mount
  refresh
  wait_for_folders in-1
  equal "$(names "$(folder in-1 bare)")" "body.html body.txt new.txt "
  equal "$(names "$(folder in-1 also)")" "body.txt new.txt "
  missing "$(folder in-1 bare)/message.eml" "$(folder in-1 bare)/attachments" "$(folder in-1 bare)/prompt.md"
}

@test "thread/ links to earlier emails in the mount, and holds copies of all others" {
  start_with_inboxd
  send_fields '{"subject": "lunch", "plain_text": "Lunch?"}'
  local id
  id=$(received "$ALICE" lunch | jq -r '.[0].id')
  jq -n --arg from "$ALICE" --arg to "$BOB" --arg id "$id" '{from_address: $from, subject: "Re: lunch",
    plain_text: "Gladly.", existing_email_id: $id, message_type: "reply", to_addresses: [{address: $to, name: null}]}' |
    api POST /email/send -H 'Content-Type: application/json' -d @- >/dev/null
  id=$(received "$BOB" "Re: lunch" | jq -r '.[0].id')
  send_fields "$(jq -nc --arg id "$id" '{subject: "Re: Re: lunch", plain_text: "At noon.", existing_email_id: $id,
    message_type: "reply"}')"
  refresh
  local it first
  it=$(folder "$ALICE" "Re: Re: lunch")
  first=$(folder "$ALICE" lunch)
  equal "$(names "$it/thread" | wc -w)" 2
  equal "$(readlink "$it/thread/${first##*/}.md")" "../../${first##*/}/prompt.md"
  grep -q 'Lunch?' "$it/thread/${first##*/}.md"
  grep -q Gladly "$it"/thread/*_re-lunch_*.md
  # Who follows links, too, reads each email once.
  equal "$(find -L "$it" -path '*/thread/*' | wc -l)" 2
}

@test "thread/ links to body.txt if the service gives no Markdown" {
  start_scripted_service
  server_has_email '{"id": "e-1", "inbox_id": "in-1", "subject": "first", "date": "2026-11-20T10:00:00Z"}'
  server_has_email '{"id": "e-2", "inbox_id": "in-1", "subject": "second", "date": "2026-11-20T11:00:00Z"}'
  jq -nc '{contents: {"e-1": {id: "e-1", plain_text: "One."}, "e-2": {id: "e-2", plain_text: "Two.",
    previous_emails: [{id: "e-1", subject: "first", date: "2026-11-20T10:00:00Z", plain_text: "One."}]}}}' \
    >"$DIR/control"
  control "$(<"$DIR/control")"
  start_mount
  refresh
  wait_for_folders in-1
  local first it
  first=$(folder in-1 first)
  it=$(folder in-1 second)/thread
  equal "$(readlink "$it/${first##*/}.txt")" "../../${first##*/}/body.txt"
  equal "$(cat "$it/${first##*/}.txt")" "One."
}

@test "names of attachments are harmless" {
  start_scripted_service
  server_has_email '{"id": "e-1", "inbox_id": "in-1", "subject": "names", "date": "2026-11-20T10:00:00Z"}'
  jq -nc '["../../etc/passwd", "/etc/shadow", "..", ".bashrc", "a\nb.txt", "\u202etxt.exe", "", null, "twice.pdf",
           "twice.pdf", ("x" * 5000 + ".pdf"), "naïve ☂.txt", "  .  ", "con\u0000trol", "a/b\\c"] |
    {contents: {"e-1": {id: "e-1", attachments: [to_entries[] | {id: "a\(.key)", filename: .value}]}},
     files: ([to_entries[] | {key: "e-1/a\(.key)", value: "file \(.key)"}] | from_entries)}' >"$DIR/control"
  control "$(<"$DIR/control")"
  start_mount
  refresh
  wait_for_folders in-1
  local it name
  it=$(folder in-1 names)
  equal "$(find "$it/attachments" -type f | wc -l)" 15
  find "$it/attachments" -mindepth 1 -printf '%f\n' >"$DIR/names"
  equal "$(wc -l <"$DIR/names")" 15
  run ! grep -P '^[-.]|[\x00-\x1f]|\x{202e}' "$DIR/names"
  while read -r name; do
    [ "${#name}" -le 255 ]
    cat "$it/attachments/$name" >/dev/null
  done <"$DIR/names"
  equal "$(cat "$it/attachments/twice.pdf" "$it/attachments/twice-2.pdf")" "file 8file 9"
  equal "$(cat "$it/attachments/naïve ☂.txt")" "file 11"
  grep -qx 'x*\.pdf' "$DIR/names"
}

@test "each of hundreds of attachments has its own content" {
  start_scripted_service
  server_has_email '{"id": "e-1", "inbox_id": "in-1", "subject": "many", "date": "2026-11-20T10:00:00Z"}'
  jq -nc '[range(300)] |
    {contents: {"e-1": {id: "e-1", attachments: [.[] | {id: "a\(.)", filename: "file-\(.).txt"}]}},
     files: ([.[] | {key: "e-1/a\(.)", value: "content \(.)"}] | from_entries)}' >"$DIR/control"
  control "$(<"$DIR/control")"
  start_mount
  refresh
  wait_for_folders in-1
  local it number
  it=$(folder in-1 many)/attachments
  for number in 0 1 43 44 255 256 257 299; do
    equal "$(cat "$it/file-$number.txt")" "content $number"
  done
}

@test "tar cf x * among the attachments runs nothing that a sender chose" {
  start_scripted_service
  server_has_email '{"id": "e-1", "inbox_id": "in-1", "subject": "names", "date": "2026-11-20T10:00:00Z"}'
  jq -nc --arg script "touch '$DIR/ran'" '["--checkpoint=1", "--checkpoint-action=exec=sh x.sh", "x.sh", "-", "--", " -rf"] |
    {contents: {"e-1": {id: "e-1", attachments: [to_entries[] | {id: "a\(.key)", filename: .value}]}},
     files: ([to_entries[] | {key: "e-1/a\(.key)", value: $script}] | from_entries)}' >"$DIR/control"
  control "$(<"$DIR/control")"
  start_mount
  refresh
  wait_for_folders in-1
  # shellcheck disable=SC2035 # that is what people write
  (cd "$(folder in-1 names)/attachments" && tar cf "$DIR/x.tar" *)
  missing "$DIR/ran"
  equal "$(tar tf "$DIR/x.tar" | wc -l)" 6
  run ! grep -q '^-' <(tar tf "$DIR/x.tar")
}

@test "attachments whose names differ only in case or normalisation get names that differ in more" {
  start_scripted_service
  server_has_email '{"id": "e-1", "inbox_id": "in-1", "subject": "names", "date": "2026-11-20T10:00:00Z"}'
  jq -nc '["Report.pdf", "REPORT.PDF", "report.pdf", "r\u00e9sum\u00e9", "re\u0301sume\u0301", "RE\u0301SUM\u00c9", "report-2.PDF"] |
    {contents: {"e-1": {id: "e-1", attachments: [to_entries[] | {id: "a\(.key)", filename: .value}]}},
     files: ([to_entries[] | {key: "e-1/a\(.key)", value: "file \(.key)"}] | from_entries)}' >"$DIR/control"
  control "$(<"$DIR/control")"
  start_mount
  refresh
  wait_for_folders in-1
  python3 - "$(folder in-1 names)/attachments" <<'END' >"$DIR/folded"
import os, sys, unicodedata
for name in os.listdir(sys.argv[1]):
    print(unicodedata.normalize("NFD", unicodedata.normalize("NFD", name).casefold()))
END
  equal "$(sort -u "$DIR/folded" | wc -l)" 7
  # The first of a kind is called what its sender calls it.
  equal "$(cat "$(folder in-1 names)/attachments/Report.pdf" "$(folder in-1 names)/attachments/résumé")" "file 0file 3"
}

# What a reader of the worst of terminals is left with: bytes that move and wipe are obeyed.
terminal() {
  python3 -c '
import re, sys
screen, line, column = [], [], 0
text = sys.stdin.buffer.read().decode()
for token in re.findall(r"(?s)\x1b\[2J|\x9b2J|.", text):
    if token in ("\f", "\v", "\x1b[2J", "\x9b2J"):
        screen, line, column = [], [], 0
    elif token in "\n\x85":
        screen, line, column = screen + ["".join(line)], [], 0
    elif token == "\r":
        column = 0
    elif token == "\b":
        column = max(column - 1, 0)
    elif token == "\u202e":
        line = line[::-1]
    else:
        line[column:column + 1] = [token]
        column += 1
print("\n".join(screen + ["".join(line)]))'
}

@test "cat of a text shows all of it, whatever control characters its sender used" {
  start_scripted_service
  server_has_email '{"id": "e-1", "inbox_id": "in-1", "subject": "texts", "date": "2026-11-20T10:00:00Z"}'
  local between text it file
  for between in '\r' '\f' '\u000b' '\b\b\b\b\b\b\b\b' '\u001b[2J' '\u009b2J' '\u202e' '\r\r\f'; do
    text+="secret$between"'innocent\n'
    text+="\\nnext$between"'line\r\n'
  done
  # It would hide something, were it not for the mount.
  [ "$(jq -rn "\"$text\"" | terminal | grep -c 'secret\|next')" -lt 8 ] || fail "the terminal obeys nothing"
  control "{\"contents\": {\"e-1\": {\"id\": \"e-1\", \"plain_text\": \"$text\", \"prompt\": \"$text\",
    \"thread_prompt\": \"$text\"}}}"
  start_mount
  refresh
  wait_for_folders in-1
  it=$(folder in-1 texts)
  for file in body.txt new.txt prompt.md thread.md; do
    cat "$it/$file" >"$DIR/seen"
    terminal <"$DIR/seen" >"$DIR/shown"
    for word in secret innocent next line; do
      equal "$file $word $(grep -o "$word" "$DIR/shown" | wc -l)" "$file $word 8"
    done
    # All programs see the same lines.
    python3 -c 'import sys; text = open(sys.argv[1], newline="").read(); assert text.splitlines() == text[:-1].split("\n")' \
      "$DIR/seen"
    run -1 grep -aP '[\x00-\x08\x0b-\x1f\x7f]' "$DIR/seen"
    run -1 grep -P '[\x{80}-\x{9f}\x{2028}-\x{202e}\x{2066}-\x{2069}]' "$DIR/seen"
  done
}

@test "nothing in the folder can be changed" {
  start_with_inboxd
  local it
  it=$(folder "$ALICE" "$(jq -r .subject "$MOUNT/inboxes/$ALICE"/*_*.json)")
  expect EACCES truncate "$it/body.txt" 0
  run ! rm -f "$it/body.txt"
  run ! mkdir "$it/new"
  run ! touch "$it/new"
  run ! mv "$it/body.txt" "$it/other"
  run ! rmdir "$it"
  run ! mv "$it" "$it-2"
  present "$it/body.txt"
}

# ---------------------------------------------------------------- when it is fetched

@test "listing an inbox or stat of a folder sends no request; listing the folder sends one" {
  start_with_contents 10
  local before it
  before=$(asked)
  ls -l "$MOUNT/inboxes/in-1" >/dev/null
  it=$(folder in-1 "subject 5")
  stat "$it" >/dev/null
  equal "$(asked)" "$before"
  ls "$it" "$it/attachments" >/dev/null
  equal "$(asked)" $((before + 1))
  ls -l "$it" "$it/attachments" >/dev/null # the sizes of message and attachment
  equal "$(asked)" $((before + 3))
  cat "$it"/*.txt "$it/message.eml" "$it/attachments/a.txt" >/dev/null
  ls -lR "$it" >/dev/null
  equal "$(asked)" $((before + 3))
}

@test "twenty readers at once cause one transfer" {
  start_with_contents 10
  local it before i
  it=$(folder in-1 "subject 5")
  before=$(server_requests content | jq length)
  server_answers content '{"delay_ms": 700, "body": {"id": "mail-5", "plain_text": "slowly"}}'
  local readers=()
  for ((i = 0; i < 20; i++)); do
    cat "$it/body.txt" >"$DIR/read.$i" &
    readers+=($!)
  done
  wait "${readers[@]}"
  for ((i = 0; i < 20; i++)); do
    equal "$(cat "$DIR/read.$i")" slowly
  done
  equal "$(server_requests content | jq length)" $((before + 1))
}

@test "content that was read is readable offline, and after a restart" {
  start_with_contents 10
  local it
  it=$(folder in-1 "subject 5")
  cat "$it/body.txt" "$it/message.eml" "$it/attachments/a.txt" >"$DIR/online"
  stop_mount
  stop_service
  start_mount
  cat "$it/body.txt" "$it/message.eml" "$it/attachments/a.txt" | cmp - "$DIR/online"
}

@test "content that was never read fails offline at once, with a reason" {
  start_with_contents 10
  stop_mount
  stop_service
  start_mount
  local it
  it=$(folder in-1 "subject 5")
  present "$it"
  within 5 expect EHOSTUNREACH open "$it/body.txt" r
  within 5 expect EHOSTUNREACH open "$it/message.eml" r
}

@test "each refusal of the service has its errno" {
  start_with_contents 10
  local it
  it=$(folder in-1 "subject 5")
  server_answers content '"403"'
  expect EACCES open "$it/body.txt" r
  server_answers content '"500"'
  expect EIO open "$it/body.txt" r
  server_answers content '"ok-html"'
  expect EIO open "$it/body.txt" r
  server_answers content '"404"'
  expect ENOENT open "$it/body.txt" r
  server_answers content
  equal "$(cat "$it/body.txt")" "body 5"
}

@test "a reader can be interrupted, and other readers do not wait meanwhile" {
  start_with_contents 10
  local it reader
  it=$(folder in-1 "subject 5")
  server_answers content '"stall-before"'
  cat "$it/body.txt" >/dev/null 2>&1 &
  reader=$!
  wait_until 20 server_saw_stalled
  within 5 ls -l "$MOUNT/inboxes/in-1" >/dev/null
  within 5 cat "$MOUNT/inboxes/in-1"/*.json >/dev/null
  kill -INT "$reader"
  kill -TERM "$reader"
  wait_until 5 process_is_gone "$reader"
  server_answers content
}

@test "an email that disappears while a reader waits for its folder does not hang the reader" {
  start_with_contents 10
  stop_mount
  start_mount_on_clock
  refresh
  local it reader lister
  it=$(folder in-1 "subject 5")
  server_answers email '{"body": [{"id": "mail-1", "inbox_id": "in-1", "subject": "subject 1"},
    {"id": "mail-11", "inbox_id": "in-1", "subject": "subject 11", "date": "2026-11-20T11:00:00Z"}]}'
  refresh # the first list without it
  pass_time 61
  server_answers content '"stall-before"'
  cat "$it/body.txt" >/dev/null 2>&1 &
  reader=$!
  ls "$it" >/dev/null 2>&1 &
  lister=$!
  wait_until 20 server_saw_stalled
  within 10 refresh
  wait_until 10 mounted in-1 "subject 11"
  within 5 ls -l "$MOUNT/inboxes/in-1" >"$DIR/list"
  run ! grep -q subject-5 "$DIR/list"
  run ! test -e "$it.json"
  kill "$reader" "$lister"
  wait_until 10 process_is_gone "$reader"
  wait_until 10 process_is_gone "$lister"
  server_answers content
}

server_saw_stalled() {
  server_requests content | jq -e 'any(.[]; .path | endswith("/mail-5"))'
}

request_threads() {
  cat "/proc/$MOUNT_PID/task"/*/comm 2>/dev/null | grep -c '^fs-request$'
}

# Each in a thread, and one that reads the device.
readers_have_threads() { # COUNT
  [ "$(request_threads)" -gt "$1" ]
}

@test "a message can be handed in however many readers wait for the service" {
  start_with_contents 70
  local it i readers=()
  server_answers content '"stall-before"'
  for it in "$MOUNT/inboxes/in-1"/*/; do
    cat "$it/body.txt" >/dev/null 2>&1 &
    readers+=("$!")
  done
  wait_until 20 readers_have_threads 60
  message "$BOB" "meanwhile" >"$DIR/message"
  within 5 cp "$DIR/message" "$MOUNT/outbox/meanwhile"
  wait_sent meanwhile
  is_sent_times meanwhile 1
  kill "${readers[@]}"
  for i in "${readers[@]}"; do
    wait_until 10 process_is_gone "$i"
  done
  server_answers content
}

# A thread for each email, in open(2) of a text that does not come. The kernel looks each name up once for all
# who ask for it, so each has its own.
start_a_thousand_readers() {
  python3 - "$MOUNT/inboxes/in-1"/*/ <<'END' 3>&- &
import os, sys, threading
threading.stack_size(256 * 1024)
def read(path):
    try:
        os.close(os.open(path + "body.txt", os.O_RDONLY))
    except OSError:
        pass
for path in sys.argv[1:]:
    threading.Thread(target=read, args=(path,)).start()
END
  READERS=$!
}

# Most of them, by the function of the kernel that they sleep in. After 30 s the first ones give up.
all_readers_wait() {
  [ "$(grep -l request_wait_answer "/proc/$READERS/task"/*/wchan 2>/dev/null | wc -l)" -ge 500 ]
}

write_a_draft() {
  printf 'a draft' >"$MOUNT/drafts/meanwhile" && rm "$MOUNT/drafts/meanwhile"
}

@test "a thousand readers that wait for the service do not delay others, and can be interrupted" {
  start_with_contents 1000
  server_answers content '"stall-before"'
  start_a_thousand_readers
  wait_until 60 all_readers_wait
  [ "$(within 5 ls "$MOUNT/inboxes/in-1" | wc -l)" -ge 1000 ]
  within 5 ls -l "$MOUNT" >/dev/null
  within 5 cat "$MOUNT/status.json" >/dev/null
  within 5 cat "$MOUNT/inboxes/in-1/index.jsonl" >/dev/null
  message "$BOB" "meanwhile" >"$DIR/message"
  within 5 cp "$DIR/message" "$MOUNT/outbox/meanwhile"
  within 10 sync "$MOUNT/outbox"
  is_sent_times meanwhile 1
  within 5 write_a_draft
  kill -9 "$READERS"
  wait_until 10 process_is_gone "$READERS"
  server_answers content
  within 10 cat "$MOUNT/inboxes/in-1"/*1/body.txt >/dev/null
}

# A process for each email, with a handler for a signal that tells of no wish to end.
start_readers_with_handlers() {
  python3 - "$MOUNT/inboxes/in-1"/*/ <<'END' 3>&- &
import os, signal, sys
readers = []
signal.signal(signal.SIGWINCH, lambda *_: None)
for path in sys.argv[1:]:
    child = os.fork()
    if child == 0:
        try:
            os.close(os.open(path + "body.txt", os.O_RDONLY))
        finally:
            os._exit(0)
    readers.append(child)
signal.signal(signal.SIGWINCH, lambda *_: [os.kill(reader, signal.SIGWINCH) for reader in readers])
signal.signal(signal.SIGTERM, lambda *_: [os.kill(reader, signal.SIGTERM) for reader in readers])
for reader in readers:
    os.waitpid(reader, 0)
END
  READERS=$!
}

readers_with_handlers_wait() { # COUNT
  local files
  mapfile -t files < <(pgrep -P "$READERS" | sed 's|.*|/proc/&/wchan|')
  [ "$(grep -l request_wait_answer "${files[@]}" 2>/dev/null | wc -l)" -ge "$1" ]
}

@test "readers that wait and get a harmless signal do not delay others, and obey the next signal" {
  local i
  start_with_contents 200
  server_answers content '"stall-before"'
  start_readers_with_handlers
  wait_until 60 readers_with_handlers_wait 190
  kill -WINCH "$READERS"
  for i in {1..20}; do
    within 5 ls "$MOUNT/inboxes/in-1" >/dev/null
  done
  message "$BOB" "meanwhile" >"$DIR/message"
  within 5 cp "$DIR/message" "$MOUNT/outbox/meanwhile"
  wait_sent meanwhile
  kill -TERM "$READERS"
  wait_until 10 process_is_gone "$READERS"
  server_answers content
}

@test "a transfer that a kill cut off begins again" {
  start_with_contents 10
  local it reader
  it=$(folder in-1 "subject 5")
  server_answers raw '{"verbatim": "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf", "stall": true}'
  cat "$it/message.eml" >/dev/null 2>&1 &
  reader=$!
  wait_until 20 compgen -G "$STATE/cache/parts/*"
  kill_mount KILL
  wait "$reader" || true
  server_answers raw
  start_mount
  equal "$(tail -n 1 "$it/message.eml")" "raw 5"
  wait_until 20 eval '! compgen -G "$STATE/cache/parts/*"'
}

@test "a damaged copy is fetched again" {
  start_with_contents 10
  local it
  it=$(folder in-1 "subject 5")
  cat "$it/body.txt" "$it/message.eml" >"$DIR/before"
  stop_mount
  python3 -c 'import sqlite3, sys
with sqlite3.connect(sys.argv[1]) as database:
    changed = database.execute("UPDATE part_bytes SET bytes = CAST(x\x27ff\x27 || substr(bytes, 2) AS BLOB)").rowcount
    assert changed > 0' "$STATE/cache/mail.sqlite3"
  start_mount
  cat "$it/body.txt" "$it/message.eml" | cmp - "$DIR/before"
}

@test "the cache stays below its limit" {
  start_with_contents 10 --content-cache=1
  local i
  jq -n '{files: ([range(1; 11) | {key: "mail-\(.)/a", value: ("x" * 300000)}] | from_entries)}' >"$DIR/control"
  control "$(<"$DIR/control")"
  for ((i = 1; i <= 10; i++)); do
    equal "$(cat "$(folder in-1 "subject $i")/attachments/a.txt" | wc -c)" 300000
  done
  [ "$(du -sb "$STATE/cache/parts" | cut -f1)" -lt 1100000 ]
}

@test "grep -r reads every email, and fetches each once" {
  start_with_contents 300
  local before
  before=$(asked)
  ls -R "$MOUNT/inboxes/in-1" >/dev/null
  [ "$(($(asked) - before))" -le 300 ]
  equal "$(grep -rl 'body 2[0-9][0-9]$' "$MOUNT/inboxes/in-1" | grep -c 'body.txt')" 100
  # A content, a raw message and an attachment each.
  [ "$(($(asked) - before))" -le 900 ]
  equal "$(server_requests content | jq 'group_by(.path) | map(length) | max <= 2')" true # two: the probe's
  before=$(asked)
  equal "$(grep -rl 'attached 2[0-9][0-9]$' "$MOUNT/inboxes/in-1" | grep -c 'a.txt')" 100
  equal "$(asked)" "$before"
}

# ---------------------------------------------------------------- services without content

@test "a service without content shows no folders, and is not asked for ever" {
  start_scripted_service
  local i
  for i in 1 2 3 4 5; do
    server_has_email "{\"id\": \"e-$i\", \"inbox_id\": \"in-1\", \"subject\": \"s $i\", \"date\": \"2026-11-20T10:00:00Z\"}"
  done
  start_mount
  refresh
  wait_until 20 holds "$MOUNT/status.json" '.capabilities.content == "absent"'
  for i in 1 2 3 4 5; do
    refresh
  done
  run ! has_folders in-1
  equal "$(find "$MOUNT/inboxes/in-1" -type f | wc -l)" 7
  [ "$(server_requests content | jq length)" -le 3 ]
}

@test "one email without content proves nothing" {
  start_scripted_service
  server_has_email '{"id": "e-1", "inbox_id": "in-1", "subject": "one", "date": "2026-11-20T10:00:00Z"}'
  start_mount
  refresh
  refresh
  wait_until 20 server_saw content 1
  run ! has_folders in-1
  holds "$MOUNT/status.json" '.capabilities.content == "unknown"'
}

@test "content that appears at the service appears in the mount" {
  start_scripted_service
  server_has_email '{"id": "e-1", "inbox_id": "in-1", "subject": "one", "date": "2026-11-20T10:00:00Z"}'
  server_answers content '"503"'
  start_mount
  refresh
  run ! has_folders in-1
  server_answers content
  control '{"contents": {"e-1": {"id": "e-1", "plain_text": "now"}}}'
  wait_until 20 refresh_has_folders
  equal "$(cat "$(folder in-1 one)/body.txt")" now
}

refresh_has_folders() {
  refresh && has_folders in-1
}

@test "with --metadata-only there are no folders, and no content is requested" {
  start_scripted_service
  server_has_email '{"id": "e-1", "inbox_id": "in-1", "subject": "one", "date": "2026-11-20T10:00:00Z"}'
  control '{"contents": {"e-1": {"id": "e-1", "plain_text": "x"}}}'
  start_mount --metadata-only
  refresh
  refresh
  equal "$(find "$MOUNT/inboxes/in-1" -mindepth 1 | wc -l)" 3
  equal "$(server_requests content | jq length)" 0
  missing "$STATE/cache/parts"
}
