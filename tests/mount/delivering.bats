#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# A mail server calls `inboxd deliver`, and the mail appears in the mount.

load support

teardown() {
  stop_all
}

deliver() { # RECIPIENT...
  "$INBOXD" deliver --data="$SERVICE" -f sender@x.example -- "$@"
}

# A message as it comes over the network.
letter() { # SUBJECT [BODY]
  printf 'From: Carol <carol@x.example>\r\nTo: %s\r\nSubject: %s\r\nMessage-ID: <%s@x.example>\r\n\r\n%s\r\n' \
    "$ALICE" "$1" "${1// /-}" "${2:-Hello.}"
}

is_mounted() { # ADDRESS SUBJECT
  echo sync >"$MOUNT/ctl" && mounted "$1" "$2" >/dev/null && [ -d "$(folder "$1" "$2")" ]
}

# The message of this subject that the inbox holds, whole.
raw() { # ADDRESS SUBJECT
  api GET "/email/$(received "$1" "$2" | jq -er '.[0].id')/raw"
}

@test "a delivered message appears in the mount" {
  start_two_inboxes
  letter "first letter" | deliver "$ALICE"
  wait_until 60 is_mounted "$ALICE" "first letter"
  local folder
  folder=$(folder "$ALICE" "first letter")
  cmp "$folder/message.eml" <(letter "first letter")
  holds "$folder.json" '.from_address == {"address": "carol@x.example", "name": "Carol"}'
  equal "$(cat "$folder/body.txt")" "Hello."
  equal "$(received_count "$BOB" "first letter")" 0
}

@test "bytes of all kinds arrive unchanged, whatever the line ends" {
  start_service
  create_inbox "$ALICE" >/dev/null
  local name
  printf 'Subject: lf\nX: \303\n\n\377\000\r\nlast line without end' >"$DIR/lf"
  printf 'Subject: crlf\r\n\r\n.\r\n..\r\nFrom me\r\n\r\n' >"$DIR/crlf"
  { printf 'Subject: binary\nContent-Type: application/octet-stream\n\n' && head -c 100000 /dev/urandom; } >"$DIR/binary"
  for name in lf crlf binary; do
    deliver "$ALICE" <"$DIR/$name"
    raw "$ALICE" "$name" | cmp - "$DIR/$name"
  done
  deliver "$ALICE" </dev/null
  printf 'nothing but text\n' | deliver "$ALICE"
  equal "$(received_count "$ALICE" "")" 2
}

@test "data can be mounted while deliver waits for its message" {
  local deliver_pid
  start_service
  create_inboxes "$ALICE"
  stop_service
  mkfifo "$DIR/letter"
  deliver "$ALICE" <"$DIR/letter" 3>&- &
  deliver_pid=$!
  exec 7>"$DIR/letter"
  letter late "$(printf '%0100000d' 0)" >&7 # more than a pipe holds: deliver has begun to read
  mkdir "$MOUNT"
  "$INBOXFS" -f "local:$SERVICE" "$MOUNT" >>"$MOUNT_LOG" 2>&1 3>&- 7>&- {PAUSE}>&- &
  # shellcheck disable=SC2034 # support.bash uses it
  MOUNT_PID=$!
  wait_until 30 mount_answers
  stop_mount
  exec 7>&-
  wait "$deliver_pid"
  start_service
  equal "$(received_count "$ALICE" late)" 1
}

@test "a reply sends nothing if a delivered email has an unusable address to reply to" {
  start_two_inboxes
  letter "to all" | sed 's/^Subject/Cc: Smith John, dan@x.example\r\n&/' | deliver "$ALICE"
  letter "to another" | sed 's/^Subject/Reply-To: nobody here\r\n&/' | deliver "$ALICE"
  wait_until 60 is_mounted "$ALICE" "to all"
  wait_until 60 is_mounted "$ALICE" "to another"
  run bash -c 'echo "Yes." >"$1"' - "$(folder "$ALICE" "to all")/reply-all"
  contains "$output" "Destination address required"
  has_event '.event == "refused" and (.error | test("Smith John"))'
  run bash -c 'echo "Yes." >"$1"' - "$(folder "$ALICE" "to another")/reply"
  contains "$output" "Destination address required"
  has_event '.event == "refused" and (.error | test("nobody here"))'
  # Who alone is asked for is there.
  echo "Yes." >"$(folder "$ALICE" "to all")/reply"
  wait_sent re-to-all.eml
}

@test "a message of 30 MB arrives" {
  start_service
  create_inbox "$ALICE" >/dev/null
  {
    printf 'Subject: large\nMIME-Version: 1.0\nContent-Type: application/zip; name=large.zip\n'
    printf 'Content-Disposition: attachment\nContent-Transfer-Encoding: base64\n\n'
    head -c 22000000 /dev/urandom | tee "$DIR/large.zip" | base64
  } >"$DIR/large"
  deliver "$ALICE" <"$DIR/large"
  raw "$ALICE" large | cmp - "$DIR/large"
  local ids
  ids=$(content "$ALICE" large | jq -r '"\(.id)/attachment/\(.attachments[0].id)"')
  api GET "/email/$ids" | cmp - "$DIR/large.zip"
}

