#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# Starting and ending inboxfs: options, keys, mount points, the background, and what is refused before it.

load support

setup() {
  export HOME=$DIR/home XDG_CONFIG_HOME=$DIR/config XDG_STATE_HOME=$DIR/states XDG_DATA_HOME=$DIR/data
  mkdir -p "$HOME" "$XDG_CONFIG_HOME" "$XDG_STATE_HOME" "$XDG_DATA_HOME" "$MOUNT"
}

teardown() {
  stop_background
  stop_all
}

# Mounts in the background, as a user would, and keeps the daemon's id for the teardown.
start_background() { # ARGUMENT...
  "$INBOXFS" "$@" >"$DIR/said" 2>&1 3>&- || return
  mountpoint -q "$MOUNT" || fail "nothing is mounted: $(cat "$DIR/said")"
}

# The ids of the daemons that serve a mount.
daemons() { # [MOUNTPOINT]
  pgrep -f -- "inboxfs .*${1:-$MOUNT}" || true
}

has_no_daemon() { # [MOUNTPOINT]
  [ -z "$(daemons "$@")" ]
}

stop_background() {
  [ -z "$MOUNT_PID" ] || return 0
  if mountpoint -q "$MOUNT"; then
    fusermount3 -u "$MOUNT"
  fi
  wait_until 20 has_no_daemon
}

# The command fails with the status (a pattern) before anything is mounted, with a message that says so.
refuses() { # STATUS WORDS ARGUMENT...
  run timeout 30 "$INBOXFS" "${@:3}"
  [[ $status =~ ^$1$ ]] || fail "ended with $status, should be $1: $output"
  [[ $output =~ $2 ]] || fail "said: $output" $'\n'"should say: $2"
  run ! mountpoint -q "$MOUNT"
}

# ---------------------------------------------------------------- help, version, wrong usage

@test "-h and --help print the usage and every option" {
  local option
  for option in -h --help; do
    run -0 "$INBOXFS" $option
    for word in api-key-file config state-dir poll-interval daily-limit trust-idempotency allow-http from= \
      adopt-state '-f' '-d' '-s' '-o' SOURCE MOUNTPOINT; do
      contains "$output" "$word"
    done
  done
}

@test "-V and --version print the version" {
  run -0 "$INBOXFS" -V
  [[ $output =~ inboxfs\ [0-9]+\.[0-9]+ ]]
  run -0 "$INBOXFS" --version
}

@test "nonsense on the command line is refused with status 2 and words" {
  refuses 2 "mount" local
  refuses 2 "." --no-such-option local "$MOUNT"
  refuses 2 "poll" --poll-interval=often local "$MOUNT"
  refuses 2 "poll" --poll-interval=-1 local "$MOUNT"
  refuses 2 "limit" --daily-limit=much local "$MOUNT"
  refuses 2 "from" --from=nobody local "$MOUNT"
  refuses 2 "." local "$MOUNT" and-more
}

@test "no source at all is said" {
  refuses 2 "INBOXFS_BASE_URL" "$MOUNT"
}

# ---------------------------------------------------------------- the local service

@test "local:DIR needs no key and no port; the mount goes into the background" {
  start_background "local:$DIR/box" "$MOUNT"
  mkdir "$MOUNT/inboxes/alice@$(jq -r '.domain // "inbox.localhost"' "$MOUNT/status.json")"
  wait_until 10 bash -c 'ls "$1"/inboxes/*/2*.json' - "$MOUNT"
  [ -d "$DIR/box" ]
  # Nothing listens for others.
  local pid
  pid=$(daemons)
  run -1 grep -E '^ *[0-9]+: .* 0A ' <(for fd in /proc/"$pid"/fd/*; do
    readlink "$fd" | sed -n 's/socket:\[\(.*\)\]/\1/p'
  done | while read -r inode; do awk -v i="$inode" '$10 == i' "/proc/$pid/net/tcp" "/proc/$pid/net/tcp6"; done)
}

@test "local alone keeps its data in XDG_DATA_HOME, its state in XDG_STATE_HOME" {
  start_background local "$MOUNT"
  [ -d "$XDG_DATA_HOME/inboxfs" ]
  equal "$(find "$XDG_STATE_HOME/inboxfs" -mindepth 1 -maxdepth 1 -type d | wc -l)" 1
  equal "$(stat -c %a "$XDG_DATA_HOME/inboxfs" "$XDG_STATE_HOME/inboxfs"/*/ | sort -u)" 700
}

