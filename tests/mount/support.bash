# shellcheck shell=bash
# SPDX-License-Identifier: MIT
#
# Shared by the mount tests: a service and a mount for each test, waits with a deadline, and queries of the service.
# No function sleeps for a fixed time.
#
# shellcheck disable=SC2034 # the tests use it
# shellcheck disable=SC2119,SC2120 # functions whose arguments may be left out

bats_require_minimum_version 1.5.0

# The tests compare messages of programs, and search for characters by code point.
export LC_ALL=C.UTF-8

# Certificate authorities of the machine must not affect the tests.
unset CURL_CA_BUNDLE SSL_CERT_FILE SSL_CERT_DIR

REPOSITORY=${BATS_TEST_DIRNAME%/tests/*}
BUILD=${BUILD:-$REPOSITORY/build}
INBOXFS=$BUILD/inboxfs
INBOXD=$BUILD/inboxd
# Programs of `make test-deps` come first: the shims of a version manager for python take ten times as long to start.
PATH=$BUILD/tests/tools:/usr/bin:$PATH

DOMAIN=inbox.localhost
ALICE=alice@$DOMAIN
BOB=bob@$DOMAIN

# Arguments by which `openssl req` makes a key. An RSA key would take thirty times as long.
NEW_KEY=(-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes)

# bats makes this folder for each test, and removes it afterwards.
DIR=$BATS_TEST_TMPDIR
MOUNT=$DIR/mail
STATE=$DIR/state
SERVICE=$DIR/service
KEY_FILE=$DIR/key
MOUNT_LOG=$DIR/inboxfs.log
MOUNT_PID=
SERVICE_PID=
SERVICE_URL=
SERVICE_PORT=0

# To report the line of a failure, bats runs a DEBUG trap before every command, which takes a third of the check's time.
# Bash 5 knows the line in the ERR trap, so the first function removes the DEBUG trap, and the second asks bash.
bats_debug_trap()
{
    trap - DEBUG
}

bats_error_trap()
{
    bats_check_status_from_trap
    bats_capture_stack_trace
    BATS_DEBUG_LAST_STACK_TRACE_IS_VALID=1
}

# bats asks date when each test begins, which takes two programs.
get_mills_since_epoch()
{
    echo $((${EPOCHREALTIME/./} / 1000))
}

# A pipe that is always empty: reading it with a time-out is a pause that starts no program. Programs that run for as
# long as the test do not inherit it.
exec {PAUSE}<> <(:)

# jq takes 26 ms to start, gojq 2 ms, and the check calls it thousands of times. gojq sorts the keys of objects: a test
# that depends on their order calls `command jq`.
jq()
{
    gojq "$@"
}

# Skips the test if one of the programs is missing. `make test-deps` installs them.
needs() # PROGRAM...
{
    local program
    for program; do
        type -P "$program" >/dev/null || skip "$program is not installed"
    done
}

# ---------------------------------------------------------------- assertions

fail() # TEXT...
{
    printf '%s\n' "$*" >&2
    return 1
}

equal() # ACTUAL EXPECTED
{
    [ "$1" = "$2" ] || fail "is: $1" $'\n'"should be: $2"
}

contains() # TEXT PART
{
    [[ $1 == *"$2"* ]] || fail "is: $1" $'\n'"should contain: $2"
}

# The mount answers readdir and lookup from different code, so the tests for a file check both.
is_listed() # PATH
{
    local listed=("${1%/*}"/* "${1%/*}"/.[!.]*) IFS=$'\n'
    [[ $'\n'"${listed[*]}"$'\n' = *$'\n'"$1"$'\n'* ]]
}

answers() # PATH
{
    [ -e "$1" ] || [ -L "$1" ]
}

present() # PATH...
{
    local path
    for path; do
        answers "$path" || fail "is not there: $path" || return
        is_listed "$path" || fail "is there, but not listed: $path" || return
    done
}

missing() # PATH...
{
    local path
    for path; do
        ! answers "$path" || fail "is there: $path" || return
        ! is_listed "$path" || fail "is listed, but not there: $path" || return
    done
}

# Checks that an item has left outbox/ or attachments/ by itself: lookup finds its name for some seconds more.
unlisted() # PATH...
{
    local path
    for path; do
        ! is_listed "$path" || fail "is listed: $path" || return
    done
}

# Checks that each file has as many bytes as its attributes say. cksum counts what it reads; `wc -c <FILE` would use the
# size of fstat. Call it before the files are read: a read makes the kernel correct a wrong size.
has_true_size() # FILE...
{
    local sizes
    sizes=$(stat -c '%s %n' "$@")
    equal "$(cksum "$@" | cut -d' ' -f2-)" "$sizes"
}

# Checks the result of one system call: expect EBUSY rename FROM TO (tests/tools/syscall.c).
expect() # RESULT OPERATION OPERAND...
{
    local result
    result=$(syscall "${@:2}") || true
    [ "$result" = "$1" ] || fail "${*:2}: is $result, should be $1"
}

# Checks that jq's FILTER is true for the JSON in FILE; prints the JSON if it is not.
holds() # FILE FILTER [JQ-ARGUMENT...]
{
    jq -e "${@:3}" "$2" "$1" >/dev/null || fail "not so: $2 in:" "$(cat "$1")"
}

# ---------------------------------------------------------------- waiting

# Seconds between two looks of wait_until. They grow, because a long wait means a busy machine, which looks make busier.
PAUSES=(0.02 0.03 0.03 0.04 0.05 0.07 0.1 0.14 0.2)

# Waits until COMMAND succeeds. Under a sanitizer all programs may take PATIENCE times as long.
wait_until() # SECONDS COMMAND...
{
    local until=$((${EPOCHREALTIME/./} + $1 * ${PATIENCE:-1} * 1000000)) look=0
    shift
    until "$@" >/dev/null 2>&1; do
        if [ "${EPOCHREALTIME/./}" -ge "$until" ]; then
            fail "not in time: $*"
            return 1
        fi
        read -rt "${PAUSES[look]}" -u "$PAUSE" || true
        look=$((look + 1 < ${#PAUSES[@]} ? look + 1 : look))
    done
}

# /proc/PID/stat has the state behind the program's name, which is in parentheses and may contain any. The first thread
# may be dead while others have connections open: the 18th field behind the name is the number of threads.
process_is_gone() # PID
{
    local stat
    { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 0
    read -ra stat <<<"${stat##*) }"
    [ "${stat[0]}" = Z ] && [ "${stat[17]:-0}" -le 1 ]
}

# Checks that COMMAND succeeds within SECONDS.
within() # SECONDS COMMAND...
{
    local until=$((${EPOCHREALTIME/./} + $1 * ${PATIENCE:-1} * 1000000))
    "${@:2}" || return
    [ "${EPOCHREALTIME/./}" -le "$until" ] || fail "took longer than $1 s: ${*:2}"
}

# Checks that COMMAND does not wait for the service: such a wait for a silent service takes 10 s or more.
at_once() # COMMAND...
{
    PATIENCE=1 within 5 "$@"
}

# ---------------------------------------------------------------- the service

# Chooses a port on which the services of this test can start again. It is below the ports that the kernel gives to
# outgoing connections, which could occupy it meanwhile. Tests that run at the same time differ in their process ids.
choose_port()
{
    local first=10000 beyond
    [ "$SERVICE_PORT" = 0 ] || return 0
    read -r beyond _ </proc/sys/net/ipv4/ip_local_port_range
    [ "$beyond" -ge 11000 ] || first=1024
    [ "$beyond" -ge 3000 ] || beyond=65536 # the kernel gives nearly all ports to connections
    SERVICE_PORT=$((first + BASHPID % (beyond - first)))
    while (: <>"/dev/tcp/127.0.0.1/$SERVICE_PORT") 2>/dev/null; do
        SERVICE_PORT=$((first + (SERVICE_PORT + 1 - first) % (beyond - first)))
    done
}

# Starts inboxd with its data in $SERVICE. After stop_service it starts on the same port again.
start_service() # [OPTION...]
{
    choose_port
    : >"$DIR/inboxd.out"
    "$INBOXD" --data="$SERVICE" --listen="127.0.0.1:$SERVICE_PORT" --domain="$DOMAIN" "$@" \
        >"$DIR/inboxd.out" 2>>"$DIR/inboxd.log" 3>&- {PAUSE}>&- &
    SERVICE_PID=$!
    wait_until 20 service_listens
    (umask 077 && mapfile -n 1 <"$SERVICE/api-key" && printf %s "${MAPFILE[@]}" >"$KEY_FILE")
}

# inboxd prints its URL in its first line, which may be incomplete when this is called.
service_listens()
{
    local line
    read -r line <"$DIR/inboxd.out" && [[ $line = 'inboxd: listening on '* ]] && SERVICE_URL=${line#* on }
}

stop_service() # [SIGNAL]
{
    local pid=$SERVICE_PID
    SERVICE_PID=
    [ -n "$pid" ] || return 0
    kill -CONT "$pid" # a test may have stopped it
    kill "-${1:-TERM}" "$pid"
    wait_until 20 process_is_gone "$pid" || kill -KILL "$pid"
    wait "$pid" || [ -n "${1:-}" ] || fail "inboxd ended with $?"
}

# Makes the service accept connections and answer none, until `kill -CONT "$SERVICE_PID"`. Waits until all threads are
# stopped, for they run on until the kernel schedules the one that handles SIGSTOP.
freeze_service()
{
    kill -STOP "$SERVICE_PID"
    wait_until 20 service_is_frozen
}

service_is_frozen()
{
    ! grep -L '^State:[[:space:]]*T' "/proc/$SERVICE_PID"/task/*/status | grep -q .
}