@test "the From line of an mbox before the message is dropped" {
  start_service
  create_inbox "$ALICE" >/dev/null
  { echo "From carol@x.example Fri Nov 20 10:14:36 2026" && letter piped; } | deliver "$ALICE"
  raw "$ALICE" piped | cmp - <(letter piped)
}

@test "a message that was delivered while no service ran is there when one starts" {
  start_service
  create_inbox "$ALICE" >/dev/null
  stop_service
  letter "while away" | deliver "$ALICE"
  start_service
  equal "$(received_count "$ALICE" "while away")" 1
}

@test "an unknown recipient is refused with 67, and no other recipient gets the message" {
  start_service
  create_inbox "$ALICE" >/dev/null
  run -67 deliver "$ALICE" "nobody@$DOMAIN" < <(letter lost)
  contains "$output" "no inbox has the address nobody@$DOMAIN"
  equal "$(received_count "$ALICE" lost)" 0
  run -67 deliver --data < <(letter lost)
}

@test "a recipient that begins with - is not an option" {
  start_service
  create_inboxes "$ALICE"
  run -67 "$INBOXD" deliver --data="$SERVICE" -f sender@x.example "$ALICE" -h < <(letter help)
  contains "$output" 'no inbox has the address -h;'
  run -67 "$INBOXD" deliver --data="$SERVICE" -- "-f$ALICE" < <(letter sender)
  contains "$output" "no inbox has the address -f$ALICE;"
  run -67 "$INBOXD" deliver --data="$SERVICE" -- $'\e]0;x\a@x' < <(letter title)
  contains "$output" 'no inbox has the address'
  [[ $output != *$'\e'* ]]
}

@test "a message that is too large is refused with 65" {
  start_service
  create_inbox "$ALICE" >/dev/null
  run -65 deliver "$ALICE" < <(printf 'Subject: too large\n\n' && head -c 50000000 /dev/zero)
  contains "$output" "50,000,000"
  equal "$(received_count "$ALICE" "too large")" 0
}

@test "an unknown outcome is refused with 75, so that the caller tries again" {
  run -75 deliver "$ALICE" < <(letter early)
  contains "$output" "there are no data of a service in $SERVICE"
  missing "$SERVICE"
  start_service
  create_inbox "$ALICE" >/dev/null
  stop_service
  # What it cannot read, nobody can judge.
  run -75 deliver "$ALICE" <"$DIR"
  printf 'not a database, but as long as the header of one would be: %0100d' 0 >"$SERVICE/inbox.sqlite3"
  run -75 deliver "$ALICE" < <(letter early)
}

@test "a wrong command line is refused with 2" {
  run -2 "$INBOXD" deliver "$ALICE" </dev/null
  run -2 "$INBOXD" deliver --data="$SERVICE" </dev/null
  run -2 "$INBOXD" deliver --nonsense --data="$SERVICE" "$ALICE" </dev/null
  run -2 "$INBOXD" key list --data="$SERVICE" -f "$ALICE"
}

@test "more than 1000 recipients are refused with 2, because their transaction would keep others from writing" {
  local recipients
  start_service
  create_inbox "$ALICE" >/dev/null
  mapfile -t recipients < <(yes "$ALICE" | head -n 1001)
  run -2 deliver "${recipients[@]}" < <(letter many)
  contains "$output" '1000 recipients'
  equal "$(received_count "$ALICE" many)" 0
  deliver "${recipients[@]:1}" < <(letter many)
  equal "$(received_count "$ALICE" many)" 1
}

@test "concurrent deliveries and sends do not disturb each other" {
  start_service
  create_inbox "$ALICE" >/dev/null
  local i pids=()
  for i in {1..10}; do
    letter "letter $i" | deliver "$ALICE" 3>&- &
    pids+=($!)
  done
  send_many_from_elsewhere "$ALICE" "$ALICE" sent 10
  for i in "${pids[@]}"; do
    wait "$i"
  done
  for i in {1..10}; do
    equal "$(received_count "$ALICE" "letter $i")" 1
    equal "$(received_count "$ALICE" "sent $i")" 1
  done
}

@test "a kill at any moment leaves a whole message or none" {
  start_service
  create_inbox "$ALICE" >/dev/null
  local i status arrived=0
  { letter killed && head -c 800000 /dev/urandom | base64; } >"$DIR/letter"
  for i in {1..20}; do
    sed "1,4s/killed/killed $i/" "$DIR/letter" >"$DIR/letter.$i"
    status=0
    # The later it is killed, the further it got.
    timeout -s KILL "0.0$((i * 4 + 10))" "$INBOXD" deliver --data="$SERVICE" "$ALICE" <"$DIR/letter.$i" || status=$?
    case $(received_count "$ALICE" "killed $i") in
      1) raw "$ALICE" "killed $i" | cmp - "$DIR/letter.$i" ;;
      0) [ "$status" != 0 ] ;;
      *) fail "killed $i is there more than once" ;;
    esac
    # Who does not know tries again.
    deliver "$ALICE" <"$DIR/letter.$i"
    arrived=$((arrived + $(received_count "$ALICE" "killed $i")))
  done
  equal "$arrived" 20
}
