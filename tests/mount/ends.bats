#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# inboxfs is ended in every orderly way, at bad moments: that takes a few seconds at most, loses nothing that was handed
# in and sends nothing twice, and the next start continues by itself.

load support
load scripted

CAROL=carol@$DOMAIN
WAYS="TERM HUP INT unmount lazy"
END_S=8
SMALL=$DIR/small

setup() {
  start_scripted_service
}

teardown() {
  rm -f "$SMALL/filler"
  local status=0
  [ -z "$MOUNT_PID" ] || kill -CONT "$MOUNT_PID" || true
  unmount_all
  stop_all || status=1
  [ "$(findmnt -no FSTYPE "$MOUNT")" != tmpfs ] || umount -l "$MOUNT"
  ! mountpoint -q "$SMALL" || umount "$SMALL" || umount -l "$SMALL"
  return $status
}

send() { # NAME [TO]
  message "${2:-$BOB}" "$1" >"$MOUNT/drafts/$1"
  mv "$MOUNT/drafts/$1" "$MOUNT/outbox/$1"
}

# Ends it this way, in time, with status 0, and nothing mounted afterwards.
end_by() { # WAY
  local pid=$MOUNT_PID
  case $1 in
  unmount) wait_until 3 fusermount3 -u "$MOUNT" ;; # a watcher may just be told of something
  lazy) fusermount3 -uz "$MOUNT" ;;
  *) kill "-$1" "$pid" ;;
  esac
  wait_until "$END_S" process_is_gone "$pid" || fail "$1 did not end it"
  MOUNT_PID=
  wait "$pid" || fail "$1: ended with $?"
  run ! mountpoint -q "$MOUNT"
}

polled_since() { # TIME
  server_requests email | jq -e --argjson since "$1" 'any(.[]; .time > $since)'
}

wait_settled() {
  echo "retry all" >"$MOUNT/ctl"
  wait_until 30 bash -c '[ -z "$(ls "$1")" ]' - "$MOUNT/outbox"
}

# Waits for the end of the daemon, in time and with status 0.
await_end() {
  wait_until "$END_S" process_is_gone "$MOUNT_PID"
  wait "$MOUNT_PID"
  MOUNT_PID=
}

goes_out_once() { # NAME
  start_mount
  wait_settled
  wait_sent "$1"
  is_sent_times "$1" 1
}

# ---------------------------------------------------------------- what waits

@test "messages that wait for the service survive the end, and are sent later" {
  local way
  for way in $WAYS; do
    start_mount
    stop_service
    send "queued-$way"
    wait_waiting
    end_by "$way"
    start_mount
    present "$MOUNT/outbox/queued-$way"
    start_scripted_service
    wait_until 30 is_sent_times "queued-$way" 1
    wait_sent "queued-$way"
    end_by "$way"
  done
}

@test "sends and uploads that hang do not delay the end, and none is requested twice" {
  local way name
  for way in $WAYS; do
    start_mount
    server_answers send '"stall"'
    server_answers upload '"stall"'
    send "one-$way"
    send "two-$way" "$CAROL"
    echo "$way" >"$MOUNT/attachments/$way.txt"
    wait_until 10 is_sent_times "one-$way" 1
    wait_until 10 is_sent_times "two-$way" 1
    end_by "$way"
    server_answers send '"ok"'
    server_answers upload '"ok"'
    start_mount
    wait_settled
    for name in "one-$way" "two-$way"; do
      present "$MOUNT/failed/$name"
      holds "$MOUNT/failed/$name.receipt.json" '.state == "unknown outcome"'
      is_sent_times "$name" 1
    done
    # An upload that came twice does no harm.
    wait_until 20 bash -c '[ "$(jq -r .state "$1")" = uploaded ]' - "$MOUNT/attachments/$way.txt.receipt.json"
    end_by "$way"
  done
}

