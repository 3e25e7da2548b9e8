#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# mv from drafts/ into outbox/: a good message is sent once; a bad one stays, and the error of mv says why.

load support

setup() {
  start_two_inboxes
}

teardown() {
  stop_all
}

# The move fails with the error, the file stays as it was, and an event tells the reason in words.
refused() { # ERRNO DRAFT WORDS
  local before
  before=$(cat "$MOUNT/drafts/$2")
  refused_as_it_is "$@"
  equal "$(cat "$MOUNT/drafts/$2")" "$before"
}

# The same of what is no file that can be read.
refused_as_it_is() { # ERRNO DRAFT WORDS
  expect "$1" rename "$MOUNT/drafts/$2" "$MOUNT/outbox/$2"
  missing "$MOUNT/outbox/$2" "$MOUNT/sent/$2" "$MOUNT/failed/$2"
  has_event '.event == "refused" and .path == "drafts/\($name)" and (.error | test($words; "i"))' \
    --arg name "$2" --arg words "$3" || fail "no event says \"$3\":" "$(tail -n 1 "$MOUNT/events.jsonl")"
}

@test "mv of a message from drafts/ sends it once, with its text" {
  message "$BOB" "From a draft" "Grüße, Bob." >"$MOUNT/drafts/hello.eml"
  mv "$MOUNT/drafts/hello.eml" "$MOUNT/outbox/"
  missing "$MOUNT/drafts/hello.eml"
  wait_sent hello.eml
  unlisted "$MOUNT/outbox/hello.eml"

  content "$BOB" "From a draft" >"$DIR/arrived"
  holds "$DIR/arrived" '.plain_text | rtrimstr("\n") == "Grüße, Bob."'
  holds "$DIR/arrived" '.from_address.address == $alice' --arg alice "$ALICE"
  holds "$DIR/arrived" '[.to_addresses[].address] == [$bob]' --arg bob "$BOB"
}

@test "mv prints no warning and leaves nothing behind" {
  message "$BOB" "Quiet" >"$MOUNT/drafts/quiet"
  run mv "$MOUNT/drafts/quiet" "$MOUNT/outbox/quiet"
  equal "$status" 0
  equal "$output" ""
}

@test "a sent message keeps its text in sent/" {
  message "$BOB" "Kept" >"$MOUNT/drafts/kept.eml"
  cp "$MOUNT/drafts/kept.eml" "$DIR/kept.eml"
  mv "$MOUNT/drafts/kept.eml" "$MOUNT/outbox/"
  wait_sent kept.eml
  cmp "$MOUNT/sent/kept.eml" "$DIR/kept.eml"
}

@test "a file that is not a message is refused with EBADMSG" {
  printf 'just some words\nand no header\n' >"$MOUNT/drafts/words"
  refused EBADMSG words 'header|message'
  printf '{"subject": "cut o' >"$MOUNT/drafts/half.json"
  refused EBADMSG half.json 'json'
  jq -n --arg to "$BOB" '{subject: "x", plain_text: "x", to_addresses: [$to], colour: "red"}' \
    >"$MOUNT/drafts/extra.json"
  refused EBADMSG extra.json 'colour'
  printf 'From: %s\nTo: bob at example\nSubject: x\n\nx\n' "$ALICE" >"$MOUNT/drafts/address"
  refused EBADMSG address 'address'
}

@test "an empty file is refused with EBADMSG" {
  : >"$MOUNT/drafts/empty"
  refused EBADMSG empty '.'
}

@test "bytes that are not text are refused with EBADMSG" {
  head -c 4096 /dev/zero >"$MOUNT/drafts/zeros"
  expect EBADMSG rename "$MOUNT/drafts/zeros" "$MOUNT/outbox/zeros"
  head -c 4096 /bin/ls >"$MOUNT/drafts/program"
  expect EBADMSG rename "$MOUNT/drafts/program" "$MOUNT/outbox/program"
}

@test "a message without recipients is refused with EDESTADDRREQ" {
  printf 'From: %s\nSubject: to nobody\n\nx\n' "$ALICE" >"$MOUNT/drafts/nobody"
  refused EDESTADDRREQ nobody 'no recipient'
  echo '{"subject": "x", "plain_text": "x", "to_addresses": []}' >"$MOUNT/drafts/nobody.json"
  refused EDESTADDRREQ nobody.json 'recipient'
}

