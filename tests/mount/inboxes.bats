#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# Folders below inboxes/: creating an inbox, changing its record, and operations that are refused.

load support

setup() {
  start_service
}

teardown() {
  stop_all
}

record() { # ADDRESS
  api GET /inbox | jq -e --arg address "$1" '.[] | select(.email_address == $address)'
}

@test "mkdir creates the inbox at the service, named after the local part" {
  start_mount
  mkdir "$MOUNT/inboxes/$ALICE"
  record "$ALICE" | jq -e '.name == "alice"'
  present "$MOUNT/inboxes/$ALICE/inbox.json"
  holds "$MOUNT/inboxes/$ALICE/inbox.json" '.id == $id' --arg id "$(inbox_id "$ALICE")"
}

@test "the first inbox of the account gets a welcome email, which appears by itself" {
  start_mount
  mkdir "$MOUNT/inboxes/$ALICE"
  wait_until 10 bash -c 'ls "$1"/2*.json' - "$MOUNT/inboxes/$ALICE"
  equal "$(find "$MOUNT/inboxes/$ALICE" -name '2*.json' | wc -l)" 1
  mkdir "$MOUNT/inboxes/$BOB"
  refresh
  equal "$(find "$MOUNT/inboxes/$BOB" -name '2*.json' | wc -l)" 0
}

@test "inboxes created elsewhere appear after a sync" {
  create_inbox "$ALICE"
  start_mount
  present "$MOUNT/inboxes/$ALICE"
  create_inbox "$BOB"
  refresh
  equal "$(ls "$MOUNT/inboxes")" "$ALICE"$'\n'"$BOB"
}

@test "a new inbox can receive at once" {
  start_mount
  mkdir "$MOUNT/inboxes/$ALICE" "$MOUNT/inboxes/$BOB"
  message "$BOB" "to a new inbox" >"$MOUNT/outbox/x"
  wait_sent x
  refresh "$BOB"
  mounted "$BOB" "to a new inbox"
}

@test "mkdir -p of an existing inbox succeeds, and mkdir fails with EEXIST" {
  start_mount
  mkdir "$MOUNT/inboxes/$ALICE"
  expect EEXIST mkdir "$MOUNT/inboxes/$ALICE"
  mkdir -p "$MOUNT/inboxes/$ALICE"
  equal "$(api GET /inbox | jq length)" 1
}

@test "mkdir of an address that exists only at the service fails with EEXIST" {
  start_mount
  create_inbox "$ALICE"
  expect EEXIST mkdir "$MOUNT/inboxes/$ALICE"
}

@test "mkdir of a bad address fails with EINVAL, and creates nothing" {
  start_mount
  local address
  for address in nobody 'two words@x.example' '@x.example' 'a@' '.a@x.example' '-a@x.example' 'a@b@c' $'a\nb@x.example' \
    'a"b@x.example' '<a@x.example>' '"a b"@inbox.localhost' 'a`b@inbox.localhost' 'a@[192.0.2.1]'; do
    expect EINVAL mkdir "$MOUNT/inboxes/$address"
  done
  api GET /inbox | jq -e 'length == 0'
  equal "$(ls -A "$MOUNT/inboxes")" ""
}

@test "mkdir of an address that the service refuses fails with EINVAL" {
  start_mount
  expect EINVAL mkdir "$MOUNT/inboxes/alice@not-here.example"
}

@test "mkdir fails with EHOSTUNREACH within 5 s if the service is away" {
  start_mount
  stop_service
  within 6 expect EHOSTUNREACH mkdir "$MOUNT/inboxes/$ALICE"
  missing "$MOUNT/inboxes/$ALICE"
}

@test "mkdir in other folders fails with EPERM" {
  start_mount
  mkdir "$MOUNT/inboxes/$ALICE"
  local folder
  for folder in "" outbox/ sent/ failed/ attachments/ "inboxes/$ALICE/"; do
    expect EPERM mkdir "$MOUNT/${folder}new"
  done
}

