#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# `inboxfs check` and `inboxfs status`: their output, their side effects and their exit statuses.

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

# Fails unless the line of this part begins with this verdict and contains these words.
says() { # VERDICT PART WORDS
  local line
  line=$(grep -E "^[^ ]+ +$2 " <<<"$output") || fail "nothing of $2 in: $output"
  [[ $line =~ ^$1\ .*$3 ]] || fail "is: $line" $'\n'"should be: $1, and say: $3"
}

# ---------------------------------------------------------------- check

@test "check of a working service prints an ok line for each part and no key, and makes no state" {
  start_service
  create_inboxes "$ALICE"
  wait_until 10 bash -c "[ \"\$(curl -sS -H 'Authorization: Bearer $(<"$KEY_FILE")' '$SERVICE_URL/api/v1/email')\" != '[]' ]"
  run -0 check "$SERVICE_URL"
  says ok key "in the file $KEY_FILE"
  says ok reach 'answers within [0-9]+ ms'
  says ok answer 'takes the key'
  says ok inboxes ' 1, listed'
  for part in content raw sent fuse; do
    says ok $part ''
  done
  says ok state "$STATE will be made"
  [[ $output != *"$(<"$KEY_FILE")"* ]]
  [ ! -e "$STATE" ]
  equal "$(grep -c . <<<"$output")" 11
}

@test "check finds that the service lists sent mail" {
  start_service
  create_inboxes "$ALICE" "$BOB"
  send_from_elsewhere "$ALICE" "$BOB" first
  run -0 check "$SERVICE_URL"
  says ok sent 'the service lists sent mail'
}

@test "check names the process whose mount uses the state" {
  start_service
  start_mount
  run -0 check "$SERVICE_URL"
  says ok state "yours, [0-9]+ MB left, the mount of process $MOUNT_PID uses it"
  stop_mount
  run -0 check "$SERVICE_URL"
  says ok state 'no mount uses it'
}