@test "a recipient in Cc or Bcc alone suffices" {
  printf 'From: %s\nCc: %s\nSubject: only cc\n\nx\n' "$ALICE" "$BOB" >"$MOUNT/drafts/cc"
  printf 'From: %s\nBcc: %s\nSubject: only bcc\n\nx\n' "$ALICE" "$BOB" >"$MOUNT/drafts/bcc"
  mv "$MOUNT/drafts/cc" "$MOUNT/drafts/bcc" "$MOUNT/outbox/"
  wait_sent cc
  wait_sent bcc
  wait_until 10 has_received "$BOB" "only cc"
  wait_until 10 has_received "$BOB" "only bcc"
}

@test "a missing attachment is refused with ENODATA" {
  printf 'From: %s\nTo: %s\nSubject: x\nAttach: report.pdf\n\nx\n' "$ALICE" "$BOB" >"$MOUNT/drafts/attach"
  refused ENODATA attach 'report\.pdf'
  jq -n --arg from "$ALICE" --arg to "$BOB" \
    '{from_address: $from, subject: "x", plain_text: "x", to_addresses: [$to], attachments: ["plan.txt"]}' \
    >"$MOUNT/drafts/attach.json"
  refused ENODATA attach.json 'plan\.txt'
}

@test "an attachment is a name, never a path" {
  echo secret >"$MOUNT/attachments/key.txt"
  local name
  for name in ../attachments/key.txt /etc/passwd attachments/key.txt .. .; do
    printf 'From: %s\nTo: %s\nSubject: x\nAttach: %s\n\nx\n' "$ALICE" "$BOB" "$name" >"$MOUNT/drafts/path"
    run syscall rename "$MOUNT/drafts/path" "$MOUNT/outbox/path"
    [[ $output = EBADMSG || $output = ENODATA ]] || fail "$name: $output"
    present "$MOUNT/drafts/path"
  done
}

@test "a header that resembles Attach is refused, and the reason names the right one" {
  echo figures >"$MOUNT/attachments/report.pdf"
  local header
  for header in Attachment attachments Attached ATTACH-FILE; do
    printf 'From: %s\nTo: %s\nSubject: x\n%s: report.pdf\n\nx\n' "$ALICE" "$BOB" "$header" >"$MOUNT/drafts/near"
    refused EBADMSG near "$header: .*Attach: NAME"
  done
}

@test "a sender that is not an inbox of the account is refused with EADDRNOTAVAIL" {
  printf 'From: eve@elsewhere.example\nTo: %s\nSubject: x\n\nx\n' "$BOB" >"$MOUNT/drafts/eve"
  refused EADDRNOTAVAIL eve 'eve@elsewhere\.example|inbox'
}

@test "an inbox that was created elsewhere a moment ago can send" {
  jq -n '{id: null, name: "new", email_address: ("new@" + $domain)}' --arg domain "$DOMAIN" |
    api POST /inbox/upsert -H 'Content-Type: application/json' -d @-
  printf 'From: new@%s\nTo: %s\nSubject: from the new one\n\nx\n' "$DOMAIN" "$BOB" >"$MOUNT/drafts/new"
  mv "$MOUNT/drafts/new" "$MOUNT/outbox/new"
  wait_sent new
  present "$MOUNT/inboxes/new@$DOMAIN"
}

@test "a missing From with two inboxes is refused with EADDRNOTAVAIL, unless --from names one" {
  printf 'To: %s\nSubject: who\n\nx\n' "$BOB" >"$MOUNT/drafts/who"
  refused EADDRNOTAVAIL who 'the mount \(--from\) names one of your inboxes'
  stop_mount
  start_mount --from="$ALICE"
  mv "$MOUNT/drafts/who" "$MOUNT/outbox/"
  wait_sent who
  content "$BOB" who | jq -e --arg alice "$ALICE" '.from_address.address == $alice'
}

@test "a missing From is the only inbox" {
  stop_mount
  stop_service
  mv "$SERVICE" "$SERVICE.two"
  rm -rf "$STATE"
  start_service
  create_inbox "$ALICE"
  start_mount
  printf 'To: %s\nSubject: to myself\n\nx\n' "$ALICE" >"$MOUNT/drafts/m"
  mv "$MOUNT/drafts/m" "$MOUNT/outbox/"
  wait_sent m
  content "$ALICE" "to myself" | jq -e --arg alice "$ALICE" '.from_address.address == $alice'
}

@test "attachments over 10 MB together are refused with EMSGSIZE" {
  head -c 6000000 /dev/urandom >"$MOUNT/attachments/one.bin"
  head -c 6000000 /dev/urandom >"$MOUNT/attachments/two.bin"
  printf 'From: %s\nTo: %s\nSubject: x\nAttach: one.bin\nAttach: two.bin\n\nx\n' "$ALICE" "$BOB" \
    >"$MOUNT/drafts/heavy"
  refused EMSGSIZE heavy '10|large|MB|big'
}

