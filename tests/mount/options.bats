#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# Where options come from: keys, the service's URL, the configuration, -o and fstab.

load support
load background

setup() {
  use_own_home
}

teardown() {
  stop_background
  stop_all
}

# ---------------------------------------------------------------- keys

@test "INBOXFS_API_KEY, a key command and the configuration can each provide the key" {
  start_service
  local key
  key=$(cat "$KEY_FILE")
  INBOXFS_API_KEY=$key start_background "$SERVICE_URL" "$MOUNT"
  stop_background
  start_background --api-key-command="cat '$KEY_FILE'" "$SERVICE_URL" "$MOUNT"
  stop_background
  mkdir -p "$XDG_CONFIG_HOME/inboxfs"
  (umask 077 && printf 'api-key = %s\n' "$key" >"$XDG_CONFIG_HOME/inboxfs/config")
  start_background "$SERVICE_URL" "$MOUNT"
}

@test "SIGTERM ends a mount that waits for its key command" {
  local pid
  start_service
  mkfifo "$DIR/asks"
  "$INBOXFS" -f --api-key-command=": >'$DIR/began'; cat '$DIR/asks'" "$SERVICE_URL" "$MOUNT" 3>&- &
  pid=$!
  exec 7<>"$DIR/asks" # so that the pipe never ends
  wait_until 10 test -e "$DIR/began"
  kill -TERM "$pid"
  wait_until 10 process_is_gone "$pid"
  run -143 wait "$pid"
}

@test "a key command starts with no signal blocked or ignored" {
  start_service
  start_background --api-key-command="grep -q '^SigBlk:[[:space:]]*0*\$' /proc/self/status && cat '$KEY_FILE'" "$SERVICE_URL" "$MOUNT"
  stop_background
  # SIGPIPE is 13.
  start_background --api-key-command="grep '^SigIgn' /proc/self/status | grep -qv '[13579bdf]...\$' && cat '$KEY_FILE'" "$SERVICE_URL" "$MOUNT"
}

@test "a key file overrides INBOXFS_API_KEY, which overrides a key command, which overrides the configuration" {
  start_service
  local key
  key=$(cat "$KEY_FILE")
  (umask 077 && printf 'api-key = wrong\n' >"$DIR/with-key")
  INBOXFS_API_KEY=wrong start_background --api-key-file="$KEY_FILE" --api-key-command='echo wrong' --config="$DIR/with-key" \
    "$SERVICE_URL" "$MOUNT"
  stop_background
  INBOXFS_API_KEY=$key start_background --api-key-command='echo wrong' --config="$DIR/with-key" "$SERVICE_URL" "$MOUNT"
  stop_background
  start_background --api-key-command="cat '$KEY_FILE'" --config="$DIR/with-key" "$SERVICE_URL" "$MOUNT"
}

@test "a mount without any key is refused with a message about the key" {
  start_service
  refuses 1 "key" "$SERVICE_URL" "$MOUNT"
}

@test "a key that the service refuses prevents the mount, and is not printed" {
  start_service
  (umask 077 && echo wrong-key >"$DIR/wrong")
  refuses 1 "key|401" --api-key-file="$DIR/wrong" "$SERVICE_URL" "$MOUNT"
  run ! grep -q wrong-key <<<"$output"
}

@test "a key file that is missing, empty or a directory is refused" {
  start_service
  refuses 1 "nokey" --api-key-file="$DIR/nokey" "$SERVICE_URL" "$MOUNT"
  (umask 077 && : >"$DIR/empty" && mkdir "$DIR/folder")
  refuses 1 "empty" --api-key-file="$DIR/empty" "$SERVICE_URL" "$MOUNT"
  refuses 1 "folder" --api-key-file="$DIR/folder" "$SERVICE_URL" "$MOUNT"
}

@test "key and configuration are read from pipes up to their end" {
  start_service
  start_background --api-key-file=<(sleep 0.3; cat "$KEY_FILE") --config=<(sleep 0.3; echo 'poll-interval = 77') "$SERVICE_URL" "$MOUNT"
  stop_background
  refuses 1 "too large" --api-key-file=<(head -c 10000 /dev/zero | tr '\0' k) "$SERVICE_URL" "$MOUNT"
  refuses 1 "one line" --api-key-file=<(:) "$SERVICE_URL" "$MOUNT"
  refuses 2 "unknown" --api-key-file="$KEY_FILE" --config=<(sleep 0.3; echo 'no-such-option = 1') "$SERVICE_URL" "$MOUNT"
}

@test "a key command that fails, or does not print exactly one key, is refused" {
  start_service
  local key
  key=$(cat "$KEY_FILE")
  refuses 1 "exit status 3" --api-key-command="echo $key; exit 3" "$SERVICE_URL" "$MOUNT"
  refuses 1 "signal 9" --api-key-command="echo $key; kill -9 \$\$" "$SERVICE_URL" "$MOUNT"
  refuses 1 "one key" --api-key-command="echo $key and more" "$SERVICE_URL" "$MOUNT"
  refuses 1 "one key" --api-key-command=true "$SERVICE_URL" "$MOUNT"
  [[ $output != *"$key"* ]]
}