@test "check reports why a key cannot be used, and continues with the other parts" {
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

@test "check reports why a service cannot be reached, and a source that cannot be used without its password" {
  (umask 077 && echo key >"$KEY_FILE")
  run -1 check http://127.0.0.1:1
  says FAIL reach 'connect'
  run -1 check http://user:secret@127.0.0.1:1
  says FAIL source 'cannot be used'
  [[ $output != *secret* ]]
  run -1 check http://mail.example
  says FAIL source 'cannot be used'
}

@test "check reports a state directory that others can write, or that cannot be made" {
  start_service
  mkdir -m 777 "$STATE"
  run -1 check "$SERVICE_URL"
  says FAIL state 'others can write'
  run -1 check --state-dir="$KEY_FILE/state" "$SERVICE_URL"
  says FAIL state "Not a directory"
}

@test "status and check exit with 1 if their output cannot be written" {
  start_two_inboxes
  run -1 bash -c '"$1" status "$2" >/dev/full' - "$INBOXFS" "$MOUNT"
  equal "$output" "inboxfs: cannot write to standard output"
  run -1 bash -c '"$1" check --api-key-file="$2" --state-dir="$3" "$4" >/dev/full' - "$INBOXFS" "$KEY_FILE" "$DIR/other" "$SERVICE_URL"
}

@test "check reports the default state as unknown while the data directory or key that names it is missing" {
  run -0 "$INBOXFS" check "local:$DIR/fresh"
  says ok data "$DIR/fresh will be made by the first mount"
  says '\?' state 'named after the data directory, which the first mount makes'
  run -1 "$INBOXFS" check http://127.0.0.1:1
  says '\?' state 'named after the source and the key, which are needed first'
}

@test "check of an account uses the source and key of its section" {
  mkdir -p "$XDG_CONFIG_HOME/inboxfs"
  start_service
  printf '[work]\nsource = %s\napi-key-file = %s\n' "$SERVICE_URL" "$KEY_FILE" >"$XDG_CONFIG_HOME/inboxfs/config"
  run -0 "$INBOXFS" check work
  says ok source "$SERVICE_URL"
  says ok key "$KEY_FILE"
  run -2 "$INBOXFS" check play
}

@test "check of the local service needs no key, and makes no data" {
  run -0 "$INBOXFS" check "local:$DIR/box"
  says ok key 'none is needed'
  says ok data "$DIR/box will be made"
  [ ! -e "$DIR/box" ]
}

@test "check reports whether the webhook secret can be read, without the secret" {
  local options=(--webhook-listen=127.0.0.1:0 --webhook-secret-file="$DIR/secret" "local:$DIR/box")
  run -1 "$INBOXFS" check "${options[@]}"
  says FAIL webhooks "$DIR/secret: No such file"
  (umask 077 && echo whsec-1234 >"$DIR/secret")
  run -0 "$INBOXFS" check "${options[@]}"
  says ok webhooks "127\.0\.0\.1:0, signed with the secret in $DIR/secret"
  [[ $output != *whsec-1234* ]]
}

@test "check without a source fails with a message about the source alone" {
  run -2 env HOME="$DIR" XDG_CONFIG_HOME="$DIR" INBOXFS_BASE_URL= "$INBOXFS" check
  contains "$output" 'no service given'
  [[ $output != *'mount point'* ]]
}

@test "check succeeds for a server without a list of inboxes, and reports it as none" {
  start_scripted_service
  run -0 check "$SERVICE_URL"
  says ok answer 'takes the key'
  says none inboxes 'does not list'
}

@test "check reports a feature as unknown if its request failed" {
  start_scripted_service
  server_has_email '{"id":"e1","inbox_id":"in-1","message_id":"<1@x>","status":"received"}'
  control '{"email": ["ok", "ok", {"always": "503"}], "content": [{"always": "503"}]}'
  run -0 check "$SERVICE_URL"
  says ok answer 'takes the key'
  says '\?' content 'no answer'
}

@test "check prints no control characters of a service's answer" {
  start_scripted_service
  control '{"inbox": [{"always": {"status": 500, "body": {"detail": "\u001b[31m red \u009b31m \u202e"}}}], "inbox_list": 500}'
  run -1 check "$SERVICE_URL"
  says FAIL reach 'red'
  run -1 grep -P '[\x00-\x08\x1b]|\xc2\x9b|\xe2\x80\xae' <<<"$output"
}

@test "check refuses a mount point" {
  run -2 "$INBOXFS" check local "$MOUNT"
  contains "$output" 'too many arguments'
}

# ---------------------------------------------------------------- status

@test "status shows a running mount, and finds it without an argument" {
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
  # Other tests' mounts are hidden, because a look at them would keep them busy while they are unmounted.
  hide_other_mounts
  run "${AMONG_OWN_MOUNTS[@]}" "$INBOXFS" status
  [ ${#AMONG_OWN_MOUNTS[@]} -eq 0 ] || equal "$status" 0
  contains "$output" "mount     $MOUNT"
}

# The test's own folder may be in /dev/shm.
without_fuse() { # COMMAND...
  hide_other_mounts
  # shellcheck disable=SC2016 # for the inner shell
  "${AMONG_OWN_MOUNTS[@]}" bash -c 'mkdir -p "$0/shm" && cp -a /dev/{null,urandom} "$0" && mount --bind /dev/shm "$0/shm" &&
    mount --rbind "$0" /dev && exec "$@"' "$DIR/dev" "$@"
}

@test "a mount and check report a missing /dev/fuse" {
  [ "$(id -u)" = 0 ] || skip "takes root"
  run -1 without_fuse "$INBOXFS" --state-dir="$STATE" "local:$SERVICE" "$MOUNT"
  contains "$output" "cannot be mounted on: /dev/fuse: No such file or directory (modprobe fuse loads it; a container needs"
  run -1 without_fuse "$INBOXFS" check --state-dir="$STATE" "local:$SERVICE"
  says FAIL fuse '/dev/fuse: No such file or directory'
}

# Called until it succeeds, for the mount may answer before the first sync is over.
is_asked_next() { # WHEN
  "$INBOXFS" status "$MOUNT" | grep -qE "^online +asked [0-9]+ s ago, next: $1$"
}

@test "status shows the account, the last refusal and the last failure, and --json prints the same and the error" {
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

@test "status shows when the next sync is, or that it waits for a request" {
  local interval
  start_service
  for interval in '90 in [0-9]+ s' '3600 in (5|6)[0-9] min' '86400 in 2[1-6] h' '0 when told to'; do
    start_mount --poll-interval="${interval%% *}"
    wait_until 20 is_asked_next "${interval#* }"
    stop_mount
  done
}

@test "status shows the waiting messages and the reason while the service is offline" {
  start_two_inboxes
  stop_service
  message "$BOB" later >"$MOUNT/outbox/m"
  wait_waiting
  run -1 refresh
  # The exit status is that of a mount that is offline.
  run -1 "$INBOXFS" status "$MOUNT"
  contains "$output" 'outbox    1 waiting'
  [ "$(grep -c onnect <<<"$output")" -eq 1 ] # the sync and the queue have the same error, which is shown once
  grep -E '^OFFLINE +last answer: [0-9]+ s ago, next try: when told to: .*onnect' <<<"$output"
}

@test "status fails with a message for a dead mount and for a folder that is not a mount" {
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

# Returns 0 if the child process of `inboxfs status` waits for an answer of a mount.
waits_for_a_mount() # PID
{
  local child
  read -r -d ' ' child <"/proc/$1/task/$1/children" && grep -q ') [SD] ' "/proc/$child/stat"
}

@test "status of all mounts ignores a mount that ends meanwhile" {
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
  wait "$pid" || true # the exit status depends on other mounts
  MOUNT_PID=
  run ! grep -F "$MOUNT" "$DIR/said"
}

@test "status reports a mount that does not answer, and shows the others" {
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

@test "status ends silently by SIGPIPE if its reader has ended" {
  start_service
  start_mount
  run python3 -c 'import os, subprocess, sys
reader, writer = os.pipe()
os.close(reader)
ended = subprocess.run(sys.argv[1:], stdout=writer, stderr=subprocess.PIPE, text=True)
print(ended.returncode, ended.stderr)' "$INBOXFS" status "$MOUNT"
  equal "$output" "-13 "
}
