#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# Replying and forwarding: text that is written or moved to reply, reply-all and forward in the folder of an email is
# sent as a reply or forward, by the rules of outbox/.

load support
load scripted

CAROL=carol@elsewhere.example

teardown() {
  stop_all
}

# A mail from alice to bob and carol: more fields of the request as JSON. The mount shows it when this returns.
bob_gets() { # SUBJECT [JSON]
  jq -n --arg from "$ALICE" --arg to "$BOB" --arg cc "$CAROL" --arg subject "$1" --argjson more "${2:-{\}}" \
    '{from_address: $from, to_addresses: [{address: $to, name: null}], cc_addresses: [{address: $cc, name: "Carol"}],
      subject: $subject, plain_text: "Will you come?\n"} + $more' |
    api POST /email/send -H 'Content-Type: application/json' -d @- >/dev/null
  refresh
  wait_for_folders "$BOB"
}

start_with_mail() { # SUBJECT [JSON]
  start_two_inboxes
  bob_gets "$@"
}

# The request that went out as sent/NAME.
request() { # NAME FILTER [JQ-ARGUMENT...]
  wait_sent "$1"
  holds "$MOUNT/sent/$1.receipt.json" ".request | $2" "${@:3}"
}

nothing_handed_in() {
  unlisted "$MOUNT/outbox"/*.eml "$MOUNT/sent"/*.eml "$MOUNT/failed"/*.eml
}

# ---------------------------------------------------------------- replies

@test "a body written to reply goes to the sender, in the thread" {
  start_with_mail "Dinner"
  echo "Yes." >"$(folder "$BOB" Dinner)/reply"
  wait_sent re-dinner.eml
  content "$ALICE" "Re: Dinner" >"$DIR/arrived"
  holds "$DIR/arrived" '.plain_text == "Yes.\n"'
  holds "$DIR/arrived" '.from_address.address == $bob' --arg bob "$BOB"
  holds "$DIR/arrived" '[.to_addresses[].address] == [$alice] and .cc_addresses == []' --arg alice "$ALICE"
  holds "$DIR/arrived" '.in_reply_to_id == $id' --arg id "$(content "$BOB" Dinner | jq -r .message_id)"
  holds "$DIR/arrived" '[.previous_emails[] | select(.subject == "Dinner")] | length == 1'
  equal "$(cat "$MOUNT/sent/re-dinner.eml")" "Yes."
}

@test "reply-all goes to the others too, and not to the user" {
  start_with_mail "Re: Dinner"
  echo "Yes." >"$(folder "$BOB" "Re: Dinner")/reply-all"
  request re-dinner.eml '[.to_addresses[].address] == [$alice] and [.cc_addresses[].address] == [$carol]' \
    --arg alice "$ALICE" --arg carol "$CAROL"
  request re-dinner.eml '.subject == "Re: Dinner" and .message_type == "reply"'
}

@test "a reply goes to Reply-To if there is one" {
  start_with_mail "Dinner" '{"reply_to_addresses": [{"address": "list@x.example", "name": null}]}'
  echo "Yes." >"$(folder "$BOB" Dinner)/reply"
  request re-dinner.eml '[.to_addresses[].address] == ["list@x.example"]'
}

@test "reply-all leaves out the user's other inboxes" {
  start_two_inboxes
  mkdir "$MOUNT/inboxes/dora@$DOMAIN"
  bob_gets "Dinner" "$(jq -nc --arg dora "dora@$DOMAIN" --arg bob "$BOB" --arg carol "$CAROL" \
    '{to_addresses: ([$bob, $dora, $carol] | map({address: ., name: null})), cc_addresses: []}')"
  echo "Yes." >"$(folder "$BOB" Dinner)/reply-all"
  request re-dinner.eml '[.to_addresses[].address] == [$alice] and [.cc_addresses[].address] == [$carol]' \
    --arg alice "$ALICE" --arg carol "$CAROL"
}

@test "headers in the text replace those taken from the email" {
  start_with_mail "Dinner"
  echo "the menu" >"$MOUNT/attachments/menu.txt"
  printf 'Subject: Breakfast\nCc: dan@x.example\nAttach: menu.txt\n\nRather in the morning.\n' \
    >"$(folder "$BOB" Dinner)/reply"
  request re-dinner.eml '.subject == "Breakfast" and [.to_addresses[].address] == [$alice] and
    [.cc_addresses[].address] == ["dan@x.example"] and (.attachment_ids | length) == 1 and
    .plain_text == "Rather in the morning.\n"' --arg alice "$ALICE"
}

@test "a reply to a reply continues the thread" {
  start_with_mail "Dinner"
  echo "Yes." >"$(folder "$BOB" Dinner)/reply"
  wait_sent re-dinner.eml
  refresh
  echo "Good." >"$(folder "$ALICE" "Re: Dinner")/reply"
  wait_sent re-dinner-2.eml
  refresh
  content "$BOB" "Re: Dinner" >"$DIR/arrived"
  holds "$DIR/arrived" '.plain_text == "Good.\n" and (.previous_emails | length) == 2'
}

@test "a reply to mail whose Reply-To is the inbox itself goes to the sender" {
  start_with_mail "Dinner" '{"reply_to_addresses": [{"address": "bob@inbox.localhost", "name": null}]}'
  echo "Yes." >"$(folder "$BOB" Dinner)/reply"
  request re-dinner.eml '[.to_addresses[].address] == [$alice] and (has("cc_addresses") | not)' --arg alice "$ALICE"
}

@test "a reply uses unusual addresses exactly as they were written" {
  start_two_inboxes
  local list="O'Brien <o'brien@x.example>, a..b@mobile.example, \"a b\"@x.example, a/b@x.example, c@xn--mnchen-3ya.example"
  printf 'From: %s\nTo: %s; carol@x.example (Carol)\nSubject: Odd\n\nHello.\n' "$ALICE" "$list" >"$MOUNT/outbox/odd.eml"
  request odd.eml '[.to_addresses[].address] == ["o\u0027brien@x.example", "a..b@mobile.example", "\"a b\"@x.example",
    "a/b@x.example", "c@xn--mnchen-3ya.example", "carol@x.example"] and .to_addresses[5].name == "Carol"'
}

# Emails at a service that lets any address through: one that names "who?" in Reply-To, one that names it in To.
start_with_odd_mail() {
  start_scripted_service
  jq -nc '{id: ("reply-to", "to"), inbox_id: "in-1", date: "2026-11-20T10:00:00Z"} | .subject = .id' | server_has_emails
  control '{"contents": {
    "reply-to": {"id": "reply-to", "subject": "reply-to", "plain_text": "x", "from_address": {"address": "ann@x.example"},
      "reply_to_addresses": [{"address": "who?"}]},
    "to": {"id": "to", "subject": "to", "plain_text": "x", "from_address": {"address": "ann@x.example"},
      "to_addresses": [{"address": "o\u0027brien@x.example"}, {"address": "who?"}]}}}'
  start_mount --from="$BOB"
  refresh
  wait_for_folders in-1
}

# Writing a body to PATH fails, and the words say why.
refused() { # PATH
  run bash -c 'echo "Yes." >"$1"' - "$1"
  [ "$status" -ne 0 ]
  [[ $output == *"Destination address required"* ]] || fail "$output"
  has_event '.event == "refused" and .path == $path and (.error | test("who\\?"))' --arg path "${1#"$MOUNT/"}"
}

@test "a reply fails at once, and sends nothing, if an address to reply to is unusable" {
  start_with_odd_mail
  refused "$(folder in-1 reply-to)/reply"
  refused "$(folder in-1 reply-to)/reply-all"
  refused "$(folder in-1 to)/reply-all"
  echo "Yes." >"$MOUNT/drafts/yes"
  expect EDESTADDRREQ rename "$MOUNT/drafts/yes" "$(folder in-1 reply-to)/reply"
  has_event '.event == "refused" and .path == "drafts/yes" and (.error | test("who\\?"))'
  printf 'Subject: Hm\n\nYes.\n' >"$(folder in-1 reply-to)/reply"
  wait_failed re-reply-to.eml
  holds "$MOUNT/failed/re-reply-to.eml.receipt.json" '.error | test("who\\?")'
  equal "$(server_requests send | jq length)" 0
}

@test "headers of the reply decide where it goes, also if the email's addresses are missing" {
  start_with_odd_mail
  printf 'To: dan@x.example\n\nYes.\n' >"$(folder in-1 reply-to)/reply"
  wait_sent re-reply-to.eml
  echo "Yes." >"$(folder in-1 to)/reply"
  wait_sent re-to.eml
  printf 'Cc: dan@x.example\n\nYes.\n' >"$(folder in-1 to)/reply-all"
  wait_sent re-to-2.eml
  equal "$(server_requests send | jq -c 'sort_by(.json.subject) | map([.json | (.to_addresses + .cc_addresses)[].address])
    | sort')" '[["ann@x.example"],["ann@x.example","dan@x.example"],["dan@x.example"]]'
}

@test "a reply to all with an empty Cc goes to the sender alone" {
  start_with_odd_mail
  printf 'Cc:\n\nYes.\n' >"$(folder in-1 to)/reply-all"
  wait_sent re-to.eml
  equal "$(server_requests send | jq -c 'map([.json | (.to_addresses + .cc_addresses)[].address])')" '[["ann@x.example"]]'
}

# ---------------------------------------------------------------- forwards

@test "a forward goes to the recipients that it names, and contains the email" {
  start_with_mail "News"
  printf 'To: %s\n\nSee below.\n' "$ALICE" >"$(folder "$BOB" News)/forward"
  wait_sent fwd-news.eml
  content "$ALICE" "Fwd: News" >"$DIR/arrived"
  holds "$DIR/arrived" '.plain_text == "See below.\n" and .attachments[0].content_type == "message/rfc822"'
}

@test "a forward without recipients fails when written, and stays a draft when moved" {
  start_with_mail "News"
  expect "write EDESTADDRREQ" write "$(folder "$BOB" News)/forward" w $'FYI\n'
  has_event '.event == "refused" and (.path | endswith("/forward")) and (.error | test("recipient"))'
  missing "$MOUNT/outbox/fwd-news.eml" "$MOUNT/failed/fwd-news.eml"
  echo '{"plain_text": "See below."}' >"$(folder "$BOB" News)/forward"
  wait_failed fwd-news.eml
  echo "See below." >"$MOUNT/drafts/note"
  expect EDESTADDRREQ rename "$MOUNT/drafts/note" "$(folder "$BOB" News)/forward"
  present "$MOUNT/drafts/note"
  has_event '.event == "refused" and .path == "drafts/note" and (.error | test("recipient"))'
}

# ---------------------------------------------------------------- ways in

@test "mv of a draft onto reply sends it" {
  start_with_mail "Dinner"
  echo "Yes." >"$MOUNT/drafts/yes"
  run mv "$MOUNT/drafts/yes" "$(folder "$BOB" Dinner)/reply"
  equal "$status$output" 0
  missing "$MOUNT/drafts/yes"
  request re-dinner.eml '.existing_email_id == $id and .plain_text == "Yes.\n"' \
    --arg id "$(received "$BOB" Dinner | jq -r '.[0].id')"
}

@test "mv of a draft that cannot be a reply fails, and the draft stays" {
  start_with_mail "Dinner"
  local it
  it=$(folder "$BOB" Dinner)
  : >"$MOUNT/drafts/empty"
  expect EBADMSG rename "$MOUNT/drafts/empty" "$it/reply"
  printf 'Subject: x\nand more\n\nYes.\n' >"$MOUNT/drafts/half"
  expect EBADMSG rename "$MOUNT/drafts/half" "$it/reply"
  mkdir "$MOUNT/drafts/folder"
  expect ENOTDIR rename "$MOUNT/drafts/folder" "$it/reply"
  echo "Yes." >"$MOUNT/drafts/yes"
  expect EPERM rename "$MOUNT/drafts/yes" "$it/answer"
  present "$MOUNT/drafts/empty" "$MOUNT/drafts/half" "$MOUNT/drafts/folder" "$MOUNT/drafts/yes"
  nothing_handed_in
}

@test "cp, tee, dd and appending each hand in one reply" {
  start_with_mail "Dinner"
  local it
  it=$(folder "$BOB" Dinner)
  head -c 300000 /dev/zero | tr '\0' x >"$DIR/long"
  # The barrier waits for the close of the one before, which decides on its name.
  cp "$DIR/long" "$it/reply"
  sync "$MOUNT/outbox"
  head -c 300000 "$DIR/long" | tee "$it/reply" >/dev/null
  sync "$MOUNT/outbox"
  dd if="$DIR/long" of="$it/reply" bs=1000 status=none
  sync "$MOUNT/outbox"
  exec 7>>"$it/reply"
  cat "$DIR/long" >&7
  ls -l "$it" "$it/reply" >/dev/null
  echo "end" >&7
  exec 7>&-
  local name
  for name in re-dinner.eml re-dinner-2.eml re-dinner-3.eml; do
    wait_sent "$name"
    cmp "$MOUNT/sent/$name" "$DIR/long"
  done
  wait_sent re-dinner-4.eml
  { cat "$DIR/long" && echo "end"; } | cmp - "$MOUNT/sent/re-dinner-4.eml"
}

@test "a reply that is written, truncated, written again and synced has its last text" {
  start_with_mail "Dinner"
  python3 - "$(folder "$BOB" Dinner)/reply" <<'EOF'
import os, sys
door = os.open(sys.argv[1], os.O_WRONLY)
os.ftruncate(door, 0)
os.write(door, b"No, never will I come.\n")
os.ftruncate(door, 0)
os.lseek(door, 0, os.SEEK_SET)
os.write(door, b"Yes.\n and more")
os.ftruncate(door, 5)
os.fsync(door)
os.fdatasync(door)
os.close(door)
EOF
  wait_sent re-dinner.eml
  equal "$(cat "$MOUNT/sent/re-dinner.eml")" "Yes."
  holds <(content "$ALICE" "Re: Dinner") '.plain_text == "Yes.\n"'
}

@test "a reply that is open when the daemon ends is interrupted" {
  start_with_mail "Dinner"
  exec 7>"$(folder "$BOB" Dinner)/reply"
  echo "half an" >&7
  umount -l "$MOUNT" || fusermount3 -uz "$MOUNT"
  kill -TERM "$MOUNT_PID"
  wait_until 20 process_is_gone "$MOUNT_PID"
  exec 7>&-
  start_mount
  wait_failed re-dinner.eml
  holds "$MOUNT/failed/re-dinner.eml.receipt.json" '.state == "interrupted"'
  equal "$(cat "$MOUNT/failed/re-dinner.eml")" "half an"
}

@test "mv from another filesystem and install hand in a reply" {
  start_with_mail "Dinner"
  local it
  it=$(folder "$BOB" Dinner)
  echo "Yes." >"$DIR/one"
  echo "Yes, yes." >"$DIR/two"
  run mv "$DIR/one" "$it/reply"
  equal "$status$output" 0
  run install -m 0600 "$DIR/two" "$it/reply-all"
  equal "$status$output" 0
  missing "$DIR/one"
  request re-dinner.eml '.plain_text == "Yes.\n" and .message_type == "reply"'
  request re-dinner-2.eml '.plain_text == "Yes, yes.\n" and (.cc_addresses | length) == 1'
}

@test "two concurrent writers write two replies" {
  start_with_mail "Dinner"
  local it
  it=$(folder "$BOB" Dinner)
  exec 7>"$it/reply" 8>"$it/reply"
  echo "one" >&7
  echo "two" >&8
  echo "more" >&7
  exec 7>&- 8>&-
  wait_sent re-dinner.eml
  wait_sent re-dinner-2.eml
  equal "$(cat "$MOUNT"/sent/re-dinner*.eml | sort | tr '\n' ' ')" "more one two "
  equal "$(sort -u "$MOUNT/sent/re-dinner.eml" | wc -l)" 2
}

# ---------------------------------------------------------------- doors

@test "reply files are not listed and cannot be read; rm of one succeeds, and it stays" {
  start_with_mail "Dinner"
  local it door
  it=$(folder "$BOB" Dinner)
  for door in reply reply-all forward; do
    unlisted "$it/$door"
    equal "$(stat -c '%A %s' "$it/$door")" "--w------- 0"
    expect EACCES open "$it/$door" r
    expect EACCES open "$it/$door" rw
    expect ok unlink "$it/$door"
    [ -e "$it/$door" ]
    expect EPERM rename "$it/$door" "$MOUNT/drafts/door"
    expect ok touch "$it/$door"
    expect ok chmod "$it/$door" 0600
    expect ok truncate "$it/$door" 0
  done
  grep -rq 'Will you come' "$it"
  expect EPERM open "$it/other" wc
  nothing_handed_in
}

@test "opening and closing a reply file hands nothing in" {
  start_with_mail "Dinner"
  : >"$(folder "$BOB" Dinner)/reply"
  true >>"$(folder "$BOB" Dinner)/reply"
  expect ok fsync "$MOUNT/outbox"
  nothing_handed_in
}

@test "there are no reply files if the service has no content" {
  start_scripted_service
  server_has_email '{"id": "e-1", "inbox_id": "in-1", "subject": "bare", "date": "2026-11-20T10:00:00Z"}'
  server_has_email '{"id": "e-2", "inbox_id": "in-1", "subject": "also", "date": "2026-11-20T10:00:00Z"}'
  start_mount
  refresh
  local it
  it=$(folder in-1 bare)
  missing "$it" "$it/reply" "$it/forward"
  message "$BOB" "New" >"$MOUNT/outbox/new.eml"
  wait_sent new.eml
}

# ---------------------------------------------------------------- what goes wrong

@test "a reply waits for the service like any message" {
  start_with_mail "Dinner"
  local it
  it=$(folder "$BOB" Dinner)
  cat "$it/body.txt" >/dev/null
  stop_service
  echo "Yes." >"$it/reply"
  wait_waiting
  present "$MOUNT/outbox/re-dinner.eml"
  stop_mount
  start_service
  start_mount
  echo "retry all" >"$MOUNT/ctl"
  wait_sent re-dinner.eml
  equal "$(received_count "$ALICE" "Re: Dinner")" 1
}

@test "an interrupted reply is kept, and is still a reply when it is moved to outbox/" {
  start_with_mail "Dinner"
  local it
  it=$(folder "$BOB" Dinner)
  bash -c 'echo "Yes." >&7; kill -KILL $$' 7>"$it/reply" || true
  wait_failed re-dinner.eml
  holds "$MOUNT/failed/re-dinner.eml.receipt.json" '.state == "interrupted"'
  mv "$MOUNT/failed/re-dinner.eml" "$MOUNT/outbox/"
  request re-dinner.eml '.message_type == "reply" and .subject == "Re: Dinner"'
  equal "$(received_count "$ALICE" "Re: Dinner")" 1
}

# The daemon dies at a crash point after an answer was accepted; the next one sends it once.
survives() { # POINT COMMAND...
  start_service
  create_inboxes "$ALICE" "$BOB"
  start_mount
  bob_gets "Dinner"
  cat "$(folder "$BOB" Dinner)/body.txt" >/dev/null
  stop_mount
  export INBOXFS_CRASH_AT=$1
  start_mount
  unset INBOXFS_CRASH_AT
  wait_for_folders "$BOB"
  local pid=$MOUNT_PID
  IT=$(folder "$BOB" Dinner)
  "${@:2}" || true
  wait_until 20 process_is_gone "$pid"
  MOUNT_PID=
  wait "$pid" || true
  umount -l "$MOUNT" || fusermount3 -uz "$MOUNT"
  start_mount
  request re-dinner.eml '.message_type == "reply"'
  equal "$(received_count "$ALICE" "Re: Dinner")" 1
}

write_answer() {
  echo "Yes." >"$IT/reply"
}

move_answer() {
  echo "Yes." >"$MOUNT/drafts/yes" && mv "$MOUNT/drafts/yes" "$IT/reply"
}

@test "a written reply is sent once, though the daemon dies when it is accepted" {
  survives accepted write_answer
}

@test "a moved reply is sent once, though the daemon dies when it is accepted" {
  survives handed_in move_answer
}