@test "a key file that other users can read is refused" {
  start_service
  local mode
  for mode in 640 604 644 660; do
    chmod "$mode" "$KEY_FILE"
    refuses 1 "chmod|others" --api-key-file="$KEY_FILE" "$SERVICE_URL" "$MOUNT"
  done
  chmod 400 "$KEY_FILE"
  start_background --api-key-file="$KEY_FILE" "$SERVICE_URL" "$MOUNT"
}

@test "a path that begins with ~ is refused, and no folder named ~ is made" {
  cd "$DIR"
  local option
  for option in '--api-key-file=~/key' '--state-dir=~/state' '--webhook-listen=unix:~/hook' 'local:~/box'; do
    run -2 env INBOXFS_BASE_URL=http://127.0.0.1:1 "$INBOXFS" check "$option"
    contains "$output" "only shells know '~'"
  done
  printf 'state-dir = ~/state\n' >"$DIR/tilde.conf"
  run -2 "$INBOXFS" --config="$DIR/tilde.conf" "local:$DIR/box" "$MOUNT"
  contains "$output" "tilde.conf:1: only shells know '~'"
  missing "$DIR/~"
}

@test "a key on the command line is refused, and not printed" {
  local argument
  for argument in {--,-o,-oro\,}api{-,_}key=secret-key; do
    refuses 2 "command line" "$argument" http://127.0.0.1:1 "$MOUNT"
    [[ $output != *secret-key* ]] || fail "$output"
  done
}

@test "a key with a control character or a line break is refused" {
  start_service
  (umask 077 && printf 'key\x01with control\n' >"$DIR/control" && printf 'two\nlines\n' >"$DIR/lines")
  refuses 1 "key" --api-key-file="$DIR/control" "$SERVICE_URL" "$MOUNT"
  refuses 1 "key" --api-key-file="$DIR/lines" "$SERVICE_URL" "$MOUNT"
}

@test "a configuration that has a key and that other users can read is refused" {
  start_service
  printf 'api-key = %s\n' "$(cat "$KEY_FILE")" >"$DIR/open.conf"
  chmod 644 "$DIR/open.conf"
  refuses 2 "others|chmod" --config="$DIR/open.conf" "$SERVICE_URL" "$MOUNT"
}

@test "a key file or configuration that another user owns or can write is refused" {
  [ "$(id -u)" -eq 0 ] || skip "needs root"
  start_service
  printf 'poll-interval = 5\n' >"$DIR/plain.conf"
  chmod 644 "$DIR/plain.conf"
  local mode
  for mode in 664 646 666; do
    chmod $mode "$DIR/plain.conf"
    refuses 2 "plain.conf .*written by others.*chmod" --api-key-file="$KEY_FILE" --config="$DIR/plain.conf" "$SERVICE_URL" "$MOUNT"
  done
  chmod 644 "$DIR/plain.conf"
  chown 12345 "$DIR/plain.conf"
  refuses 2 "plain.conf .*another user" --api-key-file="$KEY_FILE" --config="$DIR/plain.conf" "$SERVICE_URL" "$MOUNT"
  chown 12345 "$KEY_FILE"
  refuses 1 "key file .*another user" --api-key-file="$KEY_FILE" "$SERVICE_URL" "$MOUNT"
  chown 0 "$KEY_FILE" "$DIR/plain.conf"
  start_background --api-key-file="$KEY_FILE" --config="$DIR/plain.conf" "$SERVICE_URL" "$MOUNT"
  stop_background
  # Nobody can change what /dev/null contains.
  start_background --api-key-file="$KEY_FILE" --config=/dev/null "$SERVICE_URL" "$MOUNT"
}

@test "the key is not in the daemon's arguments, environment, log and state, nor in the mount" {
  start_service
  local key pid
  key=$(cat "$KEY_FILE")
  INBOXFS_API_KEY=$key "$INBOXFS" -d "$SERVICE_URL" "$MOUNT" >"$MOUNT_LOG" 2>&1 3>&- &
  pid=$!
  # shellcheck disable=SC2034 # for the teardown
  MOUNT_PID=$pid
  wait_until 20 mount_answers
  mkdir "$MOUNT/inboxes/$ALICE" "$MOUNT/inboxes/$BOB"
  message "$BOB" "no key" >"$MOUNT/outbox/x"
  wait_sent x
  refresh
  run ! grep -aqF -- "$key" "/proc/$pid/cmdline"
  run ! grep -aqF -- "$key" "/proc/$pid/environ"
  run -1 grep -rlaF -- "$key" "$MOUNT"
  stop_mount
  run -1 grep -rlaF -- "$key" "$XDG_STATE_HOME" "$MOUNT_LOG"
}

