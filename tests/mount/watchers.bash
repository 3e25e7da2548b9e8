# shellcheck shell=bash
# SPDX-License-Identifier: MIT
#
# Watches folders of the mount by inotify, for tests of its events.
#
# shellcheck disable=SC2154 # shared with support.bash

# Writes a line "EVENT NAME" to $WATCHED for each creation, close after writing, and move into the folders.
watch() # FOLDER...
{
  local folders=() folder
  for folder; do
    folders+=("$MOUNT/$folder")
  done
  : >"$DIR/inotifywait.log" # of an earlier watch, which says the same
  inotifywait -m -e create,close_write,moved_to --format '%e %f' "${folders[@]}" \
    >"$WATCHED" 2>"$DIR/inotifywait.log" 3>&- &
  WATCHER_PID=$!
  wait_until 10 grep -q 'Watches established' "$DIR/inotifywait.log"
}

stop_watching() {
  local pid=$WATCHER_PID
  WATCHER_PID=
  [ -n "$pid" ] || return 0
  kill "$pid" 2>/dev/null
  wait "$pid" || true
}

saw() # EVENT NAME-PATTERN [COUNT]
{
  [ "$(grep -c -- "^$1 .*$2" "$WATCHED")" = "${3:-1}" ]
}

# Prints the watch helper's id. The helper may set its process name only after the mount answers.
helper_pid() {
  wait_until 10 pgrep -P "$MOUNT_PID" -x inboxfs-watch >/dev/null
  pgrep -P "$MOUNT_PID" -x inboxfs-watch
}

# Sends COUNT messages to bob by requests to the service.
send_many() # COUNT
{
  local request=$DIR/request
  jq -n --arg from "$ALICE" --arg to "$BOB" \
    '{from_address: $from, subject: "many", plain_text: "x", to_addresses: [{address: $to, name: null}]}' >"$request"
  seq "$1" | sed "s|.*|url = \"$SERVICE_URL/api/v1/email/send\"\noutput = /dev/null|" >"$DIR/requests"
  curl -sS --fail -H "Authorization: Bearer $(cat "$KEY_FILE")" -H 'Content-Type: application/json' \
    --data-binary "@$request" --parallel --parallel-max 4 -K "$DIR/requests"
}
