#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# Received mail as files: ls, cat, jq, grep, find and stat on a mounted account.

load support

setup() {
  start_two_inboxes
}

teardown() {
  stop_all
}

@test "the root lists exactly what the contract names" {
  refresh
  wait_until 20 test -d "$MOUNT/maildir"
  equal "$(find "$MOUNT" -mindepth 1 -maxdepth 1 -printf '%f\n' | LC_ALL=C sort | tr '\n' ' ')" \
    "README attachments drafts events.jsonl failed inboxes maildir outbox search sent status.json "
}

@test "ctl can be opened, and is not listed" {
  [ -e "$MOUNT/ctl" ]
  equal "$(find "$MOUNT" -maxdepth 1 -name ctl)" ""
}

@test "the mount's README describes its use in one screen" {
  [ "$(wc -l <"$MOUNT/README")" -le 60 ]
  grep -q 'outbox' "$MOUNT/README"
  grep -q 'ctl' "$MOUNT/README"
  grep -q 'drafts' "$MOUNT/README"
}

@test "the mount's README warns of a pipeline that dies unseen" {
  grep -qi 'pipe' "$MOUNT/README"
  grep -q 'mv' "$MOUNT/README"
}

@test "an email is one file with the record of the service" {
  send_from_elsewhere "$ALICE" "$BOB" "Quarterly figures"
  refresh
  local file
  file=$(mounted "$BOB" "Quarterly figures")
  diff <(jq -S . "$file") <(received "$BOB" "Quarterly figures" | jq -S '.[0]')
}

@test "known fields come first, indented by two spaces, with a final newline" {
  send_from_elsewhere "$ALICE" "$BOB" "Grüße ✓"
  refresh
  local file
  file=$(mounted "$BOB" "Grüße ✓")
  equal "$(command jq -c 'keys_unsorted[0:5]' "$file")" '["id","date","from_address","to_addresses","subject"]'
  grep -q '^  "id": ' "$file"
  grep -q 'Grüße ✓' "$file"
  equal "$(tail -c 1 "$file" | od -An -tx1 | tr -d ' ')" 0a
  diff "$file" <(command jq --indent 2 . "$file")
}