@test "a MIME part over 10 MB is refused with EMSGSIZE" {
  {
    printf 'From: %s\nTo: %s\nSubject: x\nMIME-Version: 1.0\n' "$ALICE" "$BOB"
    printf 'Content-Type: multipart/mixed; boundary="b"\n\n--b\nContent-Type: text/plain\n\nx\n--b\n'
    printf 'Content-Type: application/octet-stream; name=x.bin\nContent-Transfer-Encoding: base64\n'
    printf 'Content-Disposition: attachment; filename=x.bin\n\n'
    head -c 10000001 /dev/zero | base64
    printf -- '--b--\n'
  } >"$MOUNT/drafts/large.eml"
  expect EMSGSIZE rename "$MOUNT/drafts/large.eml" "$MOUNT/outbox/large.eml"
  present "$MOUNT/drafts/large.eml"
}

@test "a directory is refused with EISDIR" {
  mkdir "$MOUNT/drafts/folder"
  refused_as_it_is EISDIR folder 'directory'
  [ -d "$MOUNT/drafts/folder" ]
}

@test "a file with a second name, and a special file, are refused with a reason" {
  message "$BOB" "Two names" >"$MOUNT/drafts/one"
  ln "$MOUNT/drafts/one" "$MOUNT/drafts/other"
  refused EMLINK one 'hard link'
  mkfifo "$MOUNT/drafts/fifo"
  refused_as_it_is EBADMSG fifo 'ordinary files'
  [ -p "$MOUNT/drafts/fifo" ]
}

@test "a symbolic link is never followed: ELOOP" {
  message "$BOB" "Through a link" >"$MOUNT/drafts/real"
  ln -s real "$MOUNT/drafts/link"
  refused_as_it_is ELOOP link 'symbolic link'
  ln -s /etc/passwd "$MOUNT/drafts/passwd"
  expect ELOOP rename "$MOUNT/drafts/passwd" "$MOUNT/outbox/passwd"
  [ -L "$MOUNT/drafts/link" ]
  [ -L "$MOUNT/drafts/passwd" ]
}

@test "a draft that is being written is refused with EBUSY, and sent after it was closed" {
  exec 7>"$MOUNT/drafts/busy"
  message "$BOB" "Was busy" >&7
  refused EBUSY busy 'being written'
  exec 7>&-
  wait_until 5 syscall rename "$MOUNT/drafts/busy" "$MOUNT/outbox/busy"
  wait_sent busy
  has_received "$BOB" "Was busy"
}

@test "a draft that is being read is sent" {
  message "$BOB" "Being read" >"$MOUNT/drafts/open"
  exec 7<"$MOUNT/drafts/open"
  expect ok rename "$MOUNT/drafts/open" "$MOUNT/outbox/open"
  wait_sent open
  grep -q 'Being read' <&7
  exec 7<&-
}

@test "a draft that is mapped for writing is refused with EBUSY" {
  message "$BOB" "Mapped" >"$MOUNT/drafts/mapped"
  mkfifo "$DIR/hold"
  syscall mmap-hold "$MOUNT/drafts/mapped" <"$DIR/hold" >"$DIR/holder" 3>&- &
  local holder=$!
  exec 8>"$DIR/hold"
  wait_until 5 grep -q mapped "$DIR/holder"
  expect EBUSY rename "$MOUNT/drafts/mapped" "$MOUNT/outbox/mapped"
  exec 8>&-
  wait "$holder"
  wait_until 5 syscall rename "$MOUNT/drafts/mapped" "$MOUNT/outbox/mapped"
  wait_sent mapped
}

@test "a hard-linked draft cannot be changed through its other name afterwards" {
  message "$BOB" "Two names" "as it was" >"$MOUNT/drafts/one"
  ln "$MOUNT/drafts/one" "$MOUNT/drafts/two"
  stop_service
  if syscall rename "$MOUNT/drafts/one" "$MOUNT/outbox/one"; then
    message "$BOB" "Two names" "changed" >"$MOUNT/drafts/two"
  fi
  start_service
  refresh
  if [ -e "$MOUNT/outbox/one" ] || [ -e "$MOUNT/sent/one" ]; then
    echo "retry all" >"$MOUNT/ctl"
    wait_sent one
    content "$BOB" "Two names" | jq -e '.plain_text | startswith("as it was")'
  else
    present "$MOUNT/drafts/one"
  fi
}

