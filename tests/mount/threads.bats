#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# Mail programs name the email that they answer by its Message-ID. If its message was read in the mount, the answer goes
# out as a reply in its thread.

load support

CAROL=carol@$DOMAIN

setup() {
  start_two_inboxes
  send_from_elsewhere "$ALICE" "$BOB" Dinner
  refresh
  wait_for_folders "$BOB"
}

teardown() {
  stop_all
}

# The Message-ID of bob's mail of this subject, as a program reads it.
message_id() { # SUBJECT
  sed -n 's/^Message-I[Dd]: *\(<.*>\).*/\1/p' "$(folder "$BOB" "$1")/message.eml" | head -n 1
}

# Sends a message with this header.
send_with() { # HEADER [FROM]
  printf 'From: %s\nTo: %s\nSubject: Yes\n%s\n\nWith pleasure.\n' "${2:-$BOB}" "$ALICE" "$1" >"$MOUNT/drafts/yes"
  mv "$MOUNT/drafts/yes" "$MOUNT/outbox/yes"
  wait_sent yes
}

is_reply_to_dinner() {
  holds "$MOUNT/sent/yes.receipt.json" '.request.existing_email_id == $id and .request.message_type == "reply" and
    .request.subject == "Yes" and .not_carried == null' --arg id "$(received "$BOB" Dinner | jq -r '.[0].id')"
  content "$ALICE" Yes >"$DIR/arrived"
  holds "$DIR/arrived" '.in_reply_to_id == $id and (.previous_emails | length) == 1' \
    --arg id "$(content "$BOB" Dinner | jq -r .message_id)"
}

is_new_thread() { # WORDS
  holds "$MOUNT/sent/yes.receipt.json" '.request.existing_email_id == null and .request.message_type == null and
    (.not_carried | length) == 1 and (.not_carried[0] | test($words))' --arg words "$1"
  holds <(content "$ALICE" Yes) '.in_reply_to_id == null'
}

@test "a message with In-Reply-To is a reply in the thread" {
  send_with "In-Reply-To: $(message_id Dinner)"
  is_reply_to_dinner
}

@test "a message with References alone is a reply to the last known email" {
  send_with "References: <first@elsewhere.example>
 $(message_id Dinner)
 <last@elsewhere.example>"
  is_reply_to_dinner
}

@test "a reply to an email that was never read here starts a new thread, and the receipt says so" {
  send_with "In-Reply-To: <unheard-of@elsewhere.example>"
  is_new_thread "no message that they name was opened"
}

@test "a reply from another inbox than the email's starts a new thread, and the receipt says so" {
  create_inbox "$CAROL" >/dev/null
  refresh
  send_with "In-Reply-To: $(message_id Dinner)" "$CAROL"
  is_new_thread "another inbox"
}

@test "the receipt of a message that answers nothing mentions no thread" {
  send_with "X-Mailer: none"
  holds "$MOUNT/sent/yes.receipt.json" 'has("not_carried") | not'
  holds "$MOUNT/sent/yes.receipt.json" '.request.message_type == null'
}

@test "emails that were read are known after a restart, without the service" {
  id=$(message_id Dinner)
  stop_mount
  stop_service
  start_mount
  printf 'From: %s\nTo: %s\nSubject: Yes\nIn-Reply-To: %s\n\nYes.\n' "$BOB" "$ALICE" "$id" >"$MOUNT/drafts/yes"
  mv "$MOUNT/drafts/yes" "$MOUNT/outbox/yes"
  start_service
  echo "retry all" >"$MOUNT/ctl"
  wait_sent yes
  is_reply_to_dinner
}

@test "after the cache was deleted, reading an email makes it known again" {
  id=$(message_id Dinner)
  stop_mount
  rm -r "$STATE/cache"
  start_mount
  refresh
  wait_for_folders "$BOB"
  equal "$(message_id Dinner)" "$id"
  send_with "In-Reply-To: $id"
  is_reply_to_dinner
}