@test "rmdir, rm and mv in inboxes/ fail with EPERM" {
  start_mount
  mkdir "$MOUNT/inboxes/$ALICE"
  wait_until 10 bash -c 'ls "$1"/2*.json' - "$MOUNT/inboxes/$ALICE"
  local mail
  mail=$(find "$MOUNT/inboxes/$ALICE" -name '2*.json')
  expect EPERM rmdir "$MOUNT/inboxes/$ALICE"
  expect EPERM rename "$MOUNT/inboxes/$ALICE" "$MOUNT/inboxes/$BOB"
  expect EPERM unlink "$mail"
  expect EPERM unlink "$MOUNT/inboxes/$ALICE/inbox.json"
  expect EPERM rename "$mail" "$mail.old"
  expect EPERM rename "$mail" "$MOUNT/drafts/mail"
  expect EPERM rename "$mail" "$MOUNT/outbox/mail"
  echo x >"$MOUNT/drafts/x"
  expect EPERM rename "$MOUNT/drafts/x" "$MOUNT/inboxes/$ALICE/x"
  expect EPERM rename "$MOUNT/drafts/x" "$mail"
  expect EPERM symlink /etc/passwd "$MOUNT/inboxes/$ALICE/link"
  expect EPERM link "$mail" "$MOUNT/inboxes/$ALICE/link"
  expect "open EPERM" write "$MOUNT/inboxes/$ALICE/new" wc x
  expect "open EPERM" write "$MOUNT/inboxes/new" wc x
  expect "open EPERM" write "$MOUNT/new" wc x
  run touch "$MOUNT/inboxes/$ALICE/new"
  [ "$status" -ne 0 ]
  present "$mail"
}

@test "an email cannot be opened for writing: EACCES" {
  start_mount
  mkdir "$MOUNT/inboxes/$ALICE"
  wait_until 10 bash -c 'ls "$1"/2*.json' - "$MOUNT/inboxes/$ALICE"
  local mail
  mail=$(find "$MOUNT/inboxes/$ALICE" -name '2*.json')
  expect EACCES open "$mail" w
  expect EACCES open "$mail" rw
  expect EACCES open "$mail" wa
  run syscall truncate "$mail" 0
  [ "$status" -ne 0 ]
  [ -s "$mail" ]
}

# ---------------------------------------------------------------- inbox.json

@test "inbox.json is the record as the service gave it" {
  start_mount
  mkdir "$MOUNT/inboxes/$ALICE"
  refresh
  diff <(jq -S . "$MOUNT/inboxes/$ALICE/inbox.json") <(record "$ALICE" | jq -S .)
}

@test "writing inbox.json updates each field that was written, and keeps the others" {
  start_mount
  mkdir "$MOUNT/inboxes/$ALICE"
  refresh
  local file=$MOUNT/inboxes/$ALICE/inbox.json
  jq '.allow_bcc = false | .blocked_from_addresses = {"addresses": ["spam@x.example"], "domains": []}' "$file" >"$DIR/new"
  cat "$DIR/new" >"$file"
  record "$ALICE" | jq -e '.allow_bcc == false and .allow_cc == true and .name == "alice"'
  jq '.name = "Alice A."' "$file" >"$DIR/new"
  cp "$DIR/new" "$file"
  record "$ALICE" | jq -e '.allow_bcc == false and .name == "Alice A." and
    .blocked_from_addresses.addresses == ["spam@x.example"]'
  holds "$file" '.name == "Alice A."'
}

@test "a field that another client changed meanwhile is not reset" {
  start_mount
  mkdir "$MOUNT/inboxes/$ALICE"
  refresh
  record "$ALICE" | jq '.allow_cc = false' | api POST /inbox/upsert -H 'Content-Type: application/json' -d @-
  echo '{"name": "New name"}' >"$MOUNT/inboxes/$ALICE/inbox.json"
  record "$ALICE" | jq -e '.allow_cc == false and .name == "New name"'
}

@test "a new email_address renames the folder; an address in use gives EEXIST and changes nothing" {
  start_mount
  mkdir "$MOUNT/inboxes/$ALICE" "$MOUNT/inboxes/$BOB"
  refresh
  local carol=carol@$DOMAIN
  expect ok write "$MOUNT/inboxes/$BOB/inbox.json" wt "{\"email_address\": \"$carol\"}"
  equal "$(ls "$MOUNT/inboxes")" "$ALICE"$'\n'"$carol"
  send_from_elsewhere "$ALICE" "$carol" "to the new name"
  refresh
  mounted "$carol" "to the new name"
  expect "close EEXIST" write "$MOUNT/inboxes/$carol/inbox.json" wt "{\"email_address\": \"$ALICE\"}"
  equal "$(ls "$MOUNT/inboxes")" "$ALICE"$'\n'"$carol"
}

@test "vim edits inbox.json, with and without its backup" {
  start_mount
  mkdir "$MOUNT/inboxes/$ALICE"
  refresh
  vim -Nes -u NONE -i NONE -c 'set nobackup nowritebackup noswapfile' \
    -c '%s/"allow_cc": true/"allow_cc": false/' -c 'wq' "$MOUNT/inboxes/$ALICE/inbox.json" </dev/null
  record "$ALICE" | jq -e '.allow_cc == false'
  vim -Nes -u NONE -i NONE -c '%s/"allow_bcc": true/"allow_bcc": false/' -c 'wq' \
    "$MOUNT/inboxes/$ALICE/inbox.json" </dev/null
  record "$ALICE" | jq -e '.allow_bcc == false and .allow_cc == false'
}