@test "mv never falls back to a copy: no EXDEV, no EINVAL" {
  printf 'no message' >"$MOUNT/drafts/bad"
  run mv "$MOUNT/drafts/bad" "$MOUNT/outbox/bad"
  [ "$status" -ne 0 ]
  missing "$MOUNT/outbox/bad" "$MOUNT/failed/bad"
  contains "$output" "$MOUNT/drafts/bad"
  run ! grep -q 'subdirectory' <<<"$output"
}

@test "mv -n onto a queued name changes neither" {
  stop_service
  message "$BOB" "First" >"$MOUNT/drafts/a"
  message "$BOB" "Second" >"$MOUNT/drafts/b"
  mv "$MOUNT/drafts/a" "$MOUNT/outbox/same"
  mv -n "$MOUNT/drafts/b" "$MOUNT/outbox/same" || true
  present "$MOUNT/drafts/b"
  grep -q 'First' "$MOUNT/outbox/same"
}

@test "RENAME_NOREPLACE fails with EEXIST for a queued name, and succeeds for a free one" {
  stop_service
  message "$BOB" "First" >"$MOUNT/drafts/a"
  message "$BOB" "Second" >"$MOUNT/drafts/b"
  expect ok rename-noreplace "$MOUNT/drafts/a" "$MOUNT/outbox/same"
  expect EEXIST rename-noreplace "$MOUNT/drafts/b" "$MOUNT/outbox/same"
  present "$MOUNT/drafts/b"
  grep -q 'First' "$MOUNT/outbox/same"
}

@test "mv onto a waiting message replaces it" {
  pause_sending
  message "$BOB" "First" >"$MOUNT/drafts/a"
  message "$BOB" "Second" >"$MOUNT/drafts/b"
  mv "$MOUNT/drafts/a" "$MOUNT/outbox/same"
  wait_waiting
  mv "$MOUNT/drafts/b" "$MOUNT/outbox/same"
  missing "$MOUNT/drafts/b"
  grep -q 'Second' "$MOUNT/outbox/same"
  resume_sending
  went_out same Second
  has_received "$BOB" First 0
}

@test "RENAME_EXCHANGE between drafts/ and outbox/ is refused and changes nothing" {
  stop_service
  message "$BOB" "First" >"$MOUNT/drafts/a"
  message "$BOB" "Second" >"$MOUNT/drafts/b"
  mv "$MOUNT/drafts/a" "$MOUNT/outbox/a"
  run syscall rename-exchange "$MOUNT/drafts/b" "$MOUNT/outbox/a"
  [ "$status" -ne 0 ]
  [ "$output" != EXDEV ]
  grep -q 'First' "$MOUNT/outbox/a"
  grep -q 'Second' "$MOUNT/drafts/b"
}

@test "a waiting draft may be moved out of outbox/, edited and sent" {
  pause_sending
  message "$BOB" "Too early" >"$MOUNT/drafts/early"
  mv "$MOUNT/drafts/early" "$MOUNT/outbox/early"
  wait_waiting
  mv "$MOUNT/outbox/early" "$MOUNT/drafts/early"
  missing "$MOUNT/outbox/early"
  run ! grep 'could not record' "$MOUNT_LOG"
  sed -i 's/Too early/In time/' "$MOUNT/drafts/early"
  resume_sending
  mv "$MOUNT/drafts/early" "$MOUNT/outbox/early"
  wait_sent early
  has_received "$BOB" "In time" 1
  has_received "$BOB" "Too early" 0
}

@test "mv out of outbox/ replaces a draft of the same name, unless told not to" {
  pause_sending
  message "$BOB" "Queued" >"$MOUNT/outbox/one"
  echo old >"$MOUNT/drafts/one"
  wait_waiting
  expect EEXIST rename-noreplace "$MOUNT/outbox/one" "$MOUNT/drafts/one"
  grep -q old "$MOUNT/drafts/one"
  expect ok rename "$MOUNT/outbox/one" "$MOUNT/drafts/one"
  grep -q Queued "$MOUNT/drafts/one"
  missing "$MOUNT/outbox/one"
}

@test "a rename of a queued message within outbox/ keeps its place, and sends it once" {
  pause_sending
  message "$BOB" "Renamed" >"$MOUNT/outbox/old"
  message "$BOB" "Behind it" >"$MOUNT/outbox/later"
  wait_waiting
  mv "$MOUNT/outbox/old" "$MOUNT/outbox/new"
  resume_sending
  wait_sent new
  wait_sent later
  missing "$MOUNT/sent/old"
  has_received "$BOB" "Renamed"
  has_received "$BOB" "Behind it"
  equal "$(events '.event == "sent"' | jq -r .path | head -n 1)" sent/new
}

