#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# sent/ joins the messages of this mount with the service's list of sent mail.

load support
load scripted

teardown() {
  stop_all
}

send_from_here() { # NAME SUBJECT
  message "$BOB" "$2" >"$MOUNT/drafts/$1"
  mv "$MOUNT/drafts/$1" "$MOUNT/outbox/"
  wait_sent "$1"
}

# The names in sent/ of mail that was sent elsewhere.
elsewhere() {
  find "$MOUNT/sent" -name '*.json' ! -name '*.receipt.json' -printf '%f\n' | LC_ALL=C sort
}

@test "the receipt of a sent message has the status at the service" {
  start_two_inboxes
  send_from_here hello "from here"
  refresh
  local receipt=$MOUNT/sent/hello.receipt.json
  holds "$receipt" '.state == "sent" and .status == "sent" and has("latest_event") and .request.subject == "from here"'
  has_true_size "$receipt"
  equal "$(command jq -r 'keys_unsorted | .[-2:] | join(" ")' "$receipt")" "status latest_event"
  equal "$(stat -c %a "$receipt")" 444
  # It is not shown a second time.
  equal "$(elsewhere)" ""
}

@test "the receipt of an undeliverable message has the status failed, and the sender gets a bounce" {
  start_two_inboxes
  message "nobody@$DOMAIN" "to nobody" >"$MOUNT/drafts/lost"
  mv "$MOUNT/drafts/lost" "$MOUNT/outbox/"
  wait_sent lost
  refresh
  holds "$MOUNT/sent/lost.receipt.json" '.state == "sent" and .status == "failed" and .error == null'
  grep -q "^Final-Recipient: rfc822; nobody@$DOMAIN" "$MOUNT/inboxes/$ALICE"/*_undelivered-to-nobody_*/body.txt
}

@test "mail sent elsewhere is a record in sent/" {
  local name
  start_two_inboxes
  send_from_here hello "from here"
  send_from_elsewhere "$ALICE" "$BOB" "from elsewhere"
  ls -l "$MOUNT/sent" >/dev/null
  refresh
  name=$(elsewhere)
  [[ $name == *_from-elsewhere_*.json ]] || fail "is named: $name"
  holds "$MOUNT/sent/$name" '.subject == "from elsewhere" and .status == "sent" and .id'
  has_true_size "$MOUNT/sent/$name"
  equal "$(stat -c %a "$MOUNT/sent/$name")" 444
  equal "$(date -u -d "@$(stat -c %Y "$MOUNT/sent/$name")" +%Y%m%dT%H%M%SZ)" "${name%%_*}"
  # It raises no event, and is no mail that anybody received.
  run ! has_event '.path != null and (.path | startswith("sent/")) and (.path | contains("elsewhere"))'
}

has_record() { # SUBJECT
  find "$MOUNT/sent" -name '*.json' ! -name '*.receipt.json' -exec cat {} + |
    jq -e -s --arg subject "$1" 'any(.[]; .subject == $subject and .status == "sent")'
}

@test "polling alone brings the status of sent mail" {
  start_two_inboxes --poll-interval=1
  send_from_elsewhere "$ALICE" "$BOB" first
  wait_until 20 has_record first
  # What follows is not found out by the first look, which takes in all there is.
  send_from_elsewhere "$ALICE" "$BOB" second
  send_from_here hello "from here"
  wait_until 20 has_record second
  wait_until 20 holds "$MOUNT/sent/hello.receipt.json" '.status == "sent" and has("latest_event")'
}

@test "such a record can be read and removed, and nothing else" {
  local name file
  start_two_inboxes
  send_from_elsewhere "$ALICE" "$BOB" "from elsewhere"
  refresh
  name=$(elsewhere)
  file=$MOUNT/sent/$name
  expect EPERM rename "$file" "$MOUNT/outbox/$name"
  expect EPERM rename "$file" "$MOUNT/drafts/$name"
  expect EPERM rename "$file" "$MOUNT/sent/other"
  expect EACCES open "$file" w
  cp "$file" "$MOUNT/drafts/copy"
  cmp "$file" "$MOUNT/drafts/copy"
  rm "$MOUNT/drafts/copy" "$file"
  missing "$file"
  equal "$(elsewhere)" ""
  # It does not come back.
  refresh
  equal "$(elsewhere)" ""
  stop_mount
  start_mount
  refresh
  equal "$(elsewhere)" ""
}

@test "a message that was sent from here hides a record of the same name" {
  local name
  start_two_inboxes
  send_from_elsewhere "$ALICE" "$BOB" "from elsewhere"
  refresh
  name=$(elsewhere)
  send_from_here "$name" "from here"
  equal "$(find "$MOUNT/sent" -name "$name" | wc -l)" 1
  grep -q "Subject: from here" "$MOUNT/sent/$name"
  # It can be moved, as a record cannot, and removed.
  mv "$MOUNT/sent/$name" "$MOUNT/drafts/"
  grep -q "Subject: from here" "$MOUNT/drafts/$name"
  holds "$MOUNT/sent/$name" '.subject == "from elsewhere"'
  send_from_here "$name" "from here again"
  grep -q "Subject: from here again" "$MOUNT/sent/$name"
  rm "$MOUNT/sent/$name"
  holds "$MOUNT/sent/$name" '.subject == "from elsewhere"'
}

@test "all records survive a restart without the service" {
  start_two_inboxes
  send_from_here hello "from here"
  send_from_elsewhere "$ALICE" "$BOB" "from elsewhere"
  refresh
  stop_mount
  stop_service
  start_mount
  holds "$MOUNT/sent/hello.receipt.json" '.status == "sent"'
  holds "$MOUNT/sent/$(elsewhere)" '.subject == "from elsewhere"'
}

@test "a message that was taken out of sent/ does not come back as a record" {
  start_two_inboxes
  send_from_here before "removed before the service told of it"
  send_from_here after "removed afterwards"
  send_from_here moved "moved"
  rm "$MOUNT/sent/before"
  refresh
  equal "$(elsewhere)" ""
  rm "$MOUNT/sent/after"
  mv "$MOUNT/sent/moved" "$MOUNT/drafts/"
  equal "$(elsewhere)" ""
  refresh
  equal "$(find "$MOUNT/sent" -type f)" ""
  send_from_elsewhere "$ALICE" "$BOB" "from elsewhere"
  refresh
  rm "$MOUNT"/sent/*
  equal "$(find "$MOUNT/sent" -type f)" ""
}

@test "many records are listed in parts" {
  start_two_inboxes
  send_many_from_elsewhere "$ALICE" "$BOB" "one of many" 150
  send_from_here hello "from here"
  refresh
  equal "$(elsewhere | wc -l)" 150
  equal "$(elsewhere | sort -u | wc -l)" 150
  equal "$(find "$MOUNT/sent" -type f | wc -l)" 152
}

@test "a Core server is never asked for sent mail" {
  start_scripted_service
  start_mount
  refresh
  refresh
  message bob@elsewhere.example "from here" >"$MOUNT/drafts/hello"
  mv "$MOUNT/drafts/hello" "$MOUNT/outbox/"
  wait_sent hello
  holds "$MOUNT/sent/hello.receipt.json" '.state == "sent" and (has("status") | not)'
  equal "$(elsewhere)" ""
  equal "$(http GET /_requests | jq '[.[] | select(.path | contains("outbound"))] | length')" 0
}