@test "a key command does not get the key in its environment" {
  start_service
  (umask 077 && printf '#!/bin/sh\nenv >"%s"\ncat "%s"\n' "$DIR/env" "$KEY_FILE" >"$DIR/command")
  chmod 700 "$DIR/command"
  start_background --api-key-command="$DIR/command" "$SERVICE_URL" "$MOUNT"
  run ! grep -qF "$(cat "$KEY_FILE")" "$DIR/env"
}

# ---------------------------------------------------------------- source

@test "a base URL with a slash or /api/v1, or from INBOXFS_BASE_URL, names the same service" {
  start_service
  local url
  for url in "$SERVICE_URL/" "$SERVICE_URL/api/v1" "$SERVICE_URL/api/v1/"; do
    start_background --api-key-file="$KEY_FILE" "$url" "$MOUNT"
    holds "$MOUNT/status.json" '.online'
    stop_background
  done
  INBOXFS_BASE_URL=$SERVICE_URL start_background --api-key-file="$KEY_FILE" "$MOUNT"
  stop_background
  equal "$(find "$XDG_STATE_HOME/inboxfs" -mindepth 1 -maxdepth 1 -type d | wc -l)" 1
}

@test "plain HTTP to another host is refused without --allow-http" {
  start_service
  refuses 1 "https|allow-http|plain" --api-key-file="$KEY_FILE" http://mail.example "$MOUNT"
  refuses 1 "https|allow-http|plain" --api-key-file="$KEY_FILE" http://192.0.2.1:8080 "$MOUNT"
  start_background --api-key-file="$KEY_FILE" --allow-http http://unknown.invalid "$MOUNT"
  contains "$(cat "$DIR/said")" "does not answer"
}

@test "a source that is not a usable URL is refused" {
  start_service
  local source
  for source in ftp://x.example "http://user:password@127.0.0.1:1" "http://127.0.0.1:1/?query" nonsense "http://"; do
    run timeout 30 "$INBOXFS" --api-key-file="$KEY_FILE" "$source" "$MOUNT"
    [ "$status" -ne 0 ] || fail "$source was taken"
    [ -n "$output" ]
    run ! mountpoint -q "$MOUNT"
  done
}

# ---------------------------------------------------------------- accounts

@test "a mount by an account's name uses its section's options, and the common ones that the section does not set" {
  start_service
  printf '%s\n' "api-key-file = $DIR/nokey" 'poll-interval = 77' 'daily-limit = free' 'allow-http = yes' \
    '[home]' "source = local:$DIR/box" "state-dir = $DIR/home-state" 'poll-interval = 12' \
    '[work@mail.example]' "source = $SERVICE_URL" "api-key-command = cat '$KEY_FILE'" 'poll-interval = 78' \
    >"$DIR/accounts"
  start_background --config="$DIR/accounts" work@mail.example "$MOUNT"
  holds "$MOUNT/status.json" '.sync.interval_seconds == 78 and .quota.daily_limit == 10 and .online'
  # The mount table has the name that fstab has, so that `mount -a` does not mount the account twice.
  equal "$(findmnt -no SOURCE,FSTYPE "$MOUNT" | tr -s ' ')" "work@mail.example fuse.inboxfs"
  stop_background
  equal "$(find "$XDG_STATE_HOME/inboxfs" -mindepth 1 -maxdepth 1 -type d | wc -l)" 1
  start_background --config="$DIR/accounts" -o poll_interval=9 home "$MOUNT"
  holds "$MOUNT/status.json" '.sync.interval_seconds == 9 and .quota.daily_limit == 10'
  [ -d "$DIR/home-state/spool" ]
  stop_background
  # Without the name of an account, only the options before the first section apply.
  start_background --config="$DIR/accounts" "local:$DIR/box" "$MOUNT"
  holds "$MOUNT/status.json" '.sync.interval_seconds == 77'
}

@test "an unknown account is refused with the names of all accounts" {
  printf '[home]\nsource = local\n[work]\nsource = local\n' >"$DIR/accounts"
  refuses 2 "no account 'wrok' in $DIR/accounts; it has: home, work" --config="$DIR/accounts" wrok "$MOUNT"
  refuses 2 "no account 'wrok' in /dev/null; it has: none" --config=/dev/null wrok "$MOUNT"
  refuses 2 "'wrok' is no URL.*$XDG_CONFIG_HOME/inboxfs/config: No such file" wrok "$MOUNT"
  printf 'poll-interval = 5\n[home]\n' >"$DIR/accounts"
  refuses 2 "'home' has no 'source'" --config="$DIR/accounts" home "$MOUNT"
  INBOXFS_BASE_URL=http://127.0.0.1:1 refuses 2 "'home' has no 'source'" --config="$DIR/accounts" home "$MOUNT"
}

