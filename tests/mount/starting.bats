#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# Starting and ending inboxfs: help, the local service, the background, mount points and state.

load support
load background

setup() {
  use_own_home
}

teardown() {
  [ -z "${MANAGER_PID:-}" ] || kill "$MANAGER_PID" 2>/dev/null || true
  stop_background
  stop_all
}

# ---------------------------------------------------------------- help, version, wrong usage

@test "-h and --help print the usage and every option" {
  local option command
  for option in -h --help; do
    run -0 "$INBOXFS" $option
    for word in api-key-file config state-dir poll-interval daily-limit trust-idempotency allow-http from= \
      adopt-state '-f' '-d' '-o' SOURCE MOUNTPOINT; do
      contains "$output" "$word"
    done
    for command in check status umount; do
      run -0 "$INBOXFS" $command $option
      contains "$output" "usage: inboxfs"
    done
  done
}

@test "-V and --version print the version" {
  run -0 "$INBOXFS" -V
  [[ $output =~ inboxfs\ [0-9]+\.[0-9]+ ]]
  run -0 "$INBOXFS" --version
}

@test "a wrong command line is refused with status 2 and a message" {
  refuses 2 "mount" local
  refuses 2 "." --no-such-option local "$MOUNT"
  refuses 2 "poll" --poll-interval=often local "$MOUNT"
  refuses 2 "poll" --poll-interval=-1 local "$MOUNT"
  refuses 2 "86400" --poll-interval=86401 local "$MOUNT"
  refuses 2 "poll" --poll-interval=5x local "$MOUNT"
  refuses 2 "content-cache" --content-cache=0 local "$MOUNT"
  refuses 2 "limit" --daily-limit=-1 local "$MOUNT"
  refuses 2 "limit" --daily-limit=much local "$MOUNT"
  refuses 2 "from" --from=nobody local "$MOUNT"
  refuses 2 "." local "$MOUNT" and-more
}

@test "a mount without a source is refused with a message that names INBOXFS_BASE_URL" {
  refuses 2 "INBOXFS_BASE_URL" "$MOUNT"
}

# ---------------------------------------------------------------- the local service

