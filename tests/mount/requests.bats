#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# The number of kernel requests that a command takes. Unlike times it does not vary, so it can be asserted.

load support

EMAILS=40
# For the folder itself and the files in it that are no emails.
FEW=6

setup() {
  start_service
  create_inboxes "$ALICE" "$BOB"
  send_many_from_elsewhere "$ALICE" "$BOB" number "$EMAILS"
  # Every request is a line of the log.
  start_mount -d
  refresh
  wait_for_folders "$BOB"
  stop_mount
  start_mount -d --metadata-only
  BOX=$MOUNT/inboxes/$BOB
}

with_folders() {
  stop_mount
  start_mount -d
}

teardown() {
  stop_all
}

# Runs a command, and keeps the requests that it took. The kernel numbers them as they are made; threads may note them
# in another order. Only of what nobody waits for, as RELEASE, some may be noted later still.
counting() # COMMAND...
{
  local start
  start=$(wc -c <"$MOUNT_LOG")
  "$@" >/dev/null
  [ ! -e "$MOUNT/inboxes/marker$start" ] # the last request
  tail -c "+$((start + 1))" "$MOUNT_LOG" >"$DIR/noted"
  sed -nE 's/^unique: ([0-9]+), opcode: ([A-Z0-9]+) .*/\1 \2/p' "$DIR/noted" | sort -n |
    sed '$d; s/.* //' >"$DIR/requests"
  echo "# $*:" && sort "$DIR/requests" | uniq -c
}

# The same of what was done before. The kernel may drop what it keeps whenever it likes (some machines have it page out
# what was not used for a minute), but what it may not keep it asks for every time.
counting_again() # COMMAND...
{
  for _ in {1..5}; do
    counting "$@"
    [ "$(grep -cE '^(READ|READDIRPLUS)$' "$DIR/requests")" -gt 0 ] || break
  done
}

requests() # OPERATION
{
  grep -cx "$1" "$DIR/requests" || true
}

none() # OPERATION...
{
  local operation
  for operation; do
    [ "$(requests "$operation")" -eq 0 ] || fail "$operation: $(requests "$operation"), and there is none to be:" \
      "$(cat "$DIR/noted")"
  done
}

at_most() # COUNT OPERATION
{
  [ "$(requests "$2")" -le "$1" ] || fail "$2: $(requests "$2"), more than $1"
}

all_at_most() # COUNT
{
  [ "$(wc -l <"$DIR/requests")" -le "$1" ] || fail "more than $1 requests:" "$(sort "$DIR/requests" | uniq -c)"
}

cat_all() {
  find "$BOX" -name '2*.json' -print0 | xargs -0 cat
}

# A listing of so many files is a few answers of 4 kB at least.
@test "the first listing takes one request for many files, with all their attributes" {
  counting ls -l "$BOX"
  none READDIR OPEN READ
  at_most $((EMAILS / 8)) READDIRPLUS
  at_most 2 LOOKUP
  at_most "$FEW" GETATTR
}

@test "a second listing takes no more requests than the folder itself" {
  local options
  ls -l "$BOX" >/dev/null
  for options in -f -l -la; do
    counting_again ls "$options" "$BOX"
    none READDIR READDIRPLUS LOOKUP OPEN READ
    all_at_most "$FEW"
  done
}

@test "find -newer takes no request a file" {
  touch "$DIR/reference"
  counting find "$BOX" -newer "$DIR/reference"
  at_most "$FEW" GETATTR
  at_most 2 LOOKUP
  counting_again find "$BOX" -newer "$DIR/reference"
  none READDIRPLUS LOOKUP
  all_at_most "$FEW"
}

@test "lstat of each file takes no request" {
  ls "$BOX" >/dev/null
  counting_again find "$BOX" -name '2*.json' -exec stat -c %s {} +
  none LOOKUP READDIRPLUS
  all_at_most "$FEW"
}