@test "the end waits for a send that is answered soon, and the message is in sent/" {
  local way sends=0
  for way in $WAYS; do
    start_mount
    server_answers send '"ok"'
    control '{"delay_ms": 500}'
    send "soon-$way"
    wait_until 10 server_saw send $((sends += 1))
    end_by "$way"
    control '{"delay_ms": 0}'
    start_mount
    present "$MOUNT/sent/soon-$way"
    is_sent_times "soon-$way" 1
    end_by "$way"
  done
}

@test "a poll and a mkdir that hang do not delay the end" {
  local way
  for way in TERM HUP lazy; do
    start_mount --poll-interval=1
    local since=$EPOCHREALTIME making
    server_answers email '"stall-before"'
    server_answers inbox '"stall-before"'
    server_answers upsert '"stall-before"'
    wait_until 10 polled_since "$since"
    syscall mkdir "$MOUNT/inboxes/$way@$DOMAIN" >"$DIR/mkdir" 3>&- &
    making=$!
    wait_until 5 bash -c 'grep -q "S\|D" /proc/$1/stat' - "$making"
    end_by "$way"
    wait "$making" || true
    server_answers email '"ok"'
    server_answers inbox '{"status": 404}'
    server_answers upsert '"ok"'
  done
}

# ---------------------------------------------------------------- what is being written

@test "a signal interrupts a file that is being written: its bytes are kept, and it is never sent" {
  local way
  for way in TERM HUP INT; do
    start_mount
    exec 7>"$MOUNT/outbox/half-$way"
    message "$BOB" "half-$way" >&7
    end_by "$way"
    exec 7>&- || true
    start_mount
    wait_failed "half-$way"
    holds "$MOUNT/failed/half-$way.receipt.json" '.state == "interrupted"'
    cmp "$MOUNT/failed/half-$way" <(message "$BOB" "half-$way")
    is_sent_times "half-$way" 0
    end_by unmount
  done
}

@test "after fusermount3 -uz a writer can finish its file, which is then sent" {
  start_mount
  exec 7>"$MOUNT/outbox/last"
  message "$BOB" "last" "first line" >&7
  fusermount3 -uz "$MOUNT"
  run ! mountpoint -q "$MOUNT"
  echo "second line" >&7
  run ! process_is_gone "$MOUNT_PID"
  exec 7>&-
  await_end
  goes_out_once last
  equal "$(tail -n 1 "$MOUNT/sent/last")" "second line"
}

