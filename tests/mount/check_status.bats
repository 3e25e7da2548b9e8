#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# `inboxfs check` and `inboxfs status`: what they say, what they leave alone, and their exit statuses.

load support
load background
load scripted

setup() {
  use_own_home
  MOUNT="$DIR/my 2nd mail" # mountinfo shows a space as \040, and a digit may follow
  mkdir -p "$MOUNT"
}

teardown() {
  stop_all
}

check() { # ARGUMENT...
  timeout 60 "$INBOXFS" check --api-key-file="$KEY_FILE" --state-dir="$STATE" "$@"
}

# The line of the matter begins with this verdict and holds these words.
says() { # VERDICT MATTER WORDS
  local line
  line=$(grep -E "^[^ ]+ +$2 " <<<"$output") || fail "nothing of $2 in: $output"
  [[ $line =~ ^$1\ .*$3 ]] || fail "is: $line" $'\n'"should be: $1, and say: $3"
}

# ---------------------------------------------------------------- check

@test "check of a service that works says so of every matter, shows no key, and changes nothing" {
  start_service
  create_inboxes "$ALICE"
  wait_until 10 bash -c "[ \"\$(curl -sS -H 'Authorization: Bearer $(<"$KEY_FILE")' '$SERVICE_URL/api/v1/email')\" != '[]' ]"
  run -0 check "$SERVICE_URL"
  says ok key "$KEY_FILE: yours, mode 0600"
  says ok reach 'answers within [0-9]+ ms'
  says ok answer 'takes the key'
  says ok inboxes ' 1, listed'
  for matter in content raw sent fuse; do
    says ok $matter ''
  done
  says ok state "$STATE will be made"
  [[ $output != *"$(<"$KEY_FILE")"* ]]
  [ ! -e "$STATE" ]
  equal "$(grep -c . <<<"$output")" 11
}

@test "check tells which mount uses the state" {
  start_service
  start_mount
  run -0 check "$SERVICE_URL"
  says ok state "yours, [0-9]+ MB left, the mount of process $MOUNT_PID uses it"
  stop_mount
  run -0 check "$SERVICE_URL"
  says ok state 'no mount uses it'
}

@test "check says what is wrong with the key, and goes on" {
  start_service
  chmod 644 "$KEY_FILE"
  run -1 check "$SERVICE_URL"
  says FAIL key "open to others: chmod 600 $KEY_FILE"
  says ok fuse ''
  (umask 077 && echo not-the-key >"$DIR/wrong")
  run -1 check --api-key-file="$DIR/wrong" "$SERVICE_URL"
  says FAIL answer 'refuses the key'
  [[ $output != *not-the-key* ]]
  INBOXFS_API_KEY=$(<"$KEY_FILE") run -0 "$INBOXFS" check "$SERVICE_URL"
  says ok key 'from INBOXFS_API_KEY'
  run -0 "$INBOXFS" check --api-key-command="cat '$KEY_FILE'" "$SERVICE_URL"
  says ok key 'printed by the command'
  run -1 "$INBOXFS" check "$SERVICE_URL"
  says FAIL key 'no API key'
}

@test "check says why a service cannot be reached, and which source cannot be used" {
  (umask 077 && echo key >"$KEY_FILE")
  run -1 check http://127.0.0.1:1
  says FAIL reach 'connect'
  run -1 check http://user:secret@127.0.0.1:1
  says FAIL source 'cannot be used'
  [[ $output != *secret* ]]
  run -1 check http://mail.example
  says FAIL source 'cannot be used'
}

@test "check says that others can write to the state, or that it cannot be made" {
  start_service
  mkdir -m 777 "$STATE"
  run -1 check "$SERVICE_URL"
  says FAIL state 'others can write'
  run -1 check --state-dir="$KEY_FILE/state" "$SERVICE_URL"
  says FAIL state "Not a directory"
}