@test "an option or section that the configuration has twice is refused with its line number" {
  printf '[work]\nfrom = a@x.example\n[home]\nfrom = a@x.example\nfrom = b@x.example\n' >"$DIR/lines"
  printf '[work]\nbase-url = http://127.0.0.1:1\n[home]\n[work]\n' >"$DIR/sections"
  printf 'source = local\nbase-url = http://127.0.0.1:1\n' >"$DIR/names"
  refuses 2 "lines:5: this stands in the file twice" --config="$DIR/lines" home "$MOUNT"
  refuses 2 "sections:4: this stands in the file twice" --config="$DIR/sections" work "$MOUNT"
  refuses 2 "names:2: this stands in the file twice" --config="$DIR/names" "$MOUNT"
}

@test "an invalid section name, and a mistake in any section, are refused with their line number" {
  local name
  for name in '[]' '[local]' '[a b]' '[../x]' '[-o]' '[home' '[home] x' "[$(printf 'a%.0s' {1..65})]" '[é]'; do
    printf '[home]\nsource = local\n%s\n' "$name" >"$DIR/accounts"
    refuses 2 "accounts:3: not '\[ACCOUNT\]'" --config="$DIR/accounts" home "$MOUNT"
    refuses 2 "accounts:3: not '\[ACCOUNT\]'" --config="$DIR/accounts" local "$MOUNT"
  done
  printf '[home]\nsource = local\n[work]\ncolour = red\n' >"$DIR/accounts"
  refuses 2 "accounts:4: unknown option" --config="$DIR/accounts" home "$MOUNT"
  local value
  for value in 'poll-interval = often' 'daily-limit = -1' 'umask = 999' 'from = alice' 'allow-http = perhaps'; do
    printf '[home]\nsource = local\n[work]\n%s\n' "$value" >"$DIR/accounts"
    refuses 2 "accounts:4: .* wanted" --config="$DIR/accounts" home "$MOUNT"
  done
  # A configuration cannot name another configuration.
  printf 'config = /dev/null\n[home]\nsource = local\n' >"$DIR/accounts"
  refuses 2 "accounts:1: unknown option" --config="$DIR/accounts" home "$MOUNT"
}

@test "a state-dir before the first section is refused, unless --state-dir overrides it" {
  printf 'state-dir = %s\n[home]\nsource = local\n' "$DIR/one" >"$DIR/accounts"
  refuses 2 "state-dir before the first section" --config="$DIR/accounts" home "$MOUNT"
  [ ! -e "$DIR/one" ]
  start_background --config="$DIR/accounts" --state-dir="$DIR/given" home "$MOUNT"
  [ -d "$DIR/given/spool" ]
}

@test "an account's own key overrides INBOXFS_API_KEY, and INBOXFS_BASE_URL does not apply to an account" {
  start_service
  printf '[work]\nsource = %s\napi-key-command = cat "%s"\n[bare]\nsource = %s\nallow-http = no\n' \
    "$SERVICE_URL" "$KEY_FILE" "$SERVICE_URL" >"$DIR/accounts"
  INBOXFS_BASE_URL=http://127.0.0.1:1 INBOXFS_API_KEY=wrong start_background --config="$DIR/accounts" work "$MOUNT"
  holds "$MOUNT/status.json" '.online'
  run ! grep -aqF wrong "/proc/$(daemons)/environ"
  stop_background
  refuses 1 "401|key" --config="$DIR/accounts" --api-key-command='echo wrong' work "$MOUNT"
  # An account without a key option uses INBOXFS_API_KEY.
  INBOXFS_API_KEY=$(cat "$KEY_FILE") start_background --config="$DIR/accounts" bare "$MOUNT"
}

@test "an account can switch off a common option" {
  printf 'allow-http = yes\napi-key-command = echo x\n[safe]\nsource = http://192.0.2.1\nallow-http = no\n' \
    >"$DIR/accounts"
  refuses 1 "plain HTTP|https" --config="$DIR/accounts" safe "$MOUNT"
}

# ---------------------------------------------------------------- configuration and -o

@test "options are read from the default configuration or from that of --config" {
  start_service
  mkdir -p "$XDG_CONFIG_HOME/inboxfs"
  printf '# a comment\n\nsource = %s\napi-key-file = %s\npoll-interval = 77\ndaily-limit = free\n' \
    "$SERVICE_URL" "$KEY_FILE" >"$XDG_CONFIG_HOME/inboxfs/config"
  start_background "$MOUNT"
  holds "$MOUNT/status.json" '.sync.interval_seconds == 77 and .quota.daily_limit == 10'
  stop_background
  mv "$XDG_CONFIG_HOME/inboxfs/config" "$DIR/other"
  start_background --config="$DIR/other" --poll-interval=78 "$MOUNT"
  holds "$MOUNT/status.json" '.sync.interval_seconds == 78'
}