@test "tee, dd, rsync, cp -p and a program that writes JSON change inbox.json; programs that replace files cannot" {
  start_mount
  mkdir "$MOUNT/inboxes/$ALICE"
  refresh
  local file=$MOUNT/inboxes/$ALICE/inbox.json name
  for name in tee dd rsync "rsync -a" "cp -p"; do
    jq --arg name "$name" '.name = $name' "$file" >"$DIR/new.json"
    chmod 640 "$DIR/new.json"
    case $name in
      tee) tee "$file" <"$DIR/new.json" >"$DIR/copy" ;;
      dd) dd if="$DIR/new.json" of="$file" bs=50 status=none ;;
      rsync*) $name --inplace "$DIR/new.json" "$file" ;;
      cp*) $name "$DIR/new.json" "$file" ;;
    esac
    record "$ALICE" | jq -e --arg name "$name" '.name == $name'
  done
  python3 -c '
import json, sys
with open(sys.argv[1]) as file:
    record = json.load(file)
record["name"] = "Älice"
with open(sys.argv[1], "w") as file:
    json.dump(record, file)' "$file"
  record "$ALICE" | jq -e '.name == "Älice"'
  run ! sed -i 's/lice/nna/' "$file"
  run ! install -m 600 "$DIR/new.json" "$file"
  run ! mv -f "$DIR/new.json" "$file"
  record "$ALICE" | jq -e '.name == "Älice"'
}

@test "half of a JSON text changes nothing, for a shell closes the file before it has written all" {
  start_mount
  mkdir "$MOUNT/inboxes/$ALICE"
  refresh
  local file=$MOUNT/inboxes/$ALICE/inbox.json
  { printf '{"name":' && /bin/echo ' "Alice A."' && printf '}'; } >"$file"
  record "$ALICE" | jq -e '.name == "Alice A."'
  printf '{"name": "cut of' >"$file"
  record "$ALICE" | jq -e '.name == "Alice A."'
  wait_until 5 has_event '.event == "inbox" and (.error | type == "string") and (.error | test("complete"))'
  holds "$file" '.name == "Alice A."'
}

@test "an invalid value in inbox.json fails the close, and changes nothing" {
  start_mount
  mkdir "$MOUNT/inboxes/$ALICE"
  refresh
  local before file=$MOUNT/inboxes/$ALICE/inbox.json
  before=$(record "$ALICE")
  expect "close EINVAL" write "$file" wt '["an array"]'
  expect "close EINVAL" write "$file" wt '{"allow_cc": "perhaps"}'
  expect "close EINVAL" write "$file" wt '{"id": "somebody-else"}'
  equal "$(record "$ALICE")" "$before"
  holds "$file" '.id == $id' --arg id "$(inbox_id "$ALICE")"
  has_event '.event == "inbox" and (.error | type == "string") and (.error | length > 5)'
}

@test "text that is not JSON, or only a part of it, fails the close; an empty file changes nothing" {
  start_mount
  mkdir "$MOUNT/inboxes/$ALICE"
  refresh
  local before file=$MOUNT/inboxes/$ALICE/inbox.json
  before=$(record "$ALICE")
  expect "close EINVAL" write "$file" wt 'garbage'
  expect "close EINVAL" write "$file" wt '{"name": "cut of'
  echo garbage >"$DIR/garbage"
  run ! cp "$DIR/garbage" "$file"
  cp /dev/null "$file"
  equal "$(record "$ALICE")" "$before"
  holds "$file" '.name == "alice"'
}

@test "with the service away the close fails with EHOSTUNREACH" {
  start_mount
  mkdir "$MOUNT/inboxes/$ALICE"
  refresh
  stop_service
  within 11 expect "close EHOSTUNREACH" write "$MOUNT/inboxes/$ALICE/inbox.json" wt '{"name": "x"}'
  holds "$MOUNT/inboxes/$ALICE/inbox.json" '.name == "alice"'
}

@test "a reader during a write sees the old record; a text that is too long is refused" {
  start_mount
  mkdir "$MOUNT/inboxes/$ALICE"
  refresh
  run bash -c 'head -c 100000000 /dev/zero > "$1"' - "$MOUNT/inboxes/$ALICE/inbox.json"
  [ "$status" -ne 0 ]
  holds "$MOUNT/inboxes/$ALICE/inbox.json" '.name == "alice"'
}
