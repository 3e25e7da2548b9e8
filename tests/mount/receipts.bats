#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# sent/, failed/ and their receipts: what became of a message, for people and scripts.

load support

setup() {
  start_two_inboxes
}

teardown() {
  stop_all
}

@test "the receipt of a sent message has every field of the contract" {
  message "$BOB" "receipted" "words" >"$MOUNT/outbox/letter.eml"
  wait_sent letter.eml
  local receipt=$MOUNT/sent/letter.eml.receipt.json
  holds "$receipt" '.state == "sent" and .kind == "message"'
  holds "$receipt" '.id | type == "string" and length > 0'
  holds "$receipt" '.idempotency_key | type == "string" and length >= 16'
  holds "$receipt" '[.accepted_at, .finished_at] | all(test("^20[0-9-]{8}T[0-9:.]+Z$"))'
  holds "$receipt" '.accepted_at <= .finished_at'
  holds "$receipt" '.attempts == 1 and (.http_status >= 200 and .http_status < 300) and .error == null'
  holds "$receipt" '.request.subject == "receipted" and (.request.plain_text | startswith("words"))'
  holds "$receipt" '.request.to_addresses[0].address == $bob and .request.from_address == $alice' \
    --arg bob "$BOB" --arg alice "$ALICE"
}

@test "the receipt names what the interface could not carry" {
  {
    printf 'From: %s\nTo: %s\nSubject: picture\nX-Priority: 1\n' "$ALICE" "$BOB"
    printf 'Content-Type: multipart/related; boundary=b\n\n'
    printf -- '--b\nContent-Type: text/html\n\n<img src="cid:logo@x.example">\n'
    printf -- '--b\nContent-Type: image/png; name=logo.png\nContent-ID: <logo@x.example>\n\npng\n--b--\n'
  } >"$DIR/picture"
  cp "$DIR/picture" "$MOUNT/outbox/picture.eml"
  message "$BOB" "plain" >"$MOUNT/outbox/plain.eml"
  wait_sent picture.eml
  wait_sent plain.eml
  local told='["the header X-Priority", "Content-ID of logo.png: the html names it as cid:logo@x.example"]'
  holds "$MOUNT/sent/picture.eml.receipt.json" '.not_carried == $told' --argjson told "$told"
  holds "$MOUNT/sent/plain.eml.receipt.json" 'has("not_carried") | not'
  stop_mount
  start_mount
  holds "$MOUNT/sent/picture.eml.receipt.json" '.not_carried == $told' --argjson told "$told"
}

@test "the receipt has the service's id of the sent email" {
  message "$BOB" "identified" >"$MOUNT/outbox/x"
  wait_sent x
  api GET "/email/outbound/$(jq -r .id "$MOUNT/sent/x.receipt.json")" | jq -e '.subject == "identified"'
}

@test "the receipt of a failed message has a reason in words" {
  jq -n --arg from "$ALICE" --arg to "$BOB" '{from_address: $from, subject: "x", plain_text: "x",
    to_addresses: [$to], attachment_ids: ["no-such-id"]}' >"$MOUNT/outbox/refused.json"
  wait_failed refused.json
  local receipt=$MOUNT/failed/refused.json.receipt.json
  holds "$receipt" '.state == "failed" and .http_status >= 400 and .http_status < 500 and (.error | length > 5)'
  holds "$receipt" '.attempts >= 1 and .id == null'
  wait_until 5 has_event '.event == "failed" and .path == "failed/refused.json" and (.error | length > 5)'
}

@test "receipts are JSON files of mode 0444 with a final newline and the time of the outcome" {
  message "$BOB" "dated" >"$MOUNT/outbox/x"
  wait_sent x
  local receipt=$MOUNT/sent/x.receipt.json
  equal "$(stat -c %a "$receipt")" 444
  equal "$(stat -c %a "$MOUNT/sent/x")" 444
  equal "$(tail -c 1 "$receipt" | od -An -tx1 | tr -d ' ')" 0a
  has_true_size "$receipt"
  local age=$(($(date +%s) - $(stat -c %Y "$receipt")))
  [ "$age" -ge -1 ]
  [ "$age" -le 30 ]
}

@test "rm of a sent message removes its receipt" {
  message "$BOB" "removed" >"$MOUNT/outbox/x"
  wait_sent x
  rm "$MOUNT/sent/x"
  missing "$MOUNT/sent/x" "$MOUNT/sent/x.receipt.json"
  stop_mount
  start_mount
  missing "$MOUNT/sent/x" "$MOUNT/sent/x.receipt.json"
}