@test "each option can be set in the configuration" {
  start_service
  (umask 077 && printf '%s\n' "base-url = $SERVICE_URL" "api-key-command = cat '$KEY_FILE'" "state-dir = $DIR/c-state" \
    "poll-interval=56" "daily-limit = 7" "from = $ALICE" "trust_idempotency = yes" "allow-http = true" "adopt-state = 1" \
    >"$DIR/every")
  start_background --config="$DIR/every" "$MOUNT"
  holds "$MOUNT/status.json" '.sync.interval_seconds == 56 and .quota.daily_limit == 7'
  [ -d "$DIR/c-state/spool" ]
  stop_background
  start_background -o "config=$DIR/every,api_key_command=cat $KEY_FILE" "$MOUNT"
}

@test "no, false and 0 in the configuration switch an option off" {
  local word
  for word in no false 0; do
    printf 'allow-http = %s\n' "$word" >"$DIR/config-file"
    refuses 1 "plain HTTP|https" --config="$DIR/config-file" --api-key-command='echo x' http://192.0.2.1 "$MOUNT"
  done
}

@test "a configuration over 64 KiB is refused" {
  head -c 70000 /dev/zero | tr '\0' '#' >"$DIR/config-file"
  refuses 2 "config-file: File too large" --config="$DIR/config-file" local "$MOUNT"
}

@test "a mistake in the configuration is refused with its line number" {
  printf 'poll-interval = 5\ncolour = red\n' >"$DIR/config-file"
  refuses 2 "config-file:2" --config="$DIR/config-file" local "$MOUNT"
  refuses 2 "missing" --config="$DIR/missing" local "$MOUNT"
}

@test "the message about a mistake in the configuration does not print the line, which may contain the key" {
  local line
  for line in 'api-key hunter2' 'hunter2' 'hunter2==' 'hunter2 = yes' 'apikey = hunter2' 'allow-http = hunter2'; do
    (umask 077 && printf '\n%s\n' "$line" >"$DIR/config-file")
    refuses 2 "config-file:2: [a-z]" --config="$DIR/config-file" local "$MOUNT"
    [[ $output != *hunter2* ]] || fail "$line: $output"
  done
}

@test "a default configuration that cannot be read is ignored with a warning, but that of --config is an error" {
  [ "$(id -u)" -eq 0 ] || skip "needs another user"
  chmod a+rx "$BATS_RUN_TMPDIR" "$DIR" "${TMPDIR:-/tmp}" 2>/dev/null || true
  mkdir -p "$DIR/root/.config/inboxfs"
  printf 'colour = red\n' >"$DIR/root/.config/inboxfs/config"
  chmod 700 "$DIR/root"
  local as=(setpriv --reuid=65534 --regid=65534 --clear-groups env -u XDG_CONFIG_HOME -u XDG_STATE_HOME -u XDG_DATA_HOME
    "HOME=$DIR/root")
  # As mount(8) starts the program for a user's line of fstab. Only the key is missing.
  run -1 timeout 30 "${as[@]}" "$INBOXFS" --state-dir="$DIR/u" http://127.0.0.1:1 "$MOUNT"
  contains "$output" "$DIR/root/.config/inboxfs/config: Permission denied"
  contains "$output" "no API key"
  # The file of --config must be readable.
  run -2 timeout 30 "${as[@]}" "$INBOXFS" --config="$DIR/root/.config/inboxfs/config" http://127.0.0.1:1 "$MOUNT"
  # The error about a default directory names HOME.
  run -1 timeout 30 "${as[@]}" INBOXFS_API_KEY=x "$INBOXFS" http://127.0.0.1:1 "$MOUNT"
  contains "$output" "HOME, which is $DIR/root"
  run -1 timeout 30 "${as[@]}" "$INBOXFS" local "$MOUNT"
  contains "$output" "HOME, which is $DIR/root"
}

@test "fstab options without effect here are accepted, and unknown options refused" {
  start_service
  start_background -o "defaults,rw,auto,noauto,nofail,_netdev,user,users,owner,group,user=somebody,comment=a b,x-systemd.automount,X-mount.mkdir" \
    -o "relatime,norelatime,nodiratime,strictatime,lazytime,noatime,nodev,nosuid,noexec,silent,api_key_file=$KEY_FILE" "$SERVICE_URL" "$MOUNT"
  grep -F " $MOUNT " /proc/self/mounts | grep -F nosuid | grep -F nodev | grep -qF noexec
  stop_background
  refuses 2 "nonsense" -o nonsense --api-key-file="$KEY_FILE" "$SERVICE_URL" "$MOUNT"
}

@test "each option can be given as -o name=value" {
  start_service
  start_background -o "api_key_file=$KEY_FILE,state_dir=$DIR/o-state,poll_interval=55,daily_limit=paid,from=$ALICE,trust_idempotency,allow_http,adopt_state" \
    "$SERVICE_URL" "$MOUNT"
  holds "$MOUNT/status.json" '.sync.interval_seconds == 55 and .quota.daily_limit == 1000'
  [ -d "$DIR/o-state/spool" ]
}

