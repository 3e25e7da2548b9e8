#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# The daemon dies at each crash point that docs/OUTBOX.md names, and the messages that the service got are counted. The unit
# tests test_crash.c and test_crash_attachments.c do so without a mount, and check more.

load support

setup() {
  start_service
  create_inboxes "$ALICE" "$BOB"
}

teardown() {
  stop_all
}

# Options of a mount that is to die, where messages have to wait in it.
HELD_BACK=()

start_mount_to_die_at() { # POINT [OPTION...]
  export INBOXFS_CRASH_AT=$1
  start_mount "${HELD_BACK[@]}" "${@:2}"
  unset INBOXFS_CRASH_AT
}

start_mount_after_its_death() { # [OPTION...]
  local pid=$MOUNT_PID
  wait_until 20 process_is_gone "$pid"
  MOUNT_PID=
  wait "$pid" || true
  umount -l "$MOUNT" || fusermount3 -uz "$MOUNT"
  start_mount "$@"
}

# ---------------------------------------------------------------- what the user does meanwhile

with_part() { # SUBJECT
  printf 'From: %s\nTo: %s\nSubject: %s\nMIME-Version: 1.0\n' "$ALICE" "$BOB" "$1"
  printf 'Content-Type: multipart/mixed; boundary=b\n\n--b\n\nhello\n'
  printf -- '--b\nContent-Disposition: attachment; filename=a.csv\n\n1,2\n--b--\n'
}

write() { # NAME
  message "$BOB" "$1" >"$MOUNT/outbox/$1"
}

move() { # NAME
  message "$BOB" "$1" >"$MOUNT/drafts/$1" && mv "$MOUNT/drafts/$1" "$MOUNT/outbox/"
}

parts() { # NAME
  with_part "$1" >"$MOUNT/drafts/$1" && mv "$MOUNT/drafts/$1" "$MOUNT/outbox/"
}

cancel() { # NAME
  move "$1" && wait_waiting && mv "$MOUNT/outbox/$1" "$MOUNT/drafts/"
}

remove() { # NAME
  move "$1" && wait_waiting && rm "$MOUNT/outbox/$1"
}

edit_waiting() { # NAME
  write "$1" && wait_waiting && sed -i s/Hello/Goodbye/ "$MOUNT/outbox/$1"
}

# ---------------------------------------------------------------- messages

# Where it is to be seen: "sent", "failed: interrupted", "drafts", "nowhere".
place() { # NAME
  local folder
  for folder in outbox sent failed drafts; do
    if [ -n "$(find "$MOUNT/$folder" -mindepth 1 -name "$1")" ]; then
      if [ "$folder" = failed ]; then
        echo "failed: $(jq -r .state "$MOUNT/failed/$1.receipt.json")"
      else
        echo "$folder"
      fi
      return
    fi
  done
  echo nowhere
}

# Each line: the point, what the user does, where the message is afterwards, how often it was received.
all_end_as() { # [OPTION...], reads TABLE
  local point act expected count
  while IFS='|' read -r point act expected count; do
    start_mount_to_die_at "$point" "$@"
    "$act" "$point" 2>/dev/null || true
    [ "$act" != write ] || sync "$MOUNT/outbox" 2>/dev/null || true # what dies at its hand-in need not wait
    start_mount_after_its_death "$@"
    sync "$MOUNT/outbox" || true
    equal "$point: $(place "$point")" "$point: $expected"
    equal "$point: $(received_count "$BOB" "$point")" "$point: $count"
    stop_mount
  done
}

@test "a crash at any point before the request or after it loses, halves or doubles no message" {
  all_end_as <<'END'
created|write|nowhere|0
flushing|write|failed: interrupted|0
flushed|write|failed: interrupted|0
closing|write|failed: interrupted|0
closed|write|sent|1
checked|write|sent|1
accepted|write|sent|1
synced_draft|move|drafts|0
saved_row|move|drafts|0
moved_in|move|sent|1
handed_in|move|sent|1
piece_recorded|parts|sent|1
settled|move|sent|1
END
}