# Writes a message, unmounts, closes it, stops the daemon, and only then ends the last use of the file: a descriptor
# under way in a socket, whose end the kernel does not ask about.
leave_last_use_to_stopped_daemon() { # NAME
  message "$BOB" "$1" | python3 -c '
import os, signal, socket, subprocess, sys, time
mountpoint, name, pid = sys.argv[1], sys.argv[2], int(sys.argv[3])
file = os.open(f"{mountpoint}/outbox/{name}", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
os.write(file, sys.stdin.buffer.read())
subprocess.run(["fusermount3", "-uz", mountpoint], check=True)
ends = socket.socketpair()
socket.send_fds(ends[0], [b"x"], [file])
os.close(file)
os.kill(pid, signal.SIGSTOP)
deadline = time.monotonic() + 20
while any(open(f"/proc/{pid}/task/{task}/stat").read().split()[2] != "T" for task in os.listdir(f"/proc/{pid}/task")):
    assert time.monotonic() < deadline
for end in ends:
    end.close()
' "$MOUNT" "$1" "$MOUNT_PID"
}

# The kernel gives the lowest number that is free.
mount_until_taken() { # DEVICE
  local i
  for i in {1..100}; do
    mkdir "$DIR/mounts/$i"
    mount -t tmpfs inboxfs-test "$DIR/mounts/$i"
    ! cut -d' ' -f3 /proc/self/mountinfo | grep -qx "$1" || return 0
  done
  fail "nobody has the number $1"
}

unmount_all() {
  local path
  for path in "$DIR"/mounts/*; do
    ! mountpoint -q "$path" || umount "$path"
  done
}

# Writes messages whose last uses end while the daemon stands still, so that the kernel has something to tell of each.
leave_last_uses_to_stopped_daemon() { # NAME...
  python3 -c '
import os, signal, socket, sys, time
folder, pid, sender, names = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4:]
files = []
for name in names:
    files.append(os.open(f"{folder}/{name}", os.O_WRONLY | os.O_CREAT | os.O_EXCL))
    os.write(files[-1], f"From: {sender}\nTo: bob@x.example\nSubject: {name}\n\nThe text.\n".encode())
ends = socket.socketpair()
socket.send_fds(ends[0], [b"x"], files)
for file in files:
    os.close(file)
os.kill(pid, signal.SIGSTOP)
deadline = time.monotonic() + 20
while any(open(f"/proc/{pid}/task/{task}/stat").read().split()[2] != "T" for task in os.listdir(f"/proc/{pid}/task")):
    assert time.monotonic() < deadline
for end in ends:
    end.close()
' "$MOUNT/outbox" "$MOUNT_PID" "$ALICE" "$@"
}

@test "a signal right after many closes loses none: all are sent" {
  start_mount
  local names=(closed-{1..200})
  leave_last_uses_to_stopped_daemon "${names[@]}"
  kill -TERM "$MOUNT_PID"
  kill -CONT "$MOUNT_PID"
  await_end
  start_mount
  wait_settled
  equal "$(ls "$MOUNT/failed")" ""
  equal "$(find "$MOUNT/sent" -name 'closed-*[0-9]' | wc -l)" ${#names[@]}
}

@test "after fusermount3 -uz, files are sent although another mount got the same device number" {
  [ "$(id -u)" -eq 0 ] || skip "needs root"
  start_mount
  local device
  device=$(mountpoint -d "$MOUNT")
  leave_last_use_to_stopped_daemon last
  mkdir "$DIR/mounts"
  mount_until_taken "$device"
  kill -CONT "$MOUNT_PID"
  await_end
  unmount_all
  goes_out_once last
}

@test "umount -f interrupts an open file, although a duplicate of it was closed" {
  [ "$(id -u)" -eq 0 ] || skip "needs root"
  start_mount
  exec 7>"$MOUNT/outbox/cut"
  message "$BOB" "cut" >&7
  # It is in use, and stays in the list of mounts until the daemon has cleared it away.
  umount -f "$MOUNT" 2>"$DIR/umount" || true
  await_end
  exec 7>&- || true
  run ! mountpoint -q "$MOUNT"
  start_mount
  wait_failed cut
  holds "$MOUNT/failed/cut.receipt.json" '.state == "interrupted"'
  is_sent_times cut 0
}

@test "a signal after fusermount3 -uz ends the daemon though files are open; a start meanwhile is refused or waits" {
  start_mount
  exec 7>"$MOUNT/outbox/open"
  message "$BOB" "open" >&7
  fusermount3 -uz "$MOUNT"
  run timeout 30 "$INBOXFS" -f --api-key-file="$KEY_FILE" --state-dir="$STATE" "$SERVICE_URL" "$MOUNT"
  [ "$status" -ne 0 ]
  contains "$output" "another inboxfs, process $MOUNT_PID, uses"
  contains "$output" "its mount on $MOUNT was taken from sight, and is still in use"
  kill -TERM "$MOUNT_PID"
  await_end
  exec 7>&- || true
  start_mount
  wait_failed open
  is_sent_times open 0
}

@test "a signal after fusermount3 -uz does not touch a newer mount at the same place" {
  [ "$(id -u)" -eq 0 ] || skip "needs root"
  start_mount
  exec 7>"$MOUNT/outbox/open"
  message "$BOB" "open" >&7
  fusermount3 -uz "$MOUNT"
  mount -t tmpfs inboxfs-test "$MOUNT"
  touch "$MOUNT/another's"
  kill -TERM "$MOUNT_PID"
  await_end
  present "$MOUNT/another's"
  umount "$MOUNT"
  exec 7>&- || true
}

@test "files open for reading and a shell inside do not delay the end after a signal" {
  start_mount
  send seen
  wait_sent seen
  cd "$MOUNT/sent"
  exec 7<seen 8<"$MOUNT/events"
  end_by TERM
  exec 7<&- 8<&-
  cd /
}

# ---------------------------------------------------------------- more of it

@test "a reader that waits for the next event gets the end of the file" {
  local way reader
  for way in TERM lazy; do
    start_mount
    head -n1 "$MOUNT/events" >"$DIR/next" 2>&1 3>&- &
    reader=$!
    wait_until 10 eval 'readlink /proc/'$reader'/fd/* | grep -qx "$MOUNT/events"'
    wait_until 10 grep -q "^0 " "/proc/$reader/syscall" # read(2)
    [ "$way" != lazy ] || fusermount3 -uz "$MOUNT"
    kill -TERM "$MOUNT_PID"
    wait_until "$END_S" process_is_gone "$reader"
    wait "$reader"
    equal "$(cat "$DIR/next")" ""
    wait_until "$END_S" process_is_gone "$MOUNT_PID"
    wait "$MOUNT_PID"
    MOUNT_PID=
  done
}

@test "a full disk does not delay the end, and nothing is lost or doubled" {
  [ "$(id -u)" -eq 0 ] || skip "needs root"
  mkdir "$SMALL"
  mount -t tmpfs -o size=4m inboxfs-test "$SMALL"
  STATE=$SMALL/state
  local way
  for way in $WAYS; do
    start_mount
    control '{"delay_ms": 1000}'
    send "flying-$way"
    wait_until 10 server_saw send 1
    ! cat /dev/zero >"$SMALL/filler" 2>/dev/null
    end_by "$way"
    rm "$SMALL/filler"
    control '{"delay_ms": 0}'
    start_mount
    wait_settled
    # The answer could not be recorded: the outcome is unknown to the next start, and it is not sent again.
    is_sent_times "flying-$way" 1
    [ -e "$MOUNT/failed/flying-$way" ] || present "$MOUNT/sent/flying-$way"
    end_by "$way"
    curl -sS --fail -X POST "$SERVICE_URL/_clear"
  done
}

@test "repeated signals during the end change nothing" {
  start_mount
  server_answers send '"stall"'
  send stalled
  wait_until 10 is_sent_times stalled 1
  local pid=$MOUNT_PID
  while ! process_is_gone "$pid"; do
    kill -TERM "$pid" 2>/dev/null || break
    kill -HUP "$pid" 2>/dev/null || break
  done
  MOUNT_PID=
  wait "$pid"
  run ! mountpoint -q "$MOUNT"
  start_mount
  present "$MOUNT/failed/stalled"
  is_sent_times stalled 1
}

@test "the end is logged once at most, in one line" {
  start_mount
  send quiet
  wait_sent quiet
  : >"$MOUNT_LOG"
  end_by TERM
  [ "$(wc -l <"$MOUNT_LOG")" -le 1 ]
}

@test "a message of unknown outcome is reported once, at the next start" {
  start_mount
  server_answers send '"stall"'
  send once
  wait_until 10 is_sent_times once 1
  kill_mount KILL
  start_mount
  wait_failed once
  equal "$(events '.event == "failed" and .path == "failed/once"' | wc -l)" 1
}

@test "ten quick restarts while mail is on its way send each message once" {
  local i
  control '{"idempotency": true}'
  for i in {1..10}; do
    start_mount --trust-idempotency
    send "again$i"
    end_by TERM
  done
  start_mount --trust-idempotency
  wait_settled
  for i in {1..10}; do
    present "$MOUNT/sent/again$i"
    is_sent_times "again$i" 1
  done
}