@test "rm -r of everything in sent/ and failed/ works" {
  local i
  for i in 1 2 3; do
    message "$BOB" "sent $i" >"$MOUNT/outbox/$i"
    echo "bad $i" >"$MOUNT/outbox/bad$i"
  done
  syscall fsync "$MOUNT/outbox" || true
  rm -f "$MOUNT"/sent/* "$MOUNT"/failed/*
  equal "$(find "$MOUNT/sent" "$MOUNT/failed" -mindepth 1)" ""
}

@test "rm sent/* and find failed -delete do not complain of receipts that are gone" {
  message "$BOB" "one" >"$MOUNT/outbox/one.eml"
  message "$BOB" "two" >"$MOUNT/outbox/two.eml"
  echo bad >"$MOUNT/outbox/bad"
  wait_sent one.eml
  wait_sent two.eml
  wait_failed bad
  expect EPERM unlink "$MOUNT/sent/one.eml.receipt.json"
  run -0 rm "$MOUNT"/sent/*
  equal "$output" ""
  run -0 find "$MOUNT/failed" -type f -delete
  equal "$output" ""
  equal "$(find "$MOUNT/sent" "$MOUNT/failed" -mindepth 1)" ""
}

@test "nothing can be created or written in sent/ and failed/" {
  message "$BOB" "fixed" >"$MOUNT/outbox/x"
  wait_sent x
  local folder
  for folder in sent failed; do
    expect "open EPERM" write "$MOUNT/$folder/new" wc x
    expect EPERM mkdir "$MOUNT/$folder/new"
    expect EPERM symlink x "$MOUNT/$folder/link"
    echo x >"$MOUNT/drafts/x"
    expect EPERM rename "$MOUNT/drafts/x" "$MOUNT/$folder/x"
  done
  expect EACCES open "$MOUNT/sent/x" w
  expect EACCES open "$MOUNT/sent/x.receipt.json" w
  run syscall truncate "$MOUNT/sent/x" 0
  [ "$status" -ne 0 ]
  cmp "$MOUNT/sent/x" <(message "$BOB" fixed)
}

@test "mv within sent/, to failed/ and to attachments/ is refused, and changes nothing" {
  message "$BOB" "stays" >"$MOUNT/outbox/x"
  wait_sent x
  local to
  for to in failed/x attachments/x inboxes/x "inboxes/$BOB/x" x; do
    run syscall rename "$MOUNT/sent/x" "$MOUNT/$to"
    [ "$status" -ne 0 ] || fail "moved to $to"
    [ "$output" != EXDEV ]
  done
  run syscall rename "$MOUNT/sent/x.receipt.json" "$MOUNT/drafts/r"
  equal "$output" EPERM
  present "$MOUNT/sent/x" "$MOUNT/sent/x.receipt.json"
}

@test "mv from sent/ to drafts/ gives an ordinary draft" {
  message "$BOB" "as a template" >"$MOUNT/outbox/x"
  wait_sent x
  mv "$MOUNT/sent/x" "$MOUNT/drafts/template"
  missing "$MOUNT/sent/x" "$MOUNT/sent/x.receipt.json"
  echo "more" >>"$MOUNT/drafts/template"
  equal "$(tail -n 1 "$MOUNT/drafts/template")" more
}

@test "mv from failed/ to outbox/ keeps the key of an unedited message; an edited one gets a new key" {
  # An attachment that is not there makes it fail; then it is there.
  printf 'From: %s\nTo: %s\nSubject: key kept\n\nx\n' "$ALICE" "$BOB" >"$DIR/letter"
  stop_service
  cp "$DIR/letter" "$MOUNT/outbox/a"
  start_service
  echo "retry all" >"$MOUNT/ctl"
  wait_sent a
  jq -n --arg from "$ALICE" --arg to "$BOB" '{from_address: $from, subject: "keys", plain_text: "x",
    to_addresses: [$to], attachment_ids: ["no-such-id"]}' >"$MOUNT/outbox/f"
  wait_failed f
  local key
  key=$(jq -er .idempotency_key "$MOUNT/failed/f.receipt.json")
  mv "$MOUNT/failed/f" "$MOUNT/outbox/f"
  wait_failed f
  holds "$MOUNT/failed/f.receipt.json" '.idempotency_key == $key' --arg key "$key"
  mv "$MOUNT/failed/f" "$MOUNT/drafts/f"
  sed -i 's/"keys"/"other words"/' "$MOUNT/drafts/f"
  mv "$MOUNT/drafts/f" "$MOUNT/outbox/f"
  wait_failed f
  holds "$MOUNT/failed/f.receipt.json" '.idempotency_key != $key' --arg key "$key"
}

@test "ctl retry NAME hands a failed message in again" {
  jq -n --arg from "$ALICE" --arg to "$BOB" '{from_address: $from, subject: "again", plain_text: "x",
    to_addresses: [$to], attachment_ids: ["no-such-id"]}' >"$MOUNT/outbox/again"
  wait_failed again
  local first
  first=$(jq -r .finished_at "$MOUNT/failed/again.receipt.json")
  expect ok write "$MOUNT/ctl" w $'retry again\n'
  wait_until 20 jq -e --arg first "$first" '.finished_at > $first' "$MOUNT/failed/again.receipt.json"
}

@test "sent/ and failed/ survive a restart with their receipts" {
  message "$BOB" "kept" >"$MOUNT/outbox/kept"
  wait_sent kept
  echo bad >"$MOUNT/outbox/bad"
  wait_failed bad
  (cd "$MOUNT" && find sent failed -type f -exec sha256sum {} + | sort) >"$DIR/before"
  equal "$(wc -l <"$DIR/before")" 4
  stop_mount
  start_mount
  diff "$DIR/before" <(cd "$MOUNT" && find sent failed -type f -exec sha256sum {} + | sort)
}

@test "find and jq read receipts like any file" {
  local i
  for i in 1 2 3; do
    message "$BOB" "batch $i" >"$MOUNT/outbox/batch$i"
  done
  sync "$MOUNT/outbox"
  equal "$(jq -r '.request.subject' "$MOUNT"/sent/*.receipt.json | sort | tr '\n' ,)" "batch 1,batch 2,batch 3,"
}