@test "mv from failed/ to outbox/ tries again" {
  local carol=carol@$DOMAIN
  printf 'From: %s\nTo: %s\nSubject: x\nno header line\n\nx\n' "$ALICE" "$carol" >"$MOUNT/outbox/again"
  wait_failed again
  mv "$MOUNT/failed/again" "$MOUNT/drafts/again"
  missing "$MOUNT/failed/again" "$MOUNT/failed/again.receipt.json"
  message "$BOB" "Repaired" >"$MOUNT/drafts/again"
  mv "$MOUNT/drafts/again" "$MOUNT/outbox/"
  wait_sent again
  has_received "$BOB" "Repaired"
}

@test "mv of a bad message from failed/ to outbox/ is refused like one from drafts/" {
  printf 'no message' >"$MOUNT/outbox/bad"
  wait_failed bad
  expect EBADMSG rename "$MOUNT/failed/bad" "$MOUNT/outbox/bad"
  present "$MOUNT/failed/bad" "$MOUNT/failed/bad.receipt.json"
}

@test "mv from sent/ to outbox/ sends the message once more, with a new key" {
  message "$BOB" "Twice" >"$MOUNT/drafts/twice"
  mv "$MOUNT/drafts/twice" "$MOUNT/outbox/"
  wait_sent twice
  local key
  key=$(jq -er .idempotency_key "$MOUNT/sent/twice.receipt.json")
  mv "$MOUNT/sent/twice" "$MOUNT/outbox/twice"
  wait_until 20 has_received "$BOB" "Twice" 2
  wait_sent twice
  holds "$MOUNT/sent/twice.receipt.json" '.idempotency_key != $key' --arg key "$key"
}

@test "cp of a sent message into drafts/ and mv of the copy sends it again" {
  message "$BOB" "Once more" >"$MOUNT/drafts/more"
  mv "$MOUNT/drafts/more" "$MOUNT/outbox/"
  wait_sent more
  cp "$MOUNT/sent/more" "$MOUNT/drafts/more"
  chmod u+w "$MOUNT/drafts/more"
  mv "$MOUNT/drafts/more" "$MOUNT/outbox/"
  wait_until 20 has_received "$BOB" "Once more" 2
}

@test "mv from another filesystem is a copy, which is sent" {
  message "$BOB" "From outside" >"$DIR/outside"
  mv "$DIR/outside" "$MOUNT/outbox/outside"
  missing "$DIR/outside"
  wait_sent outside
  has_received "$BOB" "From outside"
}

@test "a draft in a folder below drafts/ can be sent" {
  mkdir -p "$MOUNT/drafts/2026/november"
  message "$BOB" "Deep down" >"$MOUNT/drafts/2026/november/deep"
  mv "$MOUNT/drafts/2026/november/deep" "$MOUNT/outbox/"
  wait_sent deep
  has_received "$BOB" "Deep down"
}

@test "a draft moved to a never-sent name, or one that is no text, is refused with words" {
  message "$BOB" "Backup" >"$MOUNT/drafts/x.bak"
  expect EPERM rename "$MOUNT/drafts/x.bak" "$MOUNT/outbox/x.bak"
  present "$MOUNT/drafts/x.bak"
  missing "$MOUNT/outbox/x.bak"
  holds "$MOUNT/status.json" '.refused | .path == "drafts/x.bak" and (.error | contains("never sent"))'
  expect EILSEQ rename "$MOUNT/drafts/x.bak" "$MOUNT/outbox/"$'\xff'
  holds "$MOUNT/status.json" '.refused.error | contains("UTF-8")'
  mv "$MOUNT/drafts/x.bak" "$MOUNT/outbox/x"
  wait_sent x
}

@test "twenty messages moved at once are each sent once" {
  local i
  for i in {1..20}; do
    message "$BOB" "Number $i" >"$MOUNT/drafts/$i.eml"
  done
  mv "$MOUNT"/drafts/*.eml "$MOUNT/outbox/"
  sync "$MOUNT/outbox"
  for i in {1..20}; do
    present "$MOUNT/sent/$i.eml"
  done
  api GET "/email?limit=1000&inbox_ids=$(inbox_id "$BOB")" >"$DIR/all"
  holds "$DIR/all" '[.[].subject | select(startswith("Number"))] | (length == 20) and (unique | length == 20)'
}