api() # METHOD PATH [CURL-ARGUMENT...]
{
    if [ "$1" = GET ] && [ $# -eq 2 ]; then
        http GET "/api/v1$2"
    else
        curl -sS --fail-with-body -H "Authorization: Bearer $(<"$KEY_FILE")" -X "$1" "${@:3}" "$SERVICE_URL/api/v1$2"
    fi
}

# Prints the answer to a request that is JSON. Starting curl for each would take four times as long, and cat for an answer
# that is JSON half of the rest.
http() # METHOD PATH [JSON]
{
    local connection status line key is_json='' body LC_ALL=C # where characters are bytes
    read -r key <"$KEY_FILE"
    exec {connection}<>"/dev/tcp/127.0.0.1/${SERVICE_URL##*:}" || return
    printf '%s HTTP/1.0\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s' \
        "$1 $2" "$key" "${#3}" "${3:-}" >&"$connection"
    read -r _ status _ <&"$connection"
    while read -r line <&"$connection" && [ "$line" != $'\r' ]; do
        [[ $line != 'Content-Type: application/json'* ]] || is_json=1
    done
    if [ -n "$is_json" ]; then
        IFS= read -rN 100000000 -u "$connection" body || true # up to the end
        printf '%s' "$body"
    else
        cat <&"$connection"
    fi
    exec {connection}>&-
    [[ $status = 2?? ]] || fail "$1 $2: $status"
}

# Makes an inbox by a request to the service. The address must need no quoting in JSON.
upsert_inbox() # ADDRESS
{
    http POST /api/v1/inbox/upsert "{\"id\": null, \"name\": \"${1%%@*}\", \"email_address\": \"$1\"}"
}

# Does the same, and prints the inbox's id.
create_inbox() # ADDRESS
{
    upsert_inbox "$1" | jq -er .id
}

create_inboxes() # ADDRESS...
{
    local address
    for address; do
        upsert_inbox "$address" >/dev/null || return
    done
}

inbox_id() # ADDRESS
{
    api GET /inbox | jq -er --arg address "$1" '.[] | select(.email_address == $address).id'
}

# Sends a message by a request to the service, as another client would.
send_from_elsewhere() # FROM TO SUBJECT [BODY]
{
    http POST /api/v1/email/send "$(jq -n --arg from "$1" --arg to "$2" --arg subject "$3" --arg body "${4:-body}" \
        '{from_address: $from, subject: $subject, plain_text: $body, to_addresses: [{address: $to, name: null}]}')" >/dev/null
}

# Sends many messages by one call of curl: the subjects are SUBJECT 1 to SUBJECT COUNT, in this order.
send_many_from_elsewhere() # FROM TO SUBJECT COUNT
{
    jq -nr --arg url "$SERVICE_URL/api/v1/email/send" --arg key "Authorization: Bearer $(cat "$KEY_FILE")" \
        --arg from "$1" --arg to "$2" --arg subject "$3" --argjson count "$4" '
        range(1; $count + 1) | {from_address: $from, subject: "\($subject) \(.)", plain_text: "body",
            to_addresses: [{address: $to, name: null}]} |
        "url = \($url | tojson)", "header = \($key | tojson)", "header = \"Content-Type: application/json\"",
        "data = \(tojson | tojson)", "output = /dev/null", "fail", "next"' | sed '$d' |
        curl -sS --fail-early -K -
}

# Gives Bob so many copies of his last email, by the service's database: delivering them would take minutes.
copy_last_email() # COUNT
{
    sqlite3 -cmd '.timeout 30000' "$SERVICE/inbox.sqlite3" "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n LIMIT $1)
        INSERT INTO emails (id, inbox, message, is_valid, from_address, record)
        SELECT printf('%08x-copy', i), inbox, message, is_valid, from_address,
            json_set(record, '\$.id', printf('%08x-copy', i)) FROM (SELECT * FROM emails ORDER BY seq DESC LIMIT 1), n"
}

# Prints the service's records of this subject in the inbox, as a JSON array, or the result of FILTER on it.
received() # ADDRESS SUBJECT [FILTER]
{
    { api GET /inbox && api GET "/email?limit=10000&valid_only=false"; } |
        jq -ers --arg address "$1" --arg subject "$2" "(.[0][] | select(.email_address == \$address).id) as \$inbox |
            [.[1][] | select(.inbox_id == \$inbox and .subject == \$subject)] | ${3:-.}"
}

received_count() # ADDRESS SUBJECT
{
    received "$1" "$2" length
}

has_received() # ADDRESS SUBJECT [COUNT]
{
    [ "$(received_count "$1" "$2")" = "${3:-1}" ]
}

# Prints the content record of the only email of this subject in the inbox, from the service.
content() # ADDRESS SUBJECT
{
    local id
    id=$(received "$1" "$2" 'if length == 1 then .[0].id else error("\(length) arrived") end') || return
    api GET "/email/$id"
}

# ---------------------------------------------------------------- the mount

# Starts inboxfs in the foreground and waits until the mount answers. Without --poll-interval it syncs only on request.
start_mount() # [OPTION...]
{
    start_mount_without_waiting "$@"
    wait_until 30 mount_answers_or_ended
    mount_answers || fail "inboxfs ended:" "$(cat "$MOUNT_LOG")"
}

# Does the same with clocks that pass_time sets ahead (tests/torture/clock_preload.c).
start_mount_on_clock() # [OPTION...]
{
    : >"$DIR/ahead"
    # AddressSanitizer insists on being loaded first; the preloaded library allocates nothing, so the order is harmless.
    LD_PRELOAD=$BUILD/tests/clock_preload.so CLOCK_AHEAD=$DIR/ahead \
        ASAN_OPTIONS=${ASAN_OPTIONS:-}:verify_asan_link_order=0 start_mount "$@"
}

pass_time() # SECONDS
{
    truncate -s "+$1" "$DIR/ahead"
}

start_mount_without_waiting() # [OPTION...]
{
    [ -d "$MOUNT" ] || mkdir -p "$MOUNT"
    "$INBOXFS" -f --api-key-file="$KEY_FILE" --state-dir="$STATE" --poll-interval=0 "$@" \
        "$SERVICE_URL" "$MOUNT" >>"$MOUNT_LOG" 2>&1 3>&- {PAUSE}>&- &
    MOUNT_PID=$!
}

# The folder below the mount is empty.
mount_answers()
{
    [ -e "$MOUNT/status.json" ]
}

mount_answers_or_ended()
{
    mount_answers || process_is_gone "$MOUNT_PID"
}

# Mounts again so that messages wait in the queue, and none is tried. If the service were stopped instead, the mount
# would try them from time to time, and answer EBUSY meanwhile.
pause_sending()
{
    stop_mount
    start_mount --daily-limit=0
}

resume_sending()
{
    stop_mount
    start_mount
}

# Sets AMONG_OWN_MOUNTS, a prefix that runs a command in a mount namespace without the mounts of other tests. Else the
# command's copies of these mounts would keep them busy. The prefix is empty unless the user is root.
hide_other_mounts()
{
    AMONG_OWN_MOUNTS=()
    [ "$(id -u)" = 0 ] || return 0
    # shellcheck disable=SC2016 # for the inner shell
    AMONG_OWN_MOUNTS=(unshare --mount --propagation private bash -c '
        mounts=$(</proc/self/mountinfo) # whole, before it changes
        while read -r _ _ _ _ mount rest; do
            mount=$(printf "${mount//%/%%}") # a space is \040, and printf %b would read a digit behind it, too
            [[ $rest != *" - fuse.inboxfs "* || $mount = "$1"/* ]] || umount --lazy "$mount"
        done <<<"$mounts"
        shift
        exec "$@"' - "$DIR")
}

# Unmounts, and checks that the daemon exits with 0.
stop_mount()
{
    local pid=$MOUNT_PID
    MOUNT_PID=
    [ -n "$pid" ] || return 0
    # The watch helper opens a file for each new email, which keeps the mount busy: with thousands of emails for as long
    # as the machine is busy. Another test checks that no file is open right after a write to ctl.
    wait_until 30 fusermount3 -u "$MOUNT" || {
        give_up_mount "$pid"
        return 1
    }
    wait_until 30 process_is_gone "$pid" || {
        give_up_mount "$pid"
        return 1
    }
    wait "$pid" || fail "inboxfs ended with $?"
}

# Kills a daemon that does not end, and removes its mount, so that the next test starts clean.
give_up_mount() # PID
{
    kill -KILL "$1" 2>/dev/null
    wait "$1" 2>/dev/null
    umount -l "$MOUNT" 2>/dev/null || fusermount3 -uz "$MOUNT" 2>/dev/null
}

# Ends the daemon by a signal, waits for its end, and removes the dead mount.
kill_mount() # SIGNAL
{
    local pid=$MOUNT_PID
    MOUNT_PID=
    kill "-$1" "$pid"
    wait_until 30 process_is_gone "$pid"
    wait "$pid" || true
    # After SIGKILL the dead mount is left.
    if [ "$1" = KILL ]; then
        umount -l "$MOUNT" || fusermount3 -uz "$MOUNT"
    fi
}

# Makes the mount sync all mail, or that of one inbox, and waits for it.
refresh() # [ADDRESS]
{
    echo "sync${1:+ $1}" >"$MOUNT/ctl"
}

# The mount removes an email after two lists that lack it, the second at least a minute after the first.
refresh_removal()
{
    refresh
    pass_time 61
    refresh
}

# Starts a service with two inboxes, and a mount.
start_two_inboxes() # [OPTION of inboxfs...]
{
    start_service
    create_inboxes "$ALICE" "$BOB"
    start_mount "$@"
}

# The teardown of every test.
stop_all()
{
    local status=0
    # Descriptors that a failed test left open would keep the mount busy.
    exec 7>&- 8>&-
    cd /
    if [ -z "${BATS_TEST_COMPLETED:-}" ]; then
        echo "--- inboxfs:"
        tail -n 30 "$MOUNT_LOG" 2>/dev/null
        echo "--- events:"
        timeout -k 1 5 tail -n 10 "$MOUNT/events.jsonl" 2>/dev/null
        echo "--- service:"
        tail -n 10 "$DIR/inboxd.log" "$DIR/scripted.log" 2>/dev/null
    fi
    stop_mount || status=1
    stop_service || status=1
    return $status
}

# Prints the path of the only received email of this subject in the mounted inbox.
mounted() # ADDRESS SUBJECT
{
    jq -r --arg subject "$2" 'select(.subject == $subject) | input_filename' "$MOUNT/inboxes/$1"/*_*.json | grep .
}

# Prints the path of the folder of that email.
folder() # ADDRESS SUBJECT
{
    local file
    file=$(mounted "$1" "$2") && echo "${file%.json}"
}

has_folders() # ADDRESS
{
    compgen -G "$MOUNT/inboxes/$1/*_*/" >/dev/null
}

# Waits until the mount knows the capabilities of the service, soon after the first sync. From then on it sends no
# request by itself.
wait_for_probes()
{
    wait_until 20 jq -e '.capabilities | [.content, .raw, .outbound] | index("unknown") == null' "$MOUNT/status.json"
}

# Waits for the folders of emails. They appear when the mount knows that the service has contents: right after a
# complete sync, else some time after the first email.
wait_for_folders() # ADDRESS...
{
    local address
    for address; do
        wait_until 20 has_folders "$address"
    done
}

# Prints rows of the spool's database, one a line. Reads a copy, because the daemon has the database locked.
spool_rows() # SQL
{
    cp "$STATE"/spool/outbox.sqlite3* "$DIR" && sqlite3 "$DIR/outbox.sqlite3" "$1"
}

# Succeeds if the condition is true for an item: spool_has "state = 'sending'".
spool_has() # SQL-CONDITION
{
    [ -n "$(spool_rows "SELECT number FROM item WHERE $1")" ]
}

# ---------------------------------------------------------------- messages

# Prints a message from alice, as a user would type it.
message() # TO SUBJECT [BODY]
{
    printf 'From: %s\nTo: %s\nSubject: %s\n\n%s\n' "$ALICE" "$1" "$2" "${3:-Hello.}"
}

# Waits until outbox/NAME has become sent/NAME.
wait_sent() # NAME
{
    wait_until 20 test -e "$MOUNT/sent/$1.receipt.json"
}

wait_failed() # NAME
{
    wait_until 20 test -e "$MOUNT/failed/$1.receipt.json"
}

# Checks that the message NAME was sent once, with BODY.
went_out() # NAME SUBJECT [BODY]
{
    wait_sent "$1"
    unlisted "$MOUNT/outbox/$1"
    missing "$MOUNT/failed/$1"
    content "$BOB" "$2" >"$DIR/arrived"
    holds "$DIR/arrived" '.plain_text | rtrimstr("\n") == $body' --arg body "${3:-Hello.}"
}

# Prints the events so far for which jq's FILTER is true, one a line.
events() # FILTER [JQ-ARGUMENT...]
{
    jq -c "${@:2}" "select($1)" "$MOUNT/events.jsonl"
}

# Waits until each message in the outbox was tried and waits again: EAGAIN means that it is queued.
wait_waiting()
{
    expect EAGAIN fsync "$MOUNT/outbox"
}

has_event() # FILTER [JQ-ARGUMENT...]
{
    events "$@" | grep -q .
}