@test "two mounts of one local service at once: the second is refused" {
  start_background "local:$DIR/box" "$MOUNT"
  mkdir "$DIR/second"
  run -1 timeout 30 "$INBOXFS" "local:$DIR/box" "$DIR/second"
  run ! mountpoint -q "$DIR/second"
}

@test "the main job with the local service: two inboxes, a message, an answer" {
  start_background "local:$DIR/box" "$MOUNT"
  mkdir "$MOUNT/inboxes/$ALICE" "$MOUNT/inboxes/$BOB"
  message "$BOB" "hello" >"$MOUNT/drafts/hello"
  mv "$MOUNT/drafts/hello" "$MOUNT/outbox/"
  sync "$MOUNT/outbox"
  refresh
  mounted "$BOB" hello
}

# ---------------------------------------------------------------- ending

@test "fusermount3 -u ends the daemon" {
  start_background "local:$DIR/box" "$MOUNT"
  local pid
  pid=$(daemons)
  fusermount3 -u "$MOUNT"
  wait_until 10 process_is_gone "$pid"
}

@test "SIGTERM, SIGINT and SIGHUP unmount and end it well" {
  local signal
  for signal in TERM INT HUP; do
    start_service
    start_mount
    kill "-$signal" "$MOUNT_PID"
    wait_until 10 process_is_gone "$MOUNT_PID"
    wait "$MOUNT_PID"
    MOUNT_PID=
    run ! mountpoint -q "$MOUNT"
    stop_service
  done
}

@test "unmounting while a file is open is refused by the kernel, and harms nothing" {
  start_service
  start_mount
  exec 7<"$MOUNT/README"
  run ! fusermount3 -u "$MOUNT"
  exec 7<&-
  grep -q . "$MOUNT/README"
}

@test "SIGTERM while files are open still ends it" {
  start_service
  start_mount
  exec 7<"$MOUNT/README" 8>"$MOUNT/drafts/open"
  kill -TERM "$MOUNT_PID"
  wait_until 15 process_is_gone "$MOUNT_PID"
  wait "$MOUNT_PID"
  MOUNT_PID=
  exec 7<&- 8>&- || true
  run ! mountpoint -q "$MOUNT"
}

@test "in the foreground it stays until it is unmounted, -d shows requests" {
  start_service
  start_mount -d
  ls "$MOUNT" >/dev/null
  [ -d "/proc/$MOUNT_PID" ]
  stop_mount
  [ "$(wc -l <"$MOUNT_LOG")" -gt 5 ]
}

@test "-s works single-threaded" {
  start_service
  start_mount -s
  mkdir "$MOUNT/inboxes/$ALICE" "$MOUNT/inboxes/$BOB"
  message "$BOB" "single" >"$MOUNT/outbox/x"
  wait_sent x
}

# ---------------------------------------------------------------- keys