@test "-d stays in the foreground, and logs the kernel's requests" {
  start_service
  mkdir -p "$MOUNT"
  "$INBOXFS" -d --api-key-file="$KEY_FILE" --state-dir="$STATE" "$SERVICE_URL" "$MOUNT" >>"$MOUNT_LOG" 2>&1 3>&- {PAUSE}>&- &
  MOUNT_PID=$!
  wait_until 30 mount_answers_or_ended
  cat "$MOUNT/README" >/dev/null
  wait_until 10 grep -q LOOKUP "$MOUNT_LOG"
  # The process in the foreground serves the mount.
  kill -TERM "$MOUNT_PID"
  wait_until 30 process_is_gone "$MOUNT_PID"
  run ! mount_answers
  wait "$MOUNT_PID"
  MOUNT_PID=
}

@test "mount.fuse3 mounts with the type fuse.inboxfs" {
  [ "$(id -u)" -eq 0 ] || skip "needs root"
  start_service
  mkdir "$DIR/bin"
  ln -s "$INBOXFS" "$DIR/bin/inboxfs"
  # mount(8) runs mount.fuse3 for this type, but would look for the program only in the system's folders.
  PATH=$DIR/bin:$PATH /sbin/mount.fuse3 "$SERVICE_URL" "$MOUNT" -t fuse.inboxfs \
    -o "rw,api_key_file=$KEY_FILE,state_dir=$STATE,poll_interval=0" 3>&-
  mountpoint -q "$MOUNT"
  [ -d "$MOUNT/inboxes" ]
  umount "$MOUNT"
}

@test "the mount table shows the source and the type, and no key" {
  start_service
  start_background --api-key-file="$KEY_FILE" "$SERVICE_URL" "$MOUNT"
  local line
  line=$(grep -F " $MOUNT " /proc/self/mounts)
  contains "$line" "fuse.inboxfs"
  contains "$line" "$SERVICE_URL"
  contains "$line" "default_permissions"
  [[ $line != *"$(cat "$KEY_FILE")"* ]]
}

@test "-o ro mounts read-only, and -o allow_other keeps the modes that exclude other users" {
  start_service
  start_background -o ro --api-key-file="$KEY_FILE" "$SERVICE_URL" "$MOUNT"
  expect EROFS mkdir "$MOUNT/inboxes/$ALICE"
  stop_background
  [ "$(id -u)" -eq 0 ] || skip "the rest needs root"
  chmod a+rx "$BATS_RUN_TMPDIR" "$DIR" "${TMPDIR:-/tmp}" 2>/dev/null || true
  start_background -o allow_other --api-key-file="$KEY_FILE" "$SERVICE_URL" "$MOUNT"
  run setpriv --reuid=65534 --regid=65534 --clear-groups "$BUILD/tests/tools/syscall" open "$MOUNT/README" r
  equal "$output" EACCES
}

@test "-o uid, gid and umask give the mount to that user, and its group the permissions that the mask leaves" {
  [ "$(id -u)" -eq 0 ] || skip "needs root"
  local user=(setpriv --reuid=65534 --regid=65534 --clear-groups) member=(setpriv --reuid=65533 --regid=65533 --groups=4242)
  chmod a+rx "$BATS_RUN_TMPDIR" "$DIR" "${TMPDIR:-/tmp}" 2>/dev/null || true
  start_service
  create_inboxes "$ALICE" "$BOB"
  start_background -o "allow_other,uid=65534,gid=4242,umask=027,relatime,_netdev,nofail,api_key_file=$KEY_FILE" "$SERVICE_URL" "$MOUNT"
  equal "$(stat -c '%u %g %a' "$MOUNT" "$MOUNT/drafts" "$MOUNT/README" "$MOUNT/ctl" "$MOUNT/inboxes/$ALICE/inbox.json" | sort | uniq -c |
    tr -s ' ')" "$(printf ' 1 65534 4242 200\n 1 65534 4242 440\n 1 65534 4242 640\n 2 65534 4242 750')"
  # The user writes drafts, copies with owner and mode, and sends.
  message "$BOB" "by its user" | "${user[@]}" tee "$MOUNT/drafts/mine" >/dev/null
  equal "$(stat -c '%u %g %a' "$MOUNT/drafts/mine")" "65534 4242 640"
  "${user[@]}" chmod 400 "$MOUNT/drafts/mine"
  equal "$(stat -c '%u %g %a' "$MOUNT/drafts/mine")" "65534 4242 440"
  "${user[@]}" ln -s mine "$MOUNT/drafts/link"
  equal "$(stat -c '%u %g %a' "$MOUNT/drafts/link")" "65534 4242 777"
  "${user[@]}" mv "$MOUNT/drafts/mine" "$MOUNT/outbox/"
  went_out mine "by its user" "Hello."
  # The group may read but not write. Other users may do neither.
  "${member[@]}" ls "$MOUNT/sent" >/dev/null
  equal "$("${member[@]}" "$BUILD/tests/tools/syscall" open "$MOUNT/README" r)" ok
  equal "$("${member[@]}" "$BUILD/tests/tools/syscall" open "$MOUNT/ctl" w)" EACCES
  equal "$("${member[@]}" "$BUILD/tests/tools/syscall" mkdir "$MOUNT/drafts/folder")" EACCES
  equal "$(setpriv --reuid=65533 --regid=65533 --clear-groups "$BUILD/tests/tools/syscall" open "$MOUNT/README" r)" EACCES
  # Owners and groups are fixed.
  : >"$MOUNT/drafts/owned"
  chown 65534:4242 "$MOUNT/drafts/owned"
  run -1 chown 0 "$MOUNT/drafts/owned"
  contains "$output" "Operation not permitted"
  run -1 chgrp 0 "$MOUNT/drafts/owned"
  contains "$output" "Operation not permitted"
  # In outbox/ the owner of a copied file does not matter.
  message "$BOB" "copied" >"$DIR/theirs"
  chown 65533 "$DIR/theirs"
  cp -p "$DIR/theirs" "$MOUNT/outbox/"
  went_out theirs copied
}

