#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# A file that is put into attachments/ is uploaded to the pool, and messages can name it.

load support

setup() {
  start_two_inboxes
}

teardown() {
  stop_all
}

wait_uploaded() { # NAME
  wait_until 20 jq -e '.state == "uploaded" or (.id | type == "string")' "$MOUNT/attachments/$1.receipt.json"
}

with_attachment() { # SUBJECT NAME...
  printf 'From: %s\nTo: %s\nSubject: %s\n' "$ALICE" "$BOB" "$1"
  printf 'Attach: %s\n' "${@:2}"
  printf '\nSee attached.\n'
}

# The bytes of the attachment NAME of the email of SUBJECT that bob got.
arrived() { # SUBJECT NAME
  content "$BOB" "$1" >"$DIR/arrived"
  api GET "/email/$(jq -er .id "$DIR/arrived")/attachment/$(
    jq -er --arg name "$2" '.attachments[] | select(.filename == $name).id' "$DIR/arrived")"
}

attachment_type() { # SUBJECT NAME
  content "$BOB" "$1" | jq -r --arg name "$2" '.attachments[] | select(.filename == $name).content_type'
}

@test "cp of a file uploads it, and its receipt has the pool id" {
  head -c 100000 /dev/urandom >"$DIR/data.bin"
  cp "$DIR/data.bin" "$MOUNT/attachments/"
  wait_uploaded data.bin
  cmp "$MOUNT/attachments/data.bin" "$DIR/data.bin"
  holds "$MOUNT/attachments/data.bin.receipt.json" '.kind == "attachment" and (.id | length > 0)'
  wait_until 5 has_event '.event == "uploaded" and .path == "attachments/data.bin" and .id == $id' \
    --arg id "$(jq -r .id "$MOUNT/attachments/data.bin.receipt.json")"
}

@test "a message with an Attach header carries the file, with its name and type" {
  printf '%%PDF-1.4\n%%words\n' >"$MOUNT/attachments/report.pdf"
  with_attachment "report" report.pdf >"$MOUNT/drafts/m"
  mv "$MOUNT/drafts/m" "$MOUNT/outbox/"
  wait_sent m
  equal "$(arrived report report.pdf)" $'%PDF-1.4\n%words'
  equal "$(attachment_type report report.pdf)" application/pdf
}

@test "several attachments arrive in the order of the headers" {
  local i
  for i in 1 2 3; do
    echo "content $i" >"$MOUNT/attachments/$i.txt"
  done
  with_attachment "three" 2.txt 3.txt 1.txt >"$MOUNT/outbox/three"
  wait_sent three
  content "$BOB" three | jq -e '[.attachments[].filename] == ["2.txt", "3.txt", "1.txt"]'
  equal "$(arrived three 3.txt)" "content 3"
  equal "$(attachment_type three 1.txt)" text/plain
}