@test "local:DIR mounts in the background without a key or a listening TCP port" {
  start_background "local:$DIR/box" "$MOUNT"
  mkdir "$MOUNT/inboxes/alice@$(jq -r '.domain // "inbox.localhost"' "$MOUNT/status.json")"
  wait_until 10 bash -c 'ls "$1"/inboxes/*/2*.json' - "$MOUNT"
  [ -d "$DIR/box" ]
  local pid
  pid=$(daemons)
  # SQLite has no shared-memory file, which another program could truncate.
  [ -e "$DIR/box/inbox.sqlite3-wal" ]
  [ ! -e "$DIR/box/inbox.sqlite3-shm" ]
  # The daemon listens at no TCP port.
  run -1 grep -E '^ *[0-9]+: .* 0A ' <(for fd in /proc/"$pid"/fd/*; do
    readlink "$fd" | sed -n 's/socket:\[\(.*\)\]/\1/p'
  done | while read -r inode; do awk -v i="$inode" '$10 == i' "/proc/$pid/net/tcp" "/proc/$pid/net/tcp6"; done)
}

@test "local:DIR shows mail from one inbox to another at once, before the next poll" {
  start_background --poll-interval=86400 "local:$DIR/box" "$MOUNT"
  mkdir "$MOUNT/inboxes/$ALICE" "$MOUNT/inboxes/$BOB"
  message "$BOB" "here already" >"$MOUNT/drafts/m"
  mv "$MOUNT/drafts/m" "$MOUNT/outbox/"
  wait_until 20 mounted "$BOB" "here already"
  stop_background
}

@test "local:DIR works with a path longer than a socket's address" {
  local long folder
  long=$DIR/$(printf 'a%.0s' {1..120})/$(printf 'b%.0s' {1..120})
  mkdir -p "$long"
  start_background "local:$long/box" "$MOUNT"
  folder=$MOUNT/inboxes/alice@$(jq -r '.domain // "inbox.localhost"' "$MOUNT/status.json")
  mkdir "$folder"
  wait_until 10 bash -c 'ls "$1"/2*.json' - "$folder"
  printf 'From: %s\nTo: %s\nSubject: long\n\nText.\n' "${folder##*/}" "${folder##*/}" >"$MOUNT/drafts/m"
  mv "$MOUNT/drafts/m" "$MOUNT/outbox/"
  sync "$MOUNT/outbox"
  wait_until 10 bash -c 'echo sync >"$1/ctl"; ls "$2"/*_long_*.json' - "$MOUNT" "$folder"
}

@test "local without DIR keeps its data in XDG_DATA_HOME and its state in XDG_STATE_HOME" {
  start_background local "$MOUNT"
  [ -d "$XDG_DATA_HOME/inboxfs" ]
  # The mount table shows which local service it is.
  equal "$(findmnt -no SOURCE "$MOUNT")" "local:$XDG_DATA_HOME/inboxfs"
  equal "$(find "$XDG_STATE_HOME/inboxfs" -mindepth 1 -maxdepth 1 -type d | wc -l)" 1
  equal "$(stat -c %a "$XDG_DATA_HOME/inboxfs" "$XDG_STATE_HOME/inboxfs"/*/ | sort -u)" 700
}

@test "local keeps its data and state below HOME without the XDG variables" {
  unset XDG_DATA_HOME XDG_STATE_HOME
  start_background local "$MOUNT"
  [ -d "$HOME/.local/share/inboxfs" ]
  equal "$(find "$HOME/.local/state/inboxfs" -mindepth 1 -maxdepth 1 -type d | wc -l)" 1
}

@test "a relative path in HOME or an XDG variable is ignored, so no mail depends on the working folder" {
  mkdir -p "$DIR/elsewhere"
  cd "$DIR/elsewhere"
  XDG_DATA_HOME=data XDG_STATE_HOME=state start_background local "$MOUNT"
  [ -d "$HOME/.local/share/inboxfs" ]
  [ -d "$HOME/.local/state/inboxfs" ]
  equal "$(ls -A)" ''
  # HOME is next to the last: the home directory of the user database.
  run env -u XDG_DATA_HOME HOME='' "$INBOXFS" check local
  contains "$output" "data      $(getent passwd "$(id -u)" | cut -d: -f6)/.local/share/inboxfs"
}

@test "a second mount of the same local service is refused" {
  start_background "local:$DIR/box" "$MOUNT"
  mkdir "$DIR/second"
  run -1 timeout 30 "$INBOXFS" "local:$DIR/box" "$DIR/second"
  contains "$output" 'name another local service, as local:DIR'
  run ! mountpoint -q "$DIR/second"
}

@test "a message from one inbox of the local service arrives in another" {
  start_background "local:$DIR/box" "$MOUNT"
  mkdir "$MOUNT/inboxes/$ALICE" "$MOUNT/inboxes/$BOB"
  message "$BOB" "hello" >"$MOUNT/drafts/hello"
  mv "$MOUNT/drafts/hello" "$MOUNT/outbox/"
  sync "$MOUNT/outbox"
  refresh
  mounted "$BOB" hello
}

@test "local:DIR sends a message once if a crash lost the answer" {
  INBOXFS_CRASH_AT=answered start_background "local:$DIR/box" "$MOUNT"
  mkdir "$MOUNT/inboxes/$ALICE" "$MOUNT/inboxes/$BOB"
  message "$BOB" "once" >"$MOUNT/drafts/once"
  mv "$MOUNT/drafts/once" "$MOUNT/outbox/"
  wait_until 20 has_no_daemon
  start_background "local:$DIR/box" "$MOUNT"
  wait_sent once
  refresh
  equal "$(jq -r .subject "$MOUNT/inboxes/$BOB"/2*.json)" once
}

# Prints the session and the process group of a process.
group_of() # PID
{
  ps -o sid=,pgid= -p "$1" | tr -s ' '
}

@test "the daemon leaves the process group of its command only after the mount" {
  start_service
  freeze_service
  "$INBOXFS" --api-key-file="$KEY_FILE" "$SERVICE_URL" "$MOUNT" 3>&- {PAUSE}>&- &
  local command=$! daemon
  wait_until 10 pgrep -P "$command"
  daemon=$(pgrep -P "$command" | head -n 1)
  equal "$(group_of "$daemon")" "$(group_of "$command")"
  kill -CONT "$SERVICE_PID"
  wait "$command"
  equal "$(group_of "$daemon" | tr -d ' ')" "$daemon$daemon"
}

# ---------------------------------------------------------------- what the caller has open

@test "the daemon has closed the caller's lock and pipe when the mount answers" {
  # As x=$(inboxfs ...) in a shell that holds a copy of the pipe.
  # shellcheck disable=SC2016 # for the inner shell
  bash -c 'exec 8>&1 9>"$2/lock"; flock 9; "$1" "local:$2/box" "$3" && echo mounted' - "$INBOXFS" "$DIR" "$MOUNT" 3>&- {PAUSE}>&- |
    cat >"$DIR/said" 3>&- {PAUSE}>&- &
  local reader=$!
  wait_until 20 process_is_gone "$reader"
  equal "$(<"$DIR/said")" mounted
  flock -n "$DIR/lock" true
  stop_background
  start_service
  exec 9>"$DIR/lock"
  flock 9
  start_mount
  exec 9>&-
  wait_until 10 flock -n "$DIR/lock" true
}

@test "standard descriptors that the caller closed become /dev/null" {
  timeout 30 "$INBOXFS" "local:$DIR/box" "$MOUNT" <&- >&- 3>&-
  present "$MOUNT/README"
  stop_background
  "$INBOXFS" -f "local:$DIR/box" "$MOUNT" <&- >&- 2>&- 3>&- {PAUSE}>&- &
  MOUNT_PID=$!
  wait_until 20 mount_answers
  equal "$(readlink "/proc/$MOUNT_PID/fd"/{0,1,2})" $'/dev/null\n/dev/null\n/dev/null'
}

# ---------------------------------------------------------------- ending

@test "fusermount3 -u ends the daemon" {
  start_background "local:$DIR/box" "$MOUNT"
  local pid
  pid=$(daemons)
  fusermount3 -u "$MOUNT"
  wait_until 10 process_is_gone "$pid"
}

@test "umount ends a mount or dead mount, and names each process that uses one, with its use" {
  local folder file program
  start_background "local:$DIR/box" "$MOUNT"
  cp -p "$(type -P sleep)" "$MOUNT/drafts/program"
  (cd "$MOUNT/drafts" && exec sleep 60) 3>&- {PAUSE}>&- &
  folder=$!
  # shellcheck disable=SC2217 # only the open file matters
  sleep 60 <"$MOUNT/README" 3>&- {PAUSE}>&- &
  file=$!
  "$MOUNT/drafts/program" 60 3>&- {PAUSE}>&- &
  program=$!
  wait_until 10 grep -q program "/proc/$program/comm"
  wait_until 10 grep -q sleep "/proc/$folder/comm"
  wait_until 10 grep -q sleep "/proc/$file/comm"
  run -1 timeout 30 "$INBOXFS" umount "$MOUNT"
  contains "$output" "process $folder (sleep) has it as its working folder, $MOUNT/drafts"
  contains "$output" "process $file (sleep) has it as an open file, $MOUNT/README"
  contains "$output" "process $program (program) has it as its program, $MOUNT/drafts/program"
  present "$MOUNT/README"
  kill "$folder" "$file" "$program"
  wait_until 10 process_is_gone "$program"
  ln -s "$MOUNT" "$DIR/link"
  cd "$MOUNT"
  run -1 "$INBOXFS" umount .
  contains "$output" "has it as its working folder, $MOUNT"
  cd "$DIR"
  # A descriptor that the caller left open does not keep the mount busy.
  run -0 timeout 30 bash -c 'exec "$1" umount ./link 7<"$2"' bash "$INBOXFS" "$MOUNT/README"
  wait_until 20 has_no_daemon
  run -1 "$INBOXFS" umount "$MOUNT"
  contains "$output" "no inboxfs is mounted there"
  run -2 "$INBOXFS" umount
  start_background "local:$DIR/box" "$MOUNT"
  daemons | xargs kill -KILL
  wait_until 10 has_no_daemon
  run -0 timeout 30 "$INBOXFS" umount "$MOUNT/"
  run ! mountpoint -q "$MOUNT"
}

@test "umount follows a link before .., even below a working folder that a shell names by a link" {
  mkdir -p "$DIR/other/folder"
  ln -s "$DIR/other/folder" "$DIR/link"
  mkdir "$DIR/other/mail"
  start_background "local:$DIR/box" "$MOUNT"
  "$INBOXFS" "local:$DIR/box2" "$DIR/other/mail" 3>&-
  cd "$DIR/link"
  run -0 timeout 30 "$INBOXFS" umount ../mail
  run ! mountpoint -q "$DIR/other/mail"
  mountpoint -q "$MOUNT"
  run -0 timeout 30 "$INBOXFS" umount "$DIR/link/../../mail"
  run ! mountpoint -q "$MOUNT"
  wait_until 20 has_no_daemon
  wait_until 20 has_no_daemon "$DIR/other/mail"
}

@test "umount finds a mount that does not answer" {
  start_background "local:$DIR/box" "$MOUNT"
  daemons | xargs kill -STOP
  run timeout 10 "$INBOXFS" umount "$MOUNT/"
  daemons | xargs -r kill -CONT || true # the daemon, which goes on first, may have ended its helper
  [ "$status" -ne 124 ]
  run ! grep "no inboxfs is mounted" <<<"$output"
}

@test "SIGTERM, SIGINT and SIGHUP unmount, and end the daemon with status 0" {
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

@test "fusermount3 -u fails while a file is open, and the mount still works" {
  start_service
  start_mount
  exec 7<"$MOUNT/README"
  run ! fusermount3 -u "$MOUNT"
  exec 7<&-
  grep -q . "$MOUNT/README"
}

@test "SIGTERM ends the daemon while files are open" {
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

@test "-d keeps the daemon in the foreground until it is unmounted, and logs requests" {
  start_service
  start_mount -d
  ls "$MOUNT" >/dev/null
  [ -d "/proc/$MOUNT_PID" ]
  stop_mount
  [ "$(wc -l <"$MOUNT_LOG")" -gt 5 ]
}

@test "-s (a single thread) is refused with the reason" {
  refuses 2 "hold up all others" -s "local:$DIR/box" "$MOUNT"
}

# ---------------------------------------------------------------- service managers

# Writes each datagram that a service manager receives to $DIR/heard, as a line.
listen_as_manager() # SOCKET
{
  python3 - "$1" "$DIR/heard" 3>&- {PAUSE}>&- <<'END' &
import socket, sys
listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
listener.bind(sys.argv[1].replace("@", "\0", 1) if sys.argv[1].startswith("@") else sys.argv[1])
with open(sys.argv[2], "w", buffering=1) as heard:
    while (message := listener.recv(4096).decode()) != "END":
        heard.write(message.replace("\n", " ") + "\n")
END
  MANAGER_PID=$!
  wait_until 10 test -e "$DIR/heard"
}

@test "the daemon notifies a service manager when the mount answers and when it ends" {
  local socket
  start_service
  for socket in "$DIR/notify" "@inboxfs-$$-$RANDOM"; do
    listen_as_manager "$socket"
    NOTIFY_SOCKET=$socket start_mount
    wait_until 10 grep -q STATUS "$DIR/heard"
    equal "$(<"$DIR/heard")" "READY=1 STATUS=$SERVICE_URL is mounted on $MOUNT"
    stop_mount
    wait_until 10 grep -qx STOPPING=1 "$DIR/heard"
    equal "$(wc -l <"$DIR/heard")" 2
    kill "$MANAGER_PID"
    wait "$MANAGER_PID" || true
    rm "$DIR/heard"
  done
}

@test "a line end in the mount point's name does not begin a line to the service manager" {
  listen_as_manager "$DIR/notify"
  mkdir "$DIR"/$'two\nSTOPPING=1'
  NOTIFY_SOCKET=$DIR/notify "$INBOXFS" -f "local:$DIR/box" "$DIR"/$'two\nSTOPPING=1' >>"$MOUNT_LOG" 2>&1 3>&- {PAUSE}>&- &
  MOUNT_PID=$!
  wait_until 30 grep -q STATUS "$DIR/heard"
  contains "$(<"$DIR/heard")" "$DIR/two?STOPPING=1"
  kill_mount TERM
  kill "$MANAGER_PID"
  wait "$MANAGER_PID" || true
}

@test "the daemon notifies no service manager if the mount fails or is in the background" {
  listen_as_manager "$DIR/notify"
  NOTIFY_SOCKET=$DIR/notify run -1 timeout 30 "$INBOXFS" -f "local:$DIR/box" "$DIR/nowhere"
  NOTIFY_SOCKET=$DIR/notify run -1 timeout 30 "$INBOXFS" -f nonsense: "$MOUNT"
  NOTIFY_SOCKET=$DIR/notify start_background "local:$DIR/box" "$MOUNT"
  stop_background
  python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"END", sys.argv[1])' "$DIR/notify"
  wait "$MANAGER_PID"
  run ! grep -q . "$DIR/heard"
}

@test "the daemon switches the service manager's watchdog off with a warning" {
  start_service
  listen_as_manager "$DIR/notify"
  mkdir -p "$MOUNT"
  NOTIFY_SOCKET=$DIR/notify WATCHDOG_USEC=1000000 WATCHDOG_PID=1 "$INBOXFS" -f --state-dir="$STATE" \
    --api-key-command="env >'$DIR/environment'; cat '$KEY_FILE'" "$SERVICE_URL" "$MOUNT" >>"$MOUNT_LOG" 2>&1 3>&- {PAUSE}>&- &
  MOUNT_PID=$!
  wait_until 30 mount_answers
  contains "$(<"$MOUNT_LOG")" "WatchdogSec= is switched off"
  equal "$(head -n 1 "$DIR/heard")" WATCHDOG_USEC=0
  # The key command cannot notify the manager in the daemon's name.
  run ! grep NOTIFY_SOCKET "$DIR/environment"
  kill "$MANAGER_PID"
  wait "$MANAGER_PID" || true
}

@test "the daemon mounts with a warning if the service manager cannot be reached" {
  local socket
  start_service
  for socket in "$DIR/nobody" relative "/$(printf 'a%.0s' {1..200})"; do
    NOTIFY_SOCKET=$socket start_mount_without_waiting
    wait_until 30 mount_answers
    wait_until 10 grep -qF "cannot reach the service manager on $socket" "$MOUNT_LOG" # the mount answers before
    kill_mount TERM
  done
}

# ---------------------------------------------------------------- mount points and state

@test "a mount point that is missing or not a directory is refused" {
  refuses '[12]' "No such file" "local:$DIR/box" "$DIR/nowhere"
  : >"$DIR/file"
  refuses '[12]' "Not a directory" "local:$DIR/box" "$DIR/file"
}

@test "a mount point that already has an inboxfs is refused" {
  start_background "local:$DIR/box" "$MOUNT"
  run -1 timeout 30 "$INBOXFS" "local:$DIR/box2" "$MOUNT"
  contains "$output" "mounted"
  present "$MOUNT/README"
}

@test "state, data or a webhook socket below the mount point are refused before anything is made" {
  ln -s "$MOUNT" "$DIR/link"
  refuses 1 "data directory .*/mail/box is below the mount point $MOUNT" "local:$MOUNT/box" "$MOUNT"
  refuses 1 "data directory .*/link is below the mount point" "local:$DIR/link" "$MOUNT"
  refuses 1 "state directory .*/new/state is below the mount point" --state-dir="$DIR/link/new/state" "local:$DIR/box" "$MOUNT"
  XDG_STATE_HOME=$MOUNT refuses 1 "XDG_STATE_HOME, which is $MOUNT: set that" "local:$DIR/box" "$MOUNT"
  (umask 077 && echo secret >"$DIR/secret")
  refuses 1 "nobody could reach unix:$MOUNT/hooks" --webhook-listen="unix:$MOUNT/hooks" --webhook-secret-file="$DIR/secret" \
    "local:$DIR/box" "$MOUNT"
  equal "$(ls -A "$MOUNT")" ""
  # A directory whose name only begins with the mount point's is allowed.
  start_background --state-dir="$MOUNT-state" "local:$MOUNT-box" "$MOUNT"
}

@test "a relative mount point works" {
  cd "$DIR"
  "$INBOXFS" "local:$DIR/box" mail 3>&-
  mountpoint -q "$MOUNT"
  cd /
  fusermount3 -u "$MOUNT"
  wait_until 20 has_no_daemon "local:$DIR/box mail"
}

@test "a relative path in a deleted working folder is refused" {
  mkdir "$DIR/gone" "$DIR/gone/there"
  cd "$DIR/gone/there"
  rm -r "$DIR/gone"
  refuses '[12]' "tmp" "local:$DIR/box" tmp
  refuses '[12]' "cannot find bundle.pem, which is relative: No such file" --ca-file=bundle.pem https://x.example "$MOUNT"
  (umask 077 && echo secret >"$DIR/secret")
  refuses '[12]' "cannot find unix:hooks, which is relative" --webhook-listen=unix:hooks --webhook-secret-file="$DIR/secret" \
    "local:$DIR/box" "$MOUNT"
}

@test "a second daemon with the same state directory is refused" {
  start_service
  start_mount
  mkdir "$DIR/second"
  run -1 timeout 30 "$INBOXFS" --api-key-file="$KEY_FILE" --state-dir="$STATE" "$SERVICE_URL" "$DIR/second"
  contains "$output" "process $MOUNT_PID, uses the state directory $STATE, mounted on $MOUNT: inboxfs umount $MOUNT ends it"
  contains "$output" 'its own --state-dir'
  run ! mountpoint -q "$DIR/second"
  present "$MOUNT/README"
}

leave_dead_mount() {
  kill -KILL "$MOUNT_PID"
  wait_until 10 process_is_gone "$MOUNT_PID"
  wait "$MOUNT_PID" || true
  MOUNT_PID=
  run stat "$MOUNT"
  contains "$output" "Transport endpoint is not connected"
}

@test "a dead mount that another process removes at the same time does not prevent a start" {
  start_service
  start_mount
  leave_dead_mount
  mkdir "$DIR/bin"
  printf '#!/bin/sh\n/usr/bin/fusermount3 "$@"\nexit 1\n' >"$DIR/bin/fusermount3"
  chmod +x "$DIR/bin/fusermount3"
  PATH=$DIR/bin:$PATH start_mount
  present "$MOUNT/README"
}

@test "a dead mount is removed and replaced" {
  start_service
  start_mount
  leave_dead_mount
  start_mount
  present "$MOUNT/README"
  equal "$(grep -cF " $MOUNT " /proc/self/mounts)" 1
}

@test "a dead mount is replaced by one with a slash at its end, which check and a second daemon know" {
  # Nobody looks at this mount, so the kernel does not know the attributes of its root.
  "$INBOXFS" "local:$DIR/box" "$MOUNT" 3>&-
  daemons | xargs kill -KILL
  wait_until 10 has_no_daemon
  run ! test -e "$MOUNT/."
  start_background "local:$DIR/box" "$MOUNT/"
  mkdir "$DIR/second"
  run -1 timeout 30 "$INBOXFS" "local:$DIR/box" "$DIR/second"
  contains "$output" "mounted on $MOUNT: inboxfs umount $MOUNT ends it"
  run "$INBOXFS" check "local:$DIR/box"
  contains "$output" "the mount of process"
}

@test "a mount while the service is offline shows cached mail, and logs that" {
  start_service
  create_inbox "$ALICE"
  create_inbox "$BOB"
  start_mount
  send_from_elsewhere "$ALICE" "$BOB" "cached"
  refresh
  stop_mount
  stop_service
  start_background --api-key-file="$KEY_FILE" --state-dir="$STATE" "$SERVICE_URL" "$MOUNT"
  contains "$(cat "$DIR/said")" "does not answer, showing what is known from before"
  mounted "$BOB" cached
  holds "$MOUNT/status.json" '.online == false and (.error | length > 0)'
}

@test "a first mount while the service is offline is empty until the service answers" {
  start_service
  create_inbox "$ALICE"
  stop_service
  start_mount
  contains "$(cat "$MOUNT_LOG")" "nothing is known from before"
  equal "$(ls "$MOUNT/inboxes")" ""
  start_service
  refresh
  present "$MOUNT/inboxes/$ALICE"
}

@test "another account's state is refused without --adopt-state" {
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
  present "$MOUNT/inboxes/$BOB"
}

@test "a state directory that another user owns or can write is refused" {
  start_service
  mkdir -m 0755 "$STATE"
  chmod g+w "$STATE"
  refuses 1 "the state directory .*state: others can write to it: chmod go-w" --api-key-file="$KEY_FILE" --state-dir="$STATE" "$SERVICE_URL" "$MOUNT"
  chmod 0757 "$STATE"
  refuses 1 "the state directory .*state: others can write to it" --api-key-file="$KEY_FILE" --state-dir="$STATE" "$SERVICE_URL" "$MOUNT"
  equal "$(find "$STATE" -mindepth 1)" ""
  chmod 0755 "$STATE"
  start_mount
  stop_mount
  [ "$(id -u)" = 0 ] || skip "only root can give a directory away"
  chown nobody "$STATE"
  refuses 1 "belongs to another user" --api-key-file="$KEY_FILE" --state-dir="$STATE" "$SERVICE_URL" "$MOUNT"
}

@test "a data directory that another user owns or can write is refused" {
  mkdir "$DIR/box"
  chmod g+w "$DIR/box"
  refuses 1 "the data directory .*box: others can write to it: chmod go-w" --state-dir="$STATE" "local:$DIR/box" "$MOUNT"
  run -1 "$INBOXD" --listen=127.0.0.1:0 --data="$DIR/box"
  contains "$output" 'box: others can write to it'
  equal "$(find "$DIR/box" -mindepth 1)" ""
  [ "$(id -u)" = 0 ] || skip "only root can give a directory away"
  chmod g-w "$DIR/box"
  chown nobody "$DIR/box"
  refuses 1 "belongs to another user" --state-dir="$STATE" "local:$DIR/box" "$MOUNT"
}

@test "a symbolic link to the state directory is followed, and one within it is refused" {
  local name
  start_service
  mkdir -m 0700 "$DIR/real" "$DIR/elsewhere"
  ln -s "$DIR/real" "$STATE"
  start_mount
  stop_mount
  for name in cache drafts spool; do
    mv "$DIR/real/$name" "$DIR/real/$name.before"
    ln -s "$DIR/elsewhere" "$DIR/real/$name"
    refuses 1 "symbolic link" --api-key-file="$KEY_FILE" --state-dir="$STATE" "$SERVICE_URL" "$MOUNT"
    rm "$DIR/real/$name"
    mv "$DIR/real/$name.before" "$DIR/real/$name"
  done
  rm "$DIR/real/lock"
  ln -s "$DIR/elsewhere/lock" "$DIR/real/lock"
  refuses 1 "symbolic link" --api-key-file="$KEY_FILE" --state-dir="$STATE" "$SERVICE_URL" "$MOUNT"
  equal "$(find "$DIR/elsewhere" -mindepth 1)" ""
  rm "$DIR/real/lock"
  start_mount
}

@test "each service and key has its own state directory, and a new key's mount names those of others" {
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
  # Only the first mount with a new key logs where the queue of the old key is.
  contains "$(cat "$DIR/said")" "queue and drafts of another key of the same service stay in $XDG_STATE_HOME/inboxfs/127.0.0.1"
  stop_background
  start_background --api-key-file="$DIR/key2" "$SERVICE_URL" "$MOUNT"
  equal "$(cat "$DIR/said")" ""
}

@test "only its owner can access the state" {
  start_service
  start_mount
  equal "$(stat -c %a "$STATE")" 700
  equal "$(find "$STATE" -perm /077 ! -type l | head)" ""
}

@test "the daemon leaves no core file" {
  start_service
  start_mount
  local limit
  limit=$(awk '/Max core file size/ { print $5 }' "/proc/$MOUNT_PID/limits")
  [ "$limit" -le 1 ]
}