@test "-o gid and umask=007 let the members of a group send without -o uid" {
  [ "$(id -u)" -eq 0 ] || skip "needs root"
  local member=(setpriv --reuid=65533 --regid=65533 --groups=4242)
  chmod a+rx "$BATS_RUN_TMPDIR" "$DIR" "${TMPDIR:-/tmp}" 2>/dev/null || true
  start_service
  create_inboxes "$ALICE" "$BOB"
  start_background -o "allow_other,gid=4242,umask=007" --api-key-file="$KEY_FILE" "$SERVICE_URL" "$MOUNT"
  message "$BOB" "by a member" >"$DIR/text"
  "${member[@]}" cp "$DIR/text" "$MOUNT/outbox/m"
  went_out m "by a member"
  "${member[@]}" mkdir "$MOUNT/drafts/folder"
  equal "$(stat -c '%u %g %a' "$MOUNT/drafts/folder")" "0 4242 770"
}

@test "-o umask=022 lets other users read, but not write" {
  [ "$(id -u)" -eq 0 ] || skip "needs root"
  local other=(setpriv --reuid=65533 --regid=65533 --clear-groups)
  chmod a+rx "$BATS_RUN_TMPDIR" "$DIR" "${TMPDIR:-/tmp}" 2>/dev/null || true
  start_service
  create_inboxes "$ALICE" "$BOB"
  start_background -o "allow_other,umask=022" --api-key-file="$KEY_FILE" "$SERVICE_URL" "$MOUNT"
  equal "$(stat -c %a "$MOUNT/drafts" "$MOUNT/README" "$MOUNT/ctl" | paste -sd' ')" "755 444 200"
  "${other[@]}" ls "$MOUNT/inboxes/$ALICE" >/dev/null
  equal "$("${other[@]}" "$BUILD/tests/tools/syscall" open "$MOUNT/inboxes/$ALICE/inbox.json" r)" ok
  equal "$("${other[@]}" "$BUILD/tests/tools/syscall" open "$MOUNT/inboxes/$ALICE/inbox.json" w)" EACCES
  equal "$("${other[@]}" "$BUILD/tests/tools/syscall" mkdir "$MOUNT/drafts/folder")" EACCES
}

@test "invalid values of uid, gid and umask are refused, and another user's uid unless root mounts" {
  refuses 2 "umask=089: an octal number" -o umask=089 local "$MOUNT"
  refuses 2 "umask=1777: an octal number" -o umask=1777 local "$MOUNT"
  refuses 2 "uid=alice: the number of a user" -o uid=alice local "$MOUNT"
  refuses 2 "gid=-1: the number of a group" -o gid=-1 local "$MOUNT"
  refuses 2 "uid=4294967295: the number" -o uid=4294967295 local "$MOUNT"
  [ "$(id -u)" -eq 0 ] || skip "the rest needs root"
  run -2 setpriv --reuid=65533 --regid=65533 --clear-groups env -u XDG_CONFIG_HOME HOME=/ "$INBOXFS" -o uid=0 local "$MOUNT"
  contains "$output" "only root can show a mount as another user's"
}