@test "a crash at any point of changing a waiting message loses or doubles none" {
  HELD_BACK=(--daily-limit=0)
  all_end_as <<'END'
moved_out|cancel|drafts|0
removed|remove|nowhere|0
renamed|edit_waiting|sent|1
END
}

@test "a crash around the request, keys not trusted, sends at most once and says so" {
  all_end_as <<'END'
recorded_sending|move|failed: unknown outcome|0
answered|move|failed: unknown outcome|1
END
}

@test "a crash around the request, keys trusted, sends exactly once" {
  all_end_as --trust-idempotency <<'END'
recorded_sending|move|sent|1
answered|move|sent|1
END
}

# ---------------------------------------------------------------- attachments

write_anew() { # NAME
  echo new >"$MOUNT/attachments/$1"
}

move_a_draft_onto_it() { # NAME
  echo new >"$MOUNT/drafts/$1" && mv "$MOUNT/drafts/$1" "$MOUNT/attachments/"
}

# The bytes of the attachment of the email of this subject that bob got.
arrived() { # SUBJECT
  content "$BOB" "$1" >"$DIR/arrived"
  api GET "/email/$(jq -er .id "$DIR/arrived")/attachment/$(jq -er '.attachments[0].id' "$DIR/arrived")"
}

@test "a crash while a bound attachment is changed sends what the message bound" {
  local point act name
  HELD_BACK=(--daily-limit=0)
  while IFS='|' read -r point act; do
    name=$point.$act
    start_mount_to_die_at "$point"
    echo old >"$MOUNT/attachments/$name"
    sync "$MOUNT/attachments"
    printf 'From: %s\nTo: %s\nSubject: %s\nAttach: %s\n\nb\n' "$ALICE" "$BOB" "$name" "$name" >"$MOUNT/drafts/m"
    mv "$MOUNT/drafts/m" "$MOUNT/outbox/$name"
    wait_waiting
    "$act" "$name" 2>/dev/null || true
    start_mount_after_its_death
    sync "$MOUNT/outbox" || true
    equal "$name: $(place "$name")" "$name: sent"
    equal "$name: $(arrived "$name")" "$name: old"
    stop_mount
  done <<'END'
renewed|write_anew
begun_again|write_anew
removed|move_a_draft_onto_it
END
}

@test "a crash while an attachment is linked leaves the message a draft" {
  start_mount_to_die_at linked
  echo old >"$MOUNT/attachments/a.txt"
  sync "$MOUNT/attachments"
  printf 'From: %s\nTo: %s\nSubject: linked\nAttach: a.txt\n\nb\n' "$ALICE" "$BOB" >"$MOUNT/drafts/m"
  run ! mv "$MOUNT/drafts/m" "$MOUNT/outbox/m"
  start_mount_after_its_death
  mv "$MOUNT/drafts/m" "$MOUNT/outbox/m"
  wait_sent m
  equal "$(arrived linked)" old
}

@test "an upload that was answered and not recorded is repeated" {
  start_mount_to_die_at upload_answered
  echo old >"$MOUNT/attachments/a.txt"
  start_mount_after_its_death
  sync "$MOUNT/attachments"
  holds "$MOUNT/attachments/a.txt.receipt.json" '.state == "uploaded" and (.id | length > 0)'
}

# ---------------------------------------------------------------- all of them

# Those of the store are in its own unit tests.
@test "docs/OUTBOX.md, this file and the unit tests name every crash point of the outbox" {
  local point
  grep -rhoP 'crash_point\("\K[a-z_]+' "$REPOSITORY/src/outbox" | sort -u >"$DIR/points"
  [ "$(wc -l <"$DIR/points")" -ge 20 ]
  while read -r point; do
    grep -q "\`$point\`" "$REPOSITORY/docs/OUTBOX.md" || fail "not in docs/OUTBOX.md: $point"
    case $point in migrat*) continue ;; esac # those are in tests/unit/outbox/test_migration.c
    grep -q "$point" "$BATS_TEST_FILENAME" || fail "not in crash_points.bats: $point"
    grep -q "\"$point\"" "$REPOSITORY"/tests/unit/outbox/test_crash*.c || fail "not in a unit test: $point"
  done <"$DIR/points"
}