@test "reading a file takes an open and a release, the first time as the second" {
  for time in first second third; do
    counting cat_all
    equal "$time: $(requests OPEN)" "$time: $EMAILS"
    equal "$time: $(requests RELEASE)" "$time: $EMAILS"
    none READ FLUSH GETXATTR
    at_most "$FEW" GETATTR
  done
  equal "$(cat_all | jq -s length)" "$EMAILS"
}

@test "grep takes an open and a release a file" {
  for time in first second; do
    counting grep -r '"subject": "number' "$BOX"
    equal "$time: $(requests OPEN)" "$time: $((EMAILS + 2))" # inbox.json and index.jsonl are files, too
    at_most 8 READ                                           # of these two
    at_most "$FEW" GETATTR
  done
}

@test "grep in the index takes no request a file" {
  counting grep number "$BOX/index.jsonl"
  equal "$(requests OPEN)" 1
  all_at_most 12
}

@test "the folders of emails add nothing to a listing, and nothing to its repetition" {
  with_folders
  counting ls -l "$BOX"
  none READDIR OPEN READ
  at_most $((EMAILS / 4)) READDIRPLUS
  at_most 2 LOOKUP
  at_most "$FEW" GETATTR
  counting_again ls -l "$BOX"
  none READDIR READDIRPLUS LOOKUP OPEN READ
  all_at_most "$FEW"
  touch "$DIR/reference"
  counting_again find "$BOX" -maxdepth 1 -newer "$DIR/reference"
  none READDIRPLUS LOOKUP
  all_at_most "$FEW"
}

@test "listing the folder of an email sends requests for the folder alone, and none when repeated" {
  with_folders
  counting find "$BOX" -name '*.txt'
  none READ OPEN
  at_most $((EMAILS + 4)) OPENDIR
  at_most "$FEW" LOOKUP
  counting_again find "$BOX" -name '*.txt'
  none READDIR READDIRPLUS LOOKUP READ OPEN
  at_most $((EMAILS + 4)) OPENDIR
}

@test "reading texts takes no lookup, and no read the second time" {
  with_folders
  read_texts() {
    find "$BOX" -name body.txt -print0 | xargs -0 cat
  }
  counting read_texts
  at_most "$FEW" LOOKUP
  at_most "$FEW" GETATTR
  equal "$(requests OPEN)" "$EMAILS"
  counting_again read_texts
  none READ LOOKUP
  equal "$(requests OPEN)" "$EMAILS"
}

with_maildir() {
  with_folders
  VIEW=$MOUNT/maildir/$BOB
  find "$VIEW" -type f -exec cat {} + >/dev/null
}

@test "a second listing of a Maildir, and find -newer, take no request a message" {
  with_maildir
  touch "$DIR/reference"
  local command
  for command in "ls -l $VIEW/new" "find $VIEW/new -newer $DIR/reference"; do
    # shellcheck disable=SC2086
    $command >/dev/null # a read has made the time of access of each message unknown
    # shellcheck disable=SC2086
    counting_again $command
    none READDIRPLUS OPEN READ
    all_at_most "$FEW"
  done
}

@test "a mark and new mail appear in the next listing of a Maildir that the kernel caches" {
  with_maildir
  ls -l "$VIEW/new" "$VIEW/cur" >/dev/null
  local first
  first=$(find "$VIEW/new" -type f | head -n 1)
  mv "$first" "$VIEW/cur/${first##*/}:2,S"
  equal "$(find "$VIEW/new" -type f | wc -l)" $((EMAILS - 1))
  equal "$(find "$VIEW/cur" -type f | wc -l)" 1
  send_many_from_elsewhere "$ALICE" "$BOB" late 2
  refresh
  equal "$(find "$VIEW/new" -type f | wc -l)" $((EMAILS + 1))
  rm "$VIEW/cur/${first##*/}:2,S"
  equal "$(ls "$VIEW/cur")" "${first##*/}:2,ST"
}