@test "mount.inboxfs accepts the switches of mount(8), and exits with its statuses" {
  [ "$(id -u)" -eq 0 ] || skip "needs root"
  local helper=$DIR/mount.inboxfs
  start_service
  ln -s "$INBOXFS" "$helper"
  printf '[work]\nsource = %s\napi-key-file = %s\nstate-dir = %s\n' "$SERVICE_URL" "$KEY_FILE" "$STATE" >"$DIR/accounts"
  # -f checks the options, and mounts nothing.
  run -0 "$helper" work "$MOUNT" -s -f -n -v -o "rw,config=$DIR/accounts"
  run ! mountpoint -q "$MOUNT"
  run -1 "$helper" nobody "$MOUNT" -f -o "rw,config=$DIR/accounts"
  contains "$output" "it has: work"
  run -1 "$helper" work "$MOUNT" -o rw,nonsense
  run -32 "$helper" work "$DIR/nowhere" -o "rw,config=$DIR/accounts"
  run -32 "$helper" "$SERVICE_URL" "$MOUNT" -o "rw,api_key_file=$DIR/nokey"
  # Only debug keeps the program in the foreground.
  "$helper" work "$MOUNT" -o "rw,debug,config=$DIR/accounts" >"$DIR/said" 2>&1 3>&- &
  local pid=$!
  wait_until 10 mountpoint -q "$MOUNT"
  umount "$MOUNT"
  wait "$pid"
  grep -q "^unique: " "$DIR/said"
  "$helper" work "$MOUNT" -v -o "rw,noatime,config=$DIR/accounts" -t fuse.inboxfs 3>&-
  mountpoint -q "$MOUNT"
  equal "$(findmnt -no SOURCE,FSTYPE "$MOUNT" | tr -s ' ')" "work fuse.inboxfs"
  umount "$MOUNT"
}

@test "files are read completely with -o max_read=4096" {
  start_service
  start_background -o max_read=4096 --api-key-file="$KEY_FILE" "$SERVICE_URL" "$MOUNT"
  head -c 100000 /dev/urandom >"$DIR/random"
  cp "$DIR/random" "$MOUNT/drafts/random"
  cmp "$MOUNT/drafts/random" "$DIR/random"
  grep -F " $MOUNT " /proc/mounts | grep -F max_read=4096
}

@test "a user who is not root can mount" {
  [ "$(id -u)" -eq 0 ] || skip "is not root already"
  [ -u "$(command -v fusermount3)" ] || skip "fusermount3 is not setuid"
  setpriv --reuid=65534 --regid=65534 --clear-groups test -w /dev/fuse || skip "/dev/fuse is for root only"
  local as=(setpriv --reuid=65534 --regid=65534 --clear-groups env -u XDG_STATE_HOME -u XDG_CONFIG_HOME "HOME=$DIR/user")
  mkdir -p "$DIR/user/mail"
  chown -R 65534:65534 "$DIR/user"
  local folder=$DIR
  while [ "$folder" != / ]; do
    chmod a+x "$folder"
    folder=$(dirname "$folder")
  done
  "${as[@]}" "$INBOXFS" "local:$DIR/user/box" "$DIR/user/mail" >"$DIR/said" 2>&1 3>&- || fail "$(cat "$DIR/said")"
  equal "$("${as[@]}" stat -c '%u %a' "$DIR/user/mail")" "65534 700"
  "${as[@]}" mkdir "$DIR/user/mail/inboxes/$ALICE"
  local mail
  wait_until 10 "${as[@]}" bash -c 'ls "$1"/2*.json' - "$DIR/user/mail/inboxes/$ALICE"
  mail=$("${as[@]}" find "$DIR/user/mail/inboxes/$ALICE" -name '2*.json')
  equal "$("${as[@]}" "$BUILD/tests/tools/syscall" open "$mail" w)" EACCES
  equal "$("${as[@]}" "$BUILD/tests/tools/syscall" unlink "$mail")" EPERM
  equal "$("${as[@]}" "$BUILD/tests/tools/syscall" write "$DIR/user/mail/inboxes/$ALICE/new" wc x)" "open EPERM"
  # inotify reports new mail although the watch helper has no privileges.
  "${as[@]}" inotifywait -m -e create,close_write --format '%e %f' "$DIR/user/mail/inboxes/$ALICE" \
    >"$DIR/watched" 2>"$DIR/inotifywait.log" 3>&- &
  local watcher=$!
  wait_until 10 grep -q 'Watches established' "$DIR/inotifywait.log"
  message "$ALICE" own | "${as[@]}" tee "$DIR/user/mail/outbox/own" >/dev/null
  wait_until 10 "${as[@]}" test -e "$DIR/user/mail/sent/own"
  "${as[@]}" sh -c 'echo sync >"$1"' - "$DIR/user/mail/ctl"
  wait_until 10 grep -q '^CLOSE_WRITE,CLOSE .*_own_' "$DIR/watched"
  grep -q '^CREATE .*_own_' "$DIR/watched"
  kill "$watcher"
  wait "$watcher" || true
  # A folder with read but without search permission can be listed.
  "${as[@]}" mkdir -p "$DIR/user/mail/drafts/folder/below"
  "${as[@]}" chmod 600 "$DIR/user/mail/drafts/folder"
  equal "$("${as[@]}" ls -U "$DIR/user/mail/drafts/folder")" below
  "${as[@]}" fusermount3 -u "$DIR/user/mail"
  wait_until 20 has_no_daemon "$DIR/user/mail"
}