@test "the name of an email is date, slug and id" {
  send_from_elsewhere "$ALICE" "$BOB" "Re: Quarterly  FIGURES (final), für Zoë!"
  refresh
  local file id
  file=$(mounted "$BOB" "Re: Quarterly  FIGURES (final), für Zoë!")
  id=$(jq -r .id "$file")
  [[ ${file##*/} =~ ^[0-9]{8}T[0-9]{6}Z_re-quarterly-figures-final-für-zoë_"${id:0:8}"\.json$ ]] || fail "${file##*/}"
  equal "$(date -u -d "$(jq -r .date "$file")" +%Y%m%dT%H%M%SZ)" "$(basename "$file" | cut -d_ -f1)"
}

@test "mtime is the email's date, the size is exact, and the mode is 0444" {
  send_from_elsewhere "$ALICE" "$BOB" "attributes"
  refresh
  local file
  file=$(mounted "$BOB" "attributes")
  equal "$(stat -c %Y "$file")" "$(date -d "$(jq -r .date "$file")" +%s)"
  has_true_size "$file"
  equal "$(stat -c %s "$file")" "$(cp "$file" /dev/stdout | wc -c)"
  equal "$(stat -c %a "$file")" 444
}

@test "folders are 0700 and owned by the user who mounted; writable files are 0600" {
  local folder
  for folder in . inboxes "inboxes/$BOB" drafts outbox sent failed attachments; do
    equal "$(stat -c '%a %u' "$MOUNT/$folder")" "700 $(id -u)"
  done
  equal "$(stat -c %a "$MOUNT/inboxes/$BOB/inbox.json")" 600
  equal "$(stat -c %a "$MOUNT/README")" 444
}

@test "inodes are stable while mounted" {
  send_from_elsewhere "$ALICE" "$BOB" "one"
  refresh
  wait_for_folders "$BOB"
  find "$MOUNT/inboxes" -printf '%i %p\n' | sort >"$DIR/before"
  send_from_elsewhere "$ALICE" "$BOB" "two"
  refresh
  # Has the kernel forget what it knows of this mount; what it knows of others is other tests' business.
  mount -i -o remount "$MOUNT" 2>/dev/null || true
  find "$MOUNT/inboxes" -printf '%i %p\n' | sort >"$DIR/after"
  equal "$(comm -23 "$DIR/before" "$DIR/after")" ""
  equal "$(comm -13 "$DIR/before" "$DIR/after" | grep -c '_two_[0-9a-f]*\.json$')" 1
  run ! grep -v '_two_' <(comm -13 "$DIR/before" "$DIR/after")
  equal "$(cut -d' ' -f1 "$DIR/after" | sort | uniq -d)" ""
}

@test "names and contents are stable across mounts" {
  send_many_from_elsewhere "$ALICE" "$BOB" "mail" 5
  refresh
  wait_for_folders "$ALICE" "$BOB"
  (cd "$MOUNT/inboxes" && find . -type f -exec sha256sum {} + | sort) >"$DIR/before"
  stop_mount
  start_mount
  diff "$DIR/before" <(cd "$MOUNT/inboxes" && find . -type f -exec sha256sum {} + | sort)
  stop_mount
  rm -rf "$STATE"
  start_mount
  refresh
  wait_for_folders "$ALICE" "$BOB"
  diff "$DIR/before" <(cd "$MOUNT/inboxes" && find . -type f -exec sha256sum {} + | sort)
}

@test "ls, find, grep -r, wc, tar and cp -a read everything without hanging" {
  send_many_from_elsewhere "$ALICE" "$BOB" "letter" 30
  refresh
  within 10 timeout 20 ls -laR "$MOUNT" >"$DIR/list"
  equal "$(sed -n "\|/inboxes/$BOB:\$|,/^\$/p" "$DIR/list" | grep -c 'letter-.*\.json$')" 30
  equal "$(timeout 20 grep -rl --include='*.json' 'letter 7"' "$MOUNT/inboxes" | wc -l)" 1
  within 10 timeout 20 grep -rq 'no such words' "$MOUNT" || [ $? -eq 1 ]
  equal "$(find "$MOUNT/inboxes/$BOB" -name '*.json' -newermt '1 hour ago' | wc -l)" 31
  timeout 20 cp -a "$MOUNT" "$DIR/copy"
  diff -r "$MOUNT/inboxes" "$DIR/copy/inboxes"
  timeout 20 tar -C "$MOUNT" -cf "$DIR/all.tar" .
  equal "$(tar -tf "$DIR/all.tar" | grep -c "/inboxes/$BOB/[^/]*letter-.*\.json\$")" 30
  timeout 20 rsync -a "$MOUNT/inboxes/" "$DIR/rsynced/"
  diff -r "$MOUNT/inboxes" "$DIR/rsynced"
}

@test "ls -l sends no request for extended attributes, and getxattr is not implemented" {
  expect EOPNOTSUPP getxattr "$MOUNT/README"
}

@test "two emails of one second and subject have two names" {
  for _ in {1..10}; do
    send_from_elsewhere "$ALICE" "$BOB" "same"
  done
  refresh
  equal "$(find "$MOUNT/inboxes/$BOB" -name '*_same_*.json' | wc -l)" 10
}

@test "an email to both inboxes is in both" {
  message "$BOB, $ALICE" "to both" >"$MOUNT/outbox/both"
  wait_sent both
  refresh
  mounted "$ALICE" "to both"
  mounted "$BOB" "to both"
}

@test "a listing of many emails shows each once, however it is read" {
  # More than the service answers with at once by default.
  send_many_from_elsewhere "$ALICE" "$BOB" bulk 250
  refresh
  local names
  mapfile -t names < <(jq -r .subject "$MOUNT/inboxes/$BOB"/*_bulk-*.json)
  equal "$(printf '%s\n' "${names[@]}" | sort -u | wc -l)" 250
  equal "${#names[@]}" 250
  equal "$(find "$MOUNT/inboxes/$BOB" -name '*_bulk-*.json' | wc -l)" 250
}
