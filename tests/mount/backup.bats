#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# `inboxd backup` copies the data of a running service, and a service can start with the copy.

load support

COPY=$DIR/copy

teardown() {
  stop_all
}

backup() {
  "$INBOXD" backup --data="$SERVICE" "$@"
}

# From now on the service is one on the copy.
go_on_with_the_copy() {
  stop_service
  SERVICE=$COPY
  start_service
}

attach_to() { # ADDRESS SUBJECT POOL-ID
  jq -n --arg from "$ALICE" --arg to "$1" --arg subject "$2" --arg id "$3" '{from_address: $from, subject: $subject,
    plain_text: "x", to_addresses: [{address: $to, name: null}], attachment_ids: [$id]}' |
    api POST /email/send -H 'Content-Type: application/json' -d @- >/dev/null
}

@test "a service continues from a copy of a running one, with its mail, uploads and key" {
  local id
  start_service
  create_inboxes "$ALICE" "$BOB"
  send_from_elsewhere "$ALICE" "$BOB" before
  echo uploaded >"$DIR/file.txt"
  id=$(api POST /email/add-attachment-to-pool -F "file=@$DIR/file.txt" | jq -r .id)
  (umask 022 && backup "$COPY")
  send_from_elsewhere "$ALICE" "$BOB" after
  equal "$(find "$COPY" -type d -printf '%m %P\n' | sort)" $'700 \n700 pool'
  equal "$(find "$COPY" -type f -printf '%m %P\n' | sort)" $'600 api-key\n600 inbox.sqlite3\n'"600 pool/$id"
  go_on_with_the_copy
  has_received "$BOB" before 1
  has_received "$BOB" after 0
  attach_to "$BOB" attached "$id"
  holds <(content "$BOB" attached) '.attachments[0].filename == "file.txt"'
}

@test "a copy answers an ETag of the service with a new one, not with 304" {
  local before
  start_service
  create_inboxes "$ALICE"
  before=$(api GET /inbox -D - -o /dev/null | grep -i '^etag')
  backup "$COPY"
  go_on_with_the_copy
  [ "$(api GET /inbox -D - -o /dev/null | grep -i '^etag')" != "$before" ]
}

@test "each copy holds a concurrent send or upload whole or not at all" {
  start_service
  create_inboxes "$ALICE" "$BOB"
  send_many_from_elsewhere "$ALICE" "$BOB" letter 300 3>&- &
  local sending=$! copy
  for copy in 1 2 3 4 5; do
    backup "$COPY.$copy"
    python3 - "$COPY.$copy/inbox.sqlite3" <<'END'
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
def one(sql):
    return db.execute(sql).fetchone()[0]
assert one("PRAGMA integrity_check") == "ok"
assert one("SELECT count(*) FROM outbound") == one("SELECT count(*) FROM emails") - 1, "besides the welcome"
assert one("SELECT count(*) FROM contents") == one("SELECT count(*) FROM messages")
END
  done
  wait "$sending"
}

@test "an existing target, a directory without data and a wrong call are refused, and nothing is created" {
  start_service
  mkdir "$COPY"
  run -1 backup "$COPY"
  contains "$output" "$COPY is there already"
  equal "$(ls -A "$COPY")" ""
  touch "$DIR/file"
  run -1 backup "$DIR/file"
  run -1 backup "$DIR/none/copy"
  contains "$output" "cannot make $DIR/none/copy.part: No such file or directory"
  run -1 "$INBOXD" backup --data="$DIR/none" "$DIR/new"
  contains "$output" "there are no data of a service in $DIR/none"
  run -2 backup
  run -2 backup "$DIR/new" "$DIR/another"
  run -2 "$INBOXD" backup "$DIR/new"
  missing "$DIR/new" "$DIR/new.part" "$DIR/none"
}

@test "a failed backup leaves nothing; a killed one leaves only COPY.part, which the next one reports" {
  start_service
  head -c 3000000 /dev/urandom >"$DIR/file"
  api POST /email/add-attachment-to-pool -F "file=@$DIR/file" >/dev/null
  # No file may be larger than 1 MB; the signal that says so is ignored, or kills.
  run -1 bash -c 'trap "" XFSZ; ulimit -f 1000; exec "$@"' - "$INBOXD" backup --data="$SERVICE" "$COPY/"
  contains "$output" "cannot copy $SERVICE to $COPY: File too large"
  missing "$COPY" "$COPY.part"
  run bash -c 'ulimit -f 1000; exec "$@"' - env --default-signal=XFSZ "$INBOXD" backup --data="$SERVICE" "$COPY"
  equal "$status" $((128 + $(kill -l XFSZ)))
  missing "$COPY"
  present "$COPY.part"
  run -1 backup "$COPY"
  contains "$output" "$COPY.part is there: another backup is being made, or was broken off; then remove it"
  rm -r "$COPY.part"
  backup "$COPY"
  present "$COPY/api-key"
}

@test "data that inboxfs has mounted are not copied, and the reason says to unmount them" {
  mkdir "$MOUNT"
  "$INBOXFS" -f "local:$SERVICE" "$MOUNT" >>"$MOUNT_LOG" 2>&1 3>&- {PAUSE}>&- &
  # shellcheck disable=SC2034 # support.bash uses it
  MOUNT_PID=$!
  wait_until 30 mount_answers
  run -1 backup "$COPY"
  contains "$output" "$SERVICE is in use: inboxfs has it mounted (unmount it first)"
  missing "$COPY" "$COPY.part"
  stop_mount
  backup "$COPY"
  present "$COPY/inbox.sqlite3"
}