@test "the key from INBOXFS_API_KEY, a command, or the configuration" {
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

@test "no key at all is said" {
  start_service
  refuses 1 "key" "$SERVICE_URL" "$MOUNT"
}

@test "a wrong key is refused before the mount, with words" {
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

@test "a key file that others can read is refused" {
  start_service
  local mode
  for mode in 640 604 644 660; do
    chmod "$mode" "$KEY_FILE"
    refuses 1 "chmod|others" --api-key-file="$KEY_FILE" "$SERVICE_URL" "$MOUNT"
  done
  chmod 400 "$KEY_FILE"
  start_background --api-key-file="$KEY_FILE" "$SERVICE_URL" "$MOUNT"
}

@test "a key that would break the header is refused" {
  start_service
  (umask 077 && printf 'key\x01with control\n' >"$DIR/control" && printf 'two\nlines\n' >"$DIR/lines")
  refuses 1 "key" --api-key-file="$DIR/control" "$SERVICE_URL" "$MOUNT"
  refuses 1 "key" --api-key-file="$DIR/lines" "$SERVICE_URL" "$MOUNT"
}

@test "a configuration with a key that others can read is refused" {
  start_service
  printf 'api-key = %s\n' "$(cat "$KEY_FILE")" >"$DIR/open.conf"
  chmod 644 "$DIR/open.conf"
  refuses 2 "others|chmod" --config="$DIR/open.conf" "$SERVICE_URL" "$MOUNT"
}

@test "the key shows nowhere: not in arguments, environment, log, state or the mount" {
  start_service
  local key pid
  key=$(cat "$KEY_FILE")
  INBOXFS_API_KEY=$key "$INBOXFS" -d "$SERVICE_URL" "$MOUNT" >"$MOUNT_LOG" 2>&1 3>&- &
  pid=$!
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

@test "the key is not in the environment of the key command's children" {
  start_service
  (umask 077 && printf '#!/bin/sh\nenv >"%s"\ncat "%s"\n' "$DIR/env" "$KEY_FILE" >"$DIR/command")
  chmod 700 "$DIR/command"
  start_background --api-key-command="$DIR/command" "$SERVICE_URL" "$MOUNT"
  run ! grep -qF "$(cat "$KEY_FILE")" "$DIR/env"
}

# ---------------------------------------------------------------- source

@test "the base URL with a slash, with /api/v1, and from the environment means the same" {
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

@test "plain HTTP to another host is refused, unless it is allowed" {
  start_service
  refuses 1 "https|allow-http|plain" --api-key-file="$KEY_FILE" http://mail.example "$MOUNT"
  refuses 1 "https|allow-http|plain" --api-key-file="$KEY_FILE" http://192.0.2.1:8080 "$MOUNT"
  start_background --api-key-file="$KEY_FILE" --allow-http http://unknown.invalid "$MOUNT"
  contains "$(cat "$DIR/said")" "does not answer"
}

@test "a source that is no URL is refused" {
  start_service
  local source
  for source in ftp://x.example "http://user:password@127.0.0.1:1" "http://127.0.0.1:1/?query" nonsense "http://"; do
    run timeout 30 "$INBOXFS" --api-key-file="$KEY_FILE" "$source" "$MOUNT"
    [ "$status" -ne 0 ] || fail "$source was taken"
    [ -n "$output" ]
    run ! mountpoint -q "$MOUNT"
  done
}

# ---------------------------------------------------------------- configuration and -o

@test "options from the default configuration, and from --config" {
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

@test "a mistake in the configuration is told with its line" {
  printf 'poll-interval = 5\ncolour = red\n' >"$DIR/config-file"
  refuses 2 "config-file:2" --config="$DIR/config-file" local "$MOUNT"
  refuses 2 "missing" --config="$DIR/missing" local "$MOUNT"
}

@test "every option as -o name=value" {
  start_service
  start_background -o "api_key_file=$KEY_FILE,state_dir=$DIR/o-state,poll_interval=55,daily_limit=paid,from=$ALICE,trust_idempotency,allow_http,adopt_state" \
    "$SERVICE_URL" "$MOUNT"
  holds "$MOUNT/status.json" '.sync.interval_seconds == 55 and .quota.daily_limit == 1000'
  [ -d "$DIR/o-state/spool" ]
}

@test "mount -t fuse.inboxfs, as from fstab" {
  [ "$(id -u)" -eq 0 ] || skip "needs root"
  start_service
  mkdir "$DIR/bin"
  ln -s "$INBOXFS" "$DIR/bin/inboxfs"
  # What mount(8) runs for the type; it would look for the program in the system's own folders only.
  PATH=$DIR/bin:$PATH /sbin/mount.fuse3 "$SERVICE_URL" "$MOUNT" -t fuse.inboxfs \
    -o "rw,api_key_file=$KEY_FILE,state_dir=$STATE,poll_interval=0" 3>&-
  mountpoint -q "$MOUNT"
  [ -d "$MOUNT/inboxes" ]
  umount "$MOUNT"
}

@test "the mount table shows the source and the type, never a key" {
  start_service
  start_background --api-key-file="$KEY_FILE" "$SERVICE_URL" "$MOUNT"
  local line
  line=$(grep -F " $MOUNT " /proc/self/mounts)
  contains "$line" "fuse.inboxfs"
  contains "$line" "$SERVICE_URL"
  contains "$line" "default_permissions"
  [[ $line != *"$(cat "$KEY_FILE")"* ]]
}

@test "-o ro mounts read-only, allow_other lets others in as the modes allow" {
  start_service
  start_background -o ro --api-key-file="$KEY_FILE" "$SERVICE_URL" "$MOUNT"
  expect EROFS mkdir "$MOUNT/inboxes/$ALICE"
  stop_background
  [ "$(id -u)" -eq 0 ] || skip "the rest needs root"
  chmod 755 "$BATS_RUN_TMPDIR" "$DIR" "${TMPDIR:-/tmp}" 2>/dev/null || true
  start_background -o allow_other --api-key-file="$KEY_FILE" "$SERVICE_URL" "$MOUNT"
  run setpriv --reuid=65534 --regid=65534 --clear-groups "$BUILD/tests/tools/syscall" open "$MOUNT/README" r
  equal "$output" EACCES
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
  "${as[@]}" fusermount3 -u "$DIR/user/mail"
  wait_until 20 has_no_daemon "$DIR/user/mail"
}

# ---------------------------------------------------------------- mount points and state

@test "a mount point that is missing or no directory is refused" {
  refuses '[12]' "No such file" "local:$DIR/box" "$DIR/nowhere"
  : >"$DIR/file"
  refuses '[12]' "Not a directory" "local:$DIR/box" "$DIR/file"
}

@test "a mount point that is in use already is refused" {
  start_background "local:$DIR/box" "$MOUNT"
  run -1 timeout 30 "$INBOXFS" "local:$DIR/box2" "$MOUNT"
  contains "$output" "mounted"
  present "$MOUNT/README"
}

@test "a relative mount point works" {
  cd "$DIR"
  "$INBOXFS" "local:$DIR/box" mail 3>&-
  mountpoint -q "$MOUNT"
  cd /
  fusermount3 -u "$MOUNT"
  wait_until 20 has_no_daemon "local:$DIR/box mail"
}

@test "a second daemon on the same state is refused" {
  start_service
  start_mount
  mkdir "$DIR/second"
  run -1 timeout 30 "$INBOXFS" --api-key-file="$KEY_FILE" --state-dir="$STATE" "$SERVICE_URL" "$DIR/second"
  [ -n "$output" ]
  run ! mountpoint -q "$DIR/second"
  present "$MOUNT/README"
}

@test "a dead mount is removed and replaced" {
  start_service
  start_mount
  kill -KILL "$MOUNT_PID"
  wait_until 10 process_is_gone "$MOUNT_PID"
  wait "$MOUNT_PID" || true
  MOUNT_PID=
  run stat "$MOUNT"
  contains "$output" "Transport endpoint is not connected"
  start_mount
  present "$MOUNT/README"
  equal "$(grep -cF " $MOUNT " /proc/self/mounts)" 1
}

@test "with the service away it mounts from its cache, and says so" {
  start_service
  create_inbox "$ALICE"
  create_inbox "$BOB"
  start_mount
  send_from_elsewhere "$ALICE" "$BOB" "cached"
  refresh
  stop_mount
  stop_service
  start_background --api-key-file="$KEY_FILE" --state-dir="$STATE" "$SERVICE_URL" "$MOUNT"
  contains "$(cat "$DIR/said")" "does not answer"
  mounted "$BOB" cached
  holds "$MOUNT/status.json" '.online == false and (.error | length > 0)'
}

@test "with the service away at the very first start it mounts, and fills when it comes" {
  start_service
  create_inbox "$ALICE"
  stop_service
  start_mount
  equal "$(ls "$MOUNT/inboxes")" ""
  start_service
  refresh
  present "$MOUNT/inboxes/$ALICE"
}

@test "another account's state is refused, unless it is adopted" {
  start_service
  create_inbox "$ALICE"
  start_mount
  refresh
  stop_mount
  stop_service
  # Another service: its inboxes have other ids.
  mv "$SERVICE" "$SERVICE.first"
  start_service
  create_inbox "$BOB"
  refuses 1 "adopt-state|account|state" --api-key-file="$KEY_FILE" --state-dir="$STATE" "$SERVICE_URL" "$MOUNT"
  start_mount --adopt-state
  refresh
  equal "$(ls "$MOUNT/inboxes")" "$BOB"
}

@test "each service and key has a state of its own" {
  start_service
  start_background --api-key-file="$KEY_FILE" "$SERVICE_URL" "$MOUNT"
  stop_background
  start_background "local:$DIR/box" "$MOUNT"
  stop_background
  start_background "local:$DIR/box2" "$MOUNT"
  stop_background
  start_background "local:$DIR/box" "$MOUNT"
  stop_background
  equal "$(find "$XDG_STATE_HOME/inboxfs" -mindepth 1 -maxdepth 1 -type d | wc -l)" 3
  (umask 077 && "$INBOXD" key add --data="$SERVICE" >"$DIR/key2")
  start_background --api-key-file="$DIR/key2" "$SERVICE_URL" "$MOUNT"
  equal "$(find "$XDG_STATE_HOME/inboxfs" -mindepth 1 -maxdepth 1 -type d | wc -l)" 4
}

@test "the state is for its owner only" {
  start_service
  start_mount
  equal "$(stat -c %a "$STATE")" 700
  equal "$(find "$STATE" -perm /077 ! -type l | head)" ""
}

@test "no core file holds what the daemon knew" {
  start_service
  start_mount
  local limit
  limit=$(awk '/Max core file size/ { print $5 }' "/proc/$MOUNT_PID/limits")
  [ "$limit" -le 1 ]
}