@test "what cannot be written is no success" {
  start_two_inboxes
  run -1 bash -c '"$1" status "$2" >/dev/full' - "$INBOXFS" "$MOUNT"
  equal "$output" "inboxfs: cannot write to standard output"
  run -1 bash -c '"$1" check --api-key-file="$2" --state-dir="$3" "$4" >/dev/full' - "$INBOXFS" "$KEY_FILE" "$DIR/other" "$SERVICE_URL"
}

@test "check says what the default place of the state is named after, while it is not known" {
  run -0 "$INBOXFS" check "local:$DIR/fresh"
  says ok data "$DIR/fresh will be made by the first mount"
  says '\?' state 'named after the data directory, which the first mount makes'
  run -1 "$INBOXFS" check http://127.0.0.1:1
  says '\?' state 'named after the source and the key, which are needed first'
}

@test "check of an account of the configuration" {
  mkdir -p "$XDG_CONFIG_HOME/inboxfs"
  start_service
  printf '[work]\nsource = %s\napi-key-file = %s\n' "$SERVICE_URL" "$KEY_FILE" >"$XDG_CONFIG_HOME/inboxfs/config"
  run -0 "$INBOXFS" check work
  says ok source "$SERVICE_URL"
  says ok key "$KEY_FILE"
  run -2 "$INBOXFS" check play
}

@test "check of the local service needs no key, and does not start it" {
  run -0 "$INBOXFS" check "local:$DIR/box"
  says ok key 'none is needed'
  says ok data "$DIR/box will be made"
  [ ! -e "$DIR/box" ]
}

@test "check looks at the secret of webhooks" {
  local options=(--webhook-listen=127.0.0.1:0 --webhook-secret-file="$DIR/secret" "local:$DIR/box")
  run -1 "$INBOXFS" check "${options[@]}"
  says FAIL webhooks "$DIR/secret: No such file"
  (umask 077 && echo whsec-1234 >"$DIR/secret")
  run -0 "$INBOXFS" check "${options[@]}"
  says ok webhooks "127\.0\.0\.1:0, signed with the secret in $DIR/secret"
  [[ $output != *whsec-1234* ]]
}

@test "check without a service says what to name" {
  run -2 env HOME="$DIR" XDG_CONFIG_HOME="$DIR" INBOXFS_BASE_URL= "$INBOXFS" check
  contains "$output" 'no service given'
  [[ $output != *'mount point'* ]]
}

@test "status --help says how it is called" {
  run -0 "$INBOXFS" status --help
  contains "$output" 'usage: inboxfs status [--json] [MOUNTPOINT]'
}

@test "check of a Core server says what it lacks, and is content" {
  start_scripted_service
  run -0 check "$SERVICE_URL"
  says ok answer 'takes the key'
  says none inboxes 'does not list'
}

@test "check does not say that a service lacks what it failed to answer" {
  start_scripted_service
  server_has_email '{"id":"e1","inbox_id":"in-1","message_id":"<1@x>","status":"received"}'
  control '{"email": ["ok", "ok", {"always": "503"}], "content": [{"always": "503"}]}'
  run -0 check "$SERVICE_URL"
  says ok answer 'takes the key'
  says '\?' content 'no answer'
}

@test "what a service says cannot reach the terminal" {
  start_scripted_service
  control '{"inbox": [{"always": {"status": 500, "body": {"detail": "\u001b[31m red \u009b31m \u202e"}}}], "inbox_list": 500}'
  run -1 check "$SERVICE_URL"
  says FAIL reach 'red'
  run -1 grep -P '[\x00-\x08\x1b]|\xc2\x9b|\xe2\x80\xae' <<<"$output"
}

@test "check takes no mount point" {
  run -2 "$INBOXFS" check local "$MOUNT"
  contains "$output" 'too many arguments'
}

# ---------------------------------------------------------------- status