@test "file names with spaces, quotes, backslashes and UTF-8 arrive unchanged" {
  local name
  for name in 'two words.txt' 'back\slash.txt' 'Übersicht 你好.txt' "it's.txt" 'a "quoted" name.txt' 'semi;colon.txt' 'per%cent.txt'; do
    echo "$name" >"$MOUNT/attachments/$name"
    with_attachment "name: $name" "$name" >"$MOUNT/outbox/m"
    wait_sent m
    equal "$(arrived "name: $name" "$name")" "$name"
    wait_until 5 unlisted "$MOUNT/outbox/m"
    rm -f "$MOUNT"/sent/*
  done
}

@test "a file whose name starts with a dot or ends in ~ is not uploaded until it is renamed" {
  echo x >"$MOUNT/attachments/.x.part"
  within 5 sync "$MOUNT/attachments"
  missing "$MOUNT/attachments/.x.part.receipt.json"
  mv "$MOUNT/attachments/.x.part" "$MOUNT/attachments/x.txt"
  wait_uploaded x.txt
}

@test "rsync and install upload files" {
  echo rsynced >"$DIR/rsync.txt"
  echo installed >"$DIR/install.txt"
  rsync -a "$DIR/rsync.txt" "$MOUNT/attachments/"
  install -m 644 "$DIR/install.txt" "$MOUNT/attachments/"
  wait_uploaded rsync.txt
  wait_uploaded install.txt
  equal "$(cat "$MOUNT/attachments/rsync.txt" "$MOUNT/attachments/install.txt")" "rsynced"$'\n'"installed"
}

@test "mv of a draft into attachments uploads it" {
  echo drafted >"$MOUNT/drafts/file.txt"
  mv "$MOUNT/drafts/file.txt" "$MOUNT/attachments/"
  wait_uploaded file.txt
  equal "$(cat "$MOUNT/attachments/file.txt")" drafted
}

@test "sync of the folder waits until everything is uploaded" {
  local i
  for i in {1..5}; do
    head -c 200000 /dev/urandom >"$MOUNT/attachments/$i.bin"
  done
  sync "$MOUNT/attachments"
  for i in {1..5}; do
    holds "$MOUNT/attachments/$i.bin.receipt.json" '.id | type == "string"'
  done
}

@test "a message that names a file still being written waits for it" {
  exec 7>"$MOUNT/attachments/slow.txt"
  echo first >&7
  with_attachment "waits" slow.txt >"$MOUNT/outbox/waits"
  present "$MOUNT/outbox/waits"
  missing "$MOUNT/sent/waits"
  echo second >&7
  exec 7>&-
  wait_sent waits
  equal "$(arrived waits slow.txt)" "first"$'\n'"second"
}

@test "when the writer of an attachment dies, the message that names it fails" {
  mkfifo "$DIR/go"
  bash -c 'exec 7> "$1"; echo part >&7; read -r _ < "$2"; kill -KILL $$' - \
    "$MOUNT/attachments/dies.txt" "$DIR/go" 3>&- &
  wait_until 5 test -s "$MOUNT/attachments/dies.txt"
  with_attachment "never" dies.txt >"$MOUNT/outbox/never"
  echo >"$DIR/go"
  wait_failed never
  holds "$MOUNT/failed/never.receipt.json" '.error | test("dies.txt|interrupted")'
  has_received "$BOB" never 0
}

@test "an interrupted copy goes to failed/ as an attachment, and mv back uploads it" {
  run bash -c 'exec 7> "$1"; echo part >&7; kill -KILL $$' - "$MOUNT/attachments/cut.txt"
  wait_failed cut.txt
  holds "$MOUNT/failed/cut.txt.receipt.json" '.kind == "attachment" and (.error | test("interrupted"))'
  unlisted "$MOUNT/attachments/cut.txt"
  equal "$(cat "$MOUNT/failed/cut.txt")" part
  mv "$MOUNT/failed/cut.txt" "$MOUNT/attachments/"
  wait_uploaded cut.txt
  missing "$MOUNT/failed/cut.txt" "$MOUNT/failed/cut.txt.receipt.json"
}

@test "replacing a file uploads it again, and does not change queued messages" {
  echo old >"$MOUNT/attachments/plan.txt"
  wait_uploaded plan.txt
  stop_service
  with_attachment "binds the old" plan.txt >"$MOUNT/outbox/one"
  echo new >"$MOUNT/attachments/plan.txt"
  with_attachment "binds the new" plan.txt >"$MOUNT/outbox/two"
  start_service
  echo "retry all" >"$MOUNT/ctl"
  wait_sent one
  wait_sent two
  equal "$(arrived "binds the old" plan.txt)" old
  equal "$(arrived "binds the new" plan.txt)" new
  equal "$(cat "$MOUNT/attachments/plan.txt")" new
}

@test "a message keeps the content its attachment had at close, however quickly the file is replaced" {
  local i
  for i in {1..25}; do
    echo "old $i" >"$MOUNT/attachments/$i.txt"
    sync "$MOUNT/attachments"
    with_attachment "quick $i" "$i.txt" >"$MOUNT/outbox/quick$i"
    echo "new $i" >"$MOUNT/attachments/$i.txt"
  done
  sync "$MOUNT/outbox"
  for i in {1..25}; do
    equal "$(arrived "quick $i" "$i.txt")" "old $i"
  done
}

@test "a message keeps its attachment although the file is removed right after close" {
  local i
  for i in {1..10}; do
    echo "kept $i" >"$MOUNT/attachments/$i.txt"
    sync "$MOUNT/attachments"
    with_attachment "removed $i" "$i.txt" >"$MOUNT/outbox/removed$i"
    rm "$MOUNT/attachments/$i.txt"
  done
  sync "$MOUNT/outbox"
  for i in {1..10}; do
    equal "$(arrived "removed $i" "$i.txt")" "kept $i"
  done
}

@test "a file can be replaced, renamed and removed during its upload" {
  freeze_service
  echo first >"$MOUNT/attachments/plan.txt"
  within 5 bash -c 'echo second > "$1"; echo third >> "$1"' - "$MOUNT/attachments/plan.txt"
  echo draft >"$MOUNT/drafts/onto"
  echo away >"$MOUNT/attachments/away.txt"
  echo gone >"$MOUNT/attachments/gone.txt"
  echo under >"$MOUNT/attachments/onto"
  within 5 mv "$MOUNT/attachments/away.txt" "$MOUNT/attachments/here.txt"
  within 5 rm "$MOUNT/attachments/gone.txt"
  within 5 mv "$MOUNT/drafts/onto" "$MOUNT/attachments/onto"
  kill -CONT "$SERVICE_PID"
  with_attachment "replaced" plan.txt here.txt onto >"$MOUNT/outbox/m"
  wait_sent m
  equal "$(arrived replaced plan.txt)" "second"$'\n'"third"
  equal "$(arrived replaced here.txt)" away
  equal "$(arrived replaced onto)" draft
  missing "$MOUNT/attachments/gone.txt" "$MOUNT/attachments/away.txt"
}

@test "a file that is written again and again is uploaded with its last content" {
  local i
  for i in {1..30}; do
    echo "version $i" >"$MOUNT/attachments/again.txt"
  done
  sync "$MOUNT/attachments"
  with_attachment "again" again.txt >"$MOUNT/outbox/m"
  wait_sent m
  equal "$(arrived again again.txt)" "version 30"
}

@test "replacing a file before its first upload does not change the queued message" {
  stop_service
  echo first >"$MOUNT/attachments/plan.txt"
  with_attachment "first plan" plan.txt >"$MOUNT/outbox/one"
  expect EAGAIN fsync "$MOUNT/attachments"
  echo second >"$MOUNT/attachments/plan.txt"
  start_service
  echo "retry all" >"$MOUNT/ctl"
  wait_sent one
  equal "$(arrived "first plan" plan.txt)" first
}

@test "appending to, cutting, renaming and reopening a bound file does not change queued messages" {
  local name
  for name in longer shorter renamed open; do
    printf 'the old one' >"$MOUNT/attachments/$name"
  done
  sync "$MOUNT/attachments"
  exec 7>>"$MOUNT/attachments/open"
  stop_service
  for name in longer shorter renamed open; do
    with_attachment "binds $name" "$name" >"$MOUNT/outbox/$name"
  done
  wait_waiting
  printf ', and more' >>"$MOUNT/attachments/longer"
  truncate -s 3 "$MOUNT/attachments/shorter"
  mv "$MOUNT/attachments/renamed" "$MOUNT/attachments/other"
  printf ', and more' >&7
  exec 7>&-
  equal "$(cat "$MOUNT/attachments/longer")" "the old one, and more"
  equal "$(stat -c %s "$MOUNT/attachments/longer")" 21
  equal "$(cat "$MOUNT/attachments/shorter")" "the"
  equal "$(cat "$MOUNT/attachments/other")" "the old one"
  equal "$(cat "$MOUNT/attachments/open")" "the old one, and more"
  missing "$MOUNT/attachments/renamed"
  start_service
  echo "retry all" >"$MOUNT/ctl"
  for name in longer shorter renamed open; do
    wait_sent "$name"
    equal "$(arrived "binds $name" "$name")" "the old one"
  done
}

@test "removing a file does not change the queued message that names it" {
  stop_service
  echo kept >"$MOUNT/attachments/gone.txt"
  with_attachment "keeps it" gone.txt >"$MOUNT/outbox/one"
  wait_waiting
  rm "$MOUNT/attachments/gone.txt"
  missing "$MOUNT/attachments/gone.txt"
  start_service
  echo "retry all" >"$MOUNT/ctl"
  wait_until 20 test -e "$MOUNT/sent/one" -o -e "$MOUNT/failed/one"
  present "$MOUNT/sent/one"
  equal "$(arrived "keeps it" gone.txt)" kept
}

@test "rm of a file removes its receipt, and later messages that name the file are refused" {
  echo x >"$MOUNT/attachments/x.txt"
  wait_uploaded x.txt
  rm "$MOUNT/attachments/x.txt"
  missing "$MOUNT/attachments/x.txt" "$MOUNT/attachments/x.txt.receipt.json"
  with_attachment "x" x.txt >"$MOUNT/drafts/x"
  expect ENODATA rename "$MOUNT/drafts/x" "$MOUNT/outbox/x"
}

@test "a written message that names a missing file goes to failed/" {
  with_attachment "nothing there" nothing.pdf >"$MOUNT/outbox/nothing"
  wait_failed nothing
  holds "$MOUNT/failed/nothing.receipt.json" '.error | test("nothing.pdf")'
}

@test "a file may have 10,000,000 bytes; the write of one more fails with EFBIG" {
  head -c 10000000 /dev/zero >"$MOUNT/attachments/exact.bin"
  wait_until 40 jq -e '.id | type == "string"' "$MOUNT/attachments/exact.bin.receipt.json"
  equal "$(stat -c %s "$MOUNT/attachments/exact.bin")" 10000000
  expect "write EFBIG" write-at "$MOUNT/attachments/over.bin" 10000000
  run dd if=/dev/zero of="$MOUNT/attachments/dd.bin" bs=1000000 count=11
  [ "$status" -ne 0 ]
  contains "$output" "File too large"
  wait_failed dd.bin
  holds "$MOUNT/failed/dd.bin.receipt.json" '.error | contains("larger than 10000000 bytes")'
}

@test "truncate and writes past 10,000,000 bytes fail with EFBIG" {
  echo x >"$MOUNT/attachments/.grow"
  expect EFBIG truncate "$MOUNT/attachments/.grow" 10000001
  equal "$(stat -c %s "$MOUNT/attachments/.grow")" 2
  expect "write EFBIG" write-at "$MOUNT/attachments/.sparse" 4000000000000
}

@test "a file that grew too large is neither uploaded nor sent" {
  run bash -c 'head -c 10000001 /dev/zero > "$1"' - "$MOUNT/attachments/large.bin"
  [ "$status" -ne 0 ]
  within 10 sync "$MOUNT/attachments" || true
  with_attachment "large" large.bin >"$MOUNT/drafts/large"
  run syscall rename "$MOUNT/drafts/large" "$MOUNT/outbox/large"
  [ "$status" -ne 0 ]
  has_received "$BOB" large 0
}

@test "attachments over 10 MB together are refused: EMSGSIZE at mv, failed/ when written" {
  head -c 6000000 /dev/zero >"$MOUNT/attachments/one.bin"
  head -c 6000000 /dev/zero >"$MOUNT/attachments/two.bin"
  with_attachment "together" one.bin two.bin >"$MOUNT/drafts/moved"
  expect EMSGSIZE rename "$MOUNT/drafts/moved" "$MOUNT/outbox/moved"
  with_attachment "together" one.bin two.bin >"$MOUNT/outbox/written"
  wait_failed written
  holds "$MOUNT/failed/written.receipt.json" '.error | test("10|large|MB")'
  with_attachment "apart" one.bin >"$MOUNT/outbox/apart"
  wait_until 40 has_received "$BOB" apart
}

@test "receipts in attachments/ cannot be written, created or removed by themselves" {
  echo x >"$MOUNT/attachments/x.txt"
  wait_uploaded x.txt
  expect "open EPERM" write "$MOUNT/attachments/y.receipt.json" wc x
  run syscall write "$MOUNT/attachments/x.txt.receipt.json" w x
  [[ $output = "open EACCES" || $output = "open EPERM" ]]
  run syscall unlink "$MOUNT/attachments/x.txt.receipt.json"
  [ "$status" -ne 0 ]
  expect EPERM mkdir "$MOUNT/attachments/folder"
  expect EPERM symlink /etc/passwd "$MOUNT/attachments/link"
  equal "$(stat -c %a "$MOUNT/attachments/x.txt.receipt.json")" 444
}

@test "uploads wait for a service that is away, and survive a restart" {
  stop_service
  echo patient >"$MOUNT/attachments/patient.txt"
  with_attachment "patient" patient.txt >"$MOUNT/outbox/patient"
  stop_mount
  start_mount
  equal "$(cat "$MOUNT/attachments/patient.txt")" patient
  start_service
  echo "retry all" >"$MOUNT/ctl"
  wait_sent patient
  equal "$(arrived patient patient.txt)" patient
}

uses_at_most() { # KILOBYTES
  local used
  used=$(sed -n 's/^RssAnon:[[:space:]]*\([0-9]*\) kB$/\1/p' "/proc/$MOUNT_PID/status")
  # The sanitizers' own memory is not the daemon's.
  [ "$used" -le "$1" ] || nm "$BUILD/inboxfs" | grep -qE '__(a|t)san_init' || fail "the daemon uses $used kB"
}

@test "after uploads that were under way together, the daemon needs no more memory than before" {
  local i
  head -c 9000000 /dev/urandom >"$DIR/big.bin"
  freeze_service
  for i in 1 2 3 4 5 6 7 8; do
    cp "$DIR/big.bin" "$MOUNT/attachments/$i.bin"
  done
  kill -CONT "$SERVICE_PID"
  for i in 1 2 3 4 5 6 7 8; do
    wait_uploaded "$i.bin"
  done
  uses_at_most 20000
}

@test "an attachment is readable after its upload, and after a restart" {
  head -c 300000 /dev/urandom >"$DIR/big.bin"
  cp "$DIR/big.bin" "$MOUNT/attachments/"
  wait_uploaded big.bin
  local id
  id=$(jq -r .id "$MOUNT/attachments/big.bin.receipt.json")
  stop_mount
  start_mount
  cmp "$MOUNT/attachments/big.bin" "$DIR/big.bin"
  equal "$(jq -r .id "$MOUNT/attachments/big.bin.receipt.json")" "$id"
  with_attachment "after restart" big.bin >"$MOUNT/outbox/m"
  wait_sent m
  arrived "after restart" big.bin | cmp - "$DIR/big.bin"
}