@test "status shows a running mount, and finds it by itself" {
  start_two_inboxes --daily-limit=free
  message "$BOB" figures >"$MOUNT/drafts/m"
  mv "$MOUNT/drafts/m" "$MOUNT/outbox/"
  sync "$MOUNT/outbox"
  refresh
  run -0 "$INBOXFS" status "$MOUNT"
  equal "${output%%$'\n'*}" "mount     $MOUNT"
  for line in "mount     $MOUNT" "source    $SERVICE_URL" 'mail      2 emails in 2 inboxes' \
    'outbox    0 waiting, 0 uploading' 'sent      1, and 0 in failed/' 'today     1 sent, of 10'; do
    contains "$output" "$line"
  done
  grep -E '^online +asked [0-9]+ s ago' <<<"$output"
  # To look at a mount keeps it busy, and others may be about to be unmounted.
  hide_other_mounts
  run "${AMONG_OWN_MOUNTS[@]}" "$INBOXFS" status
  [ ${#AMONG_OWN_MOUNTS[@]} -eq 0 ] || equal "$status" 0
  contains "$output" "mount     $MOUNT"
}

without_fuse() { # COMMAND...
  hide_other_mounts
  # shellcheck disable=SC2016 # for the inner shell
  "${AMONG_OWN_MOUNTS[@]}" bash -c 'mkdir -p "$0" && cp -a /dev/{null,urandom} "$0" && mount --bind "$0" /dev && exec "$@"' "$DIR/dev" "$@"
}

@test "where there is no /dev/fuse, the mount and check say so, and how there is one" {
  [ "$(id -u)" = 0 ] || skip "takes root"
  run -1 without_fuse "$INBOXFS" --state-dir="$STATE" "local:$SERVICE" "$MOUNT"
  contains "$output" "cannot be mounted on: /dev/fuse: No such file or directory (modprobe fuse loads it; a container needs"
  run -1 without_fuse "$INBOXFS" check --state-dir="$STATE" "local:$SERVICE"
  says FAIL fuse '/dev/fuse: No such file or directory'
}

# The mount may answer before the service has.
is_asked_next() { # WHEN
  "$INBOXFS" status "$MOUNT" | grep -qE "^online +asked [0-9]+ s ago, next: $1$"
}

@test "status names the last refusal, what failed, and the account; --json has it in a line, and says if it is offline" {
  mkdir -p "$XDG_CONFIG_HOME/inboxfs" "$MOUNT"
  start_service
  create_inboxes "$ALICE"
  printf '[work]\nsource = %s\n' "$SERVICE_URL" >"$XDG_CONFIG_HOME/inboxfs/config"
  SERVICE_URL=work start_mount
  echo nonsense >"$MOUNT/drafts/oops"
  expect EBADMSG rename "$MOUNT/drafts/oops" "$MOUNT/outbox/oops"
  echo nonsense >"$MOUNT/outbox/direct" || true
  wait_failed direct
  run -0 "$INBOXFS" status "$MOUNT"
  contains "$output" 'account   work'
  grep -E '^refused +1 since the mount began; the last [0-9]+ s ago, drafts/oops: not a message: line 1 ' <<<"$output"
  grep -E '^failed +1 since the mount began; the last [0-9]+ s ago, failed/direct: not a message: line 1 ' <<<"$output"
  run -0 "$INBOXFS" status --json "$MOUNT"
  equal "${#lines[@]}" 1
  echo "$output" >"$DIR/json"
  holds "$DIR/json" '.mountpoint == $path and .account == "work" and .online and .refused.path == "drafts/oops"' --arg path "$MOUNT"
  stop_service
  run ! refresh
  run -1 "$INBOXFS" status --json "$MOUNT"
  echo "$output" >"$DIR/json"
  holds "$DIR/json" '.online == false and (.error | contains("onnect"))'
  hide_other_mounts
  run -1 "${AMONG_OWN_MOUNTS[@]}" "$INBOXFS" status --json
  contains "$output" "$MOUNT"
  run -2 "$INBOXFS" status --jsno
}

@test "status says when the service is asked next, and that it is not before it is told to" {
  local interval
  start_service
  for interval in '90 in [0-9]+ s' '3600 in (5|6)[0-9] min' '86400 in 2[1-6] h' '0 when told to'; do
    start_mount --poll-interval="${interval%% *}"
    wait_until 20 is_asked_next "${interval#* }"
    stop_mount
  done
}

@test "status says what waits, and that the service is away" {
  start_two_inboxes
  stop_service
  message "$BOB" later >"$MOUNT/outbox/m"
  wait_waiting
  run -1 refresh
  # It is shown; the exit status is for scripts.
  run -1 "$INBOXFS" status "$MOUNT"
  contains "$output" 'outbox    1 waiting'
  [ "$(grep -c onnect <<<"$output")" -eq 1 ] # the mail and the queue have the same reason
  grep -E '^OFFLINE +last answer: [0-9]+ s ago, next try: when told to: .*onnect' <<<"$output"
}

@test "status of a dead mount, and of a folder without one" {
  start_service
  start_mount
  kill -KILL "$MOUNT_PID"
  wait_until 20 process_is_gone "$MOUNT_PID"
  run -1 "$INBOXFS" status "$MOUNT"
  contains "$output" 'is a dead mount'
  umount -l "$MOUNT" || fusermount3 -uz "$MOUNT"
  MOUNT_PID=
  run -1 "$INBOXFS" status "$MOUNT"
  contains "$output" 'no inboxfs is mounted there'
  run -2 "$INBOXFS" status "$MOUNT" "$MOUNT"
}

# The process that looks into one sleeps.
waits_for_a_mount() # PID
{
  local child
  read -r -d ' ' child <"/proc/$1/task/$1/children" && grep -q ') [SD] ' "/proc/$child/stat"
}

@test "a mount that ends while status looks at all is passed over" {
  start_service
  start_mount
  kill -STOP "$MOUNT_PID"
  hide_other_mounts
  "${AMONG_OWN_MOUNTS[@]}" "$INBOXFS" status >"$DIR/said" 2>&1 &
  local pid=$!
  wait_until 20 waits_for_a_mount "$pid"
  [ ${#AMONG_OWN_MOUNTS[@]} -eq 0 ] || nsenter --mount --target "$pid" umount -l "$MOUNT"
  umount -l "$MOUNT" || fusermount3 -uz "$MOUNT"
  kill -KILL "$MOUNT_PID"
  wait "$pid" || true # others' mounts may be there, or none
  MOUNT_PID=
  run ! grep -F "$MOUNT" "$DIR/said"
}

@test "status of a mount whose daemon is stopped ends by itself, and the others are shown" {
  start_service
  start_mount
  local stopped=$MOUNT stopped_pid=$MOUNT_PID
  MOUNT=$DIR/another STATE=$DIR/another.state
  mkdir "$MOUNT"
  start_mount
  kill -STOP "$stopped_pid"
  run timeout -k 1 30 "$INBOXFS" status "$stopped"
  equal "$status" 1
  contains "$output" "$stopped does not answer"
  hide_other_mounts
  run timeout -k 1 60 "${AMONG_OWN_MOUNTS[@]}" "$INBOXFS" status
  kill -CONT "$stopped_pid"
  stop_mount
  MOUNT=$stopped MOUNT_PID=$stopped_pid
  equal "$status" 1
  contains "$output" "$stopped does not answer"
  contains "$output" "mount     $DIR/another"
}

@test "status whose reader has seen enough, as head, ends without a word" {
  start_service
  start_mount
  run python3 -c 'import os, subprocess, sys
reader, writer = os.pipe()
os.close(reader)
ended = subprocess.run(sys.argv[1:], stdout=writer, stderr=subprocess.PIPE, text=True)
print(ended.returncode, ended.stderr)' "$INBOXFS" status "$MOUNT"
  equal "$output" "-13 "
}
