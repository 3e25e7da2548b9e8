# shellcheck shell=bash
# SPDX-License-Identifier: MIT
#
# What the mount tests share: a service and a mount for each test, waiting with a deadline, and looking at what really
# arrived. Nothing here sleeps for a fixed time.
#
# shellcheck disable=SC2034 # the tests use it
# shellcheck disable=SC2119,SC2120 # functions whose arguments may be left out

bats_require_minimum_version 1.5.0

# Words are compared, and characters looked for by their number.
export LC_ALL=C.UTF-8

# A machine's own authorities are not the tests'.
unset CURL_CA_BUNDLE SSL_CERT_FILE SSL_CERT_DIR

REPOSITORY=$(cd "${BASH_SOURCE[0]%/*}/../.." && pwd)
BUILD=${BUILD:-$REPOSITORY/build}
INBOXFS=$BUILD/inboxfs
INBOXD=$BUILD/inboxd
# What `make test-deps` installed comes first: shims of a user's own python in front of it take ten times as long to start.
PATH=$BUILD/tests/tools:/usr/bin:$PATH

DOMAIN=inbox.localhost
ALICE=alice@$DOMAIN
BOB=bob@$DOMAIN

# What `openssl req` makes a key with. One of RSA takes thirty times as long to make.
NEW_KEY=(-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes)

# Each test has its own, below the folder that bats removes afterwards.
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

# Where a test failed, bats knows from a trap that notes the place before every command, for a third of the check's time.
# Bash 5 knows the place at the failure itself: the first trap takes that one away, and this one asks bash.
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

# A pipe that never has anything to read: to read it with a time-out is a pause that starts no program. What runs for as
# long as the test does not inherit it.
exec {PAUSE}<> <(:)

# jq takes 26 ms to start, gojq 2, and the check asks thousands of times. gojq sorts the keys of objects: where their
# order matters, a test says `command jq`.
jq()
{
    gojq "$@"
}

# Skips the test where one of the programs is missing that it is about. `make test-deps` installs them.
needs() # PROGRAM...
{
    local program
    for program; do
        type -P "$program" >/dev/null || skip "$program is not installed"
    done
}

# ---------------------------------------------------------------- saying what is wrong

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

# A folder's listing and the answer to a name in it come from different places: a test that asks for a file asks both.
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

# For what left outbox/ or attachments/ by itself: its name still answers for some seconds, but is not listed.
unlisted() # PATH...
{
    local path
    for path; do
        ! is_listed "$path" || fail "is listed: $path" || return
    done
}

# The file has as many bytes as its attributes say. Here, cat does the reading: `wc -c <FILE` takes the size from fstat.
# The first to read a file should ask this: the kernel corrects a size that reading has shown to be wrong.
has_true_size() # FILE
{
    local size
    size=$(stat -c %s "$1")
    equal "$1: $size bytes" "$1: $(cat "$1" | wc -c) bytes"
}

# The result of one system call: expect EBUSY rename FROM TO (see tests/tools/syscall.c).
expect() # RESULT OPERATION OPERAND...
{
    local result
    result=$(syscall "${@:2}") || true
    [ "$result" = "$1" ] || fail "${*:2}: is $result, should be $1"
}

# Holds when jq's FILTER holds for the JSON in FILE; says what is there when not.
holds() # FILE FILTER [JQ-ARGUMENT...]
{
    jq -e "${@:3}" "$2" "$1" >/dev/null || fail "not so: $2 in:" "$(cat "$1")"
}

# ---------------------------------------------------------------- waiting

# Between looks, in seconds. Where a wait takes long, the machine is busy: with others' looks, if they were as frequent.
PAUSES=(0.02 0.03 0.03 0.04 0.05 0.07 0.1 0.14 0.2)

# Under a sanitizer all programs take PATIENCE times as long.
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

# The state stands behind the program's name, which is in parentheses and may hold any. The first thread may be dead, and
# others still have connections open: their number is the 18th behind the name.
process_is_gone() # PID
{
    local stat
    { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 0
    read -ra stat <<<"${stat##*) }"
    [ "${stat[0]}" = Z ] && [ "${stat[17]:-0}" -le 1 ]
}

# COMMAND succeeds, and takes no longer than that.
within() # SECONDS COMMAND...
{
    local until=$((${EPOCHREALTIME/./} + $1 * ${PATIENCE:-1} * 1000000))
    "${@:2}" || return
    [ "${EPOCHREALTIME/./}" -le "$until" ] || fail "took longer than $1 s: ${*:2}"
}

# Does not wait for the service: who does waits for 10 s or more where it is silent, whatever else takes long.
at_once() # COMMAND...
{
    PATIENCE=1 within 5 "$@"
}

# ---------------------------------------------------------------- the service

# A port for the services of this test, which start again on it. It is below those that the kernel gives to connections:
# one of these would take it while the service is away. The tests of a check take turns.
choose_port()
{
    local first=10000 beyond turn
    [ "$SERVICE_PORT" = 0 ] || return 0
    read -r beyond _ </proc/sys/net/ipv4/ip_local_port_range
    [ "$beyond" -ge 11000 ] || first=1024
    [ "$beyond" -ge 3000 ] || beyond=65536 # there is hardly one that connections do not get
    exec {turn}>>"$BUILD/next-port"
    flock "$turn"
    read -r SERVICE_PORT <"$BUILD/next-port" || SERVICE_PORT=$((first + RANDOM % (beyond - first)))
    while (: <>"/dev/tcp/127.0.0.1/$SERVICE_PORT") 2>/dev/null; do
        SERVICE_PORT=$((first + (SERVICE_PORT + 1 - first) % (beyond - first)))
    done
    echo $((first + (SERVICE_PORT + 1 - first) % (beyond - first))) >"$BUILD/next-port"
    exec {turn}>&-
}

# Starts inboxd, its data in $SERVICE; again on the same port after stop_service.
start_service() # [OPTION...]
{
    choose_port
    : >"$DIR/inboxd.out"
    "$INBOXD" --data="$SERVICE" --listen="127.0.0.1:$SERVICE_PORT" --domain="$DOMAIN" "$@" \
        >"$DIR/inboxd.out" 2>>"$DIR/inboxd.log" 3>&- {PAUSE}>&- &
    SERVICE_PID=$!
    wait_until 20 service_listens
    (umask 077 && cp "$SERVICE/api-key" "$KEY_FILE")
}

# Its first line says where, so it is read when it is whole.
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

# It takes connections, and does nothing, until `kill -CONT "$SERVICE_PID"`. SIGSTOP alone lets it answer for a moment:
# the other threads run on until the one that takes the signal has its turn.
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
        get "/api/v1$2"
    else
        curl -sS --fail-with-body -H "Authorization: Bearer $(<"$KEY_FILE")" -X "$1" "${@:3}" "$SERVICE_URL/api/v1$2"
    fi
}

# What the service answers. Most requests are of this kind, and starting curl for each takes four times as long.
get() # PATH
{
    local connection status line key
    read -r key <"$KEY_FILE"
    exec {connection}<>"/dev/tcp/127.0.0.1/${SERVICE_URL##*:}" || return
    printf 'GET %s HTTP/1.0\r\nAuthorization: Bearer %s\r\n\r\n' "$1" "$key" >&"$connection"
    read -r _ status _ <&"$connection"
    while read -r line <&"$connection" && [ "$line" != $'\r' ]; do :; done
    cat <&"$connection"
    exec {connection}>&-
    [[ $status = 2?? ]] || fail "GET $1: $status"
}

# Makes an inbox at the service itself; prints its id.
create_inbox() # ADDRESS
{
    jq -n --arg address "$1" '{id: null, name: ($address | split("@")[0]), email_address: $address}' |
        api POST /inbox/upsert -H 'Content-Type: application/json' -d @- | jq -r .id
}

# The same for several by one program, without their ids. The addresses need no quoting in JSON.
create_inboxes() # ADDRESS...
{
    local address requests=()
    for address; do
        requests+=(${requests:+--next} -sS --fail -o /dev/null -H "Authorization: Bearer $(<"$KEY_FILE")"
            -H 'Content-Type: application/json' "$SERVICE_URL/api/v1/inbox/upsert"
            -d "{\"id\": null, \"name\": \"${address%%@*}\", \"email_address\": \"$address\"}")
    done
    curl --fail-early "${requests[@]}"
}

inbox_id() # ADDRESS
{
    api GET /inbox | jq -er --arg address "$1" '.[] | select(.email_address == $address).id'
}

# Sends at the service itself, as somebody else would.
send_from_elsewhere() # FROM TO SUBJECT [BODY]
{
    jq -n --arg from "$1" --arg to "$2" --arg subject "$3" --arg body "${4:-body}" \
        '{from_address: $from, subject: $subject, plain_text: $body, to_addresses: [{address: $to, name: null}]}' |
        api POST /email/send -H 'Content-Type: application/json' -d @- >/dev/null
}

# The same for many, in one go: the subjects are SUBJECT 1 to SUBJECT COUNT, in this order.
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

# What the inbox really holds at the service: its records of this subject, as a JSON array, or what FILTER makes of it.
received() # ADDRESS SUBJECT [FILTER]
{
    api GET "/email?limit=10000&valid_only=false&inbox_ids=$(inbox_id "$1")" |
        jq -er --arg subject "$2" "[.[] | select(.subject == \$subject)] | ${3:-.}"
}

received_count() # ADDRESS SUBJECT
{
    received "$1" "$2" length
}

has_received() # ADDRESS SUBJECT [COUNT]
{
    [ "$(received_count "$1" "$2")" = "${3:-1}" ]
}

# The content record of the one email of this subject that the inbox holds at the service.
content() # ADDRESS SUBJECT
{
    local id
    id=$(received "$1" "$2" 'if length == 1 then .[0].id else error("\(length) arrived") end') || return
    api GET "/email/$id"
}

# ---------------------------------------------------------------- the mount

# Starts inboxfs in the foreground and waits until the mount answers. It polls only when asked, unless told so.
start_mount() # [OPTION...]
{
    start_mount_without_waiting "$@"
    wait_until 30 mount_answers_or_ended
    mount_answers || fail "inboxfs ended:" "$(cat "$MOUNT_LOG")"
}

# The same, on clocks that run ahead when they are told to (tests/torture/clock_preload.c).
start_mount_on_clock() # [OPTION...]
{
    : >"$DIR/ahead"
    # The allocator's checks at load do not concern a library that allocates nothing.
    LD_PRELOAD=$BUILD/tests/clock_preload.so CLOCK_AHEAD=$DIR/ahead \
        ASAN_OPTIONS=${ASAN_OPTIONS:-}:verify_asan_link_order=0 start_mount "$@"
}

pass_time() # SECONDS
{
    truncate -s "+$1" "$DIR/ahead"
}

start_mount_without_waiting() # [OPTION...]
{
    mkdir -p "$MOUNT"
    "$INBOXFS" -f --api-key-file="$KEY_FILE" --state-dir="$STATE" --poll-interval=0 "$@" \
        "$SERVICE_URL" "$MOUNT" >>"$MOUNT_LOG" 2>&1 3>&- {PAUSE}>&- &
    MOUNT_PID=$!
}

# Without a mount the folder is empty.
mount_answers()
{
    [ -e "$MOUNT/status.json" ]
}

mount_answers_or_ended()
{
    mount_answers || process_is_gone "$MOUNT_PID"
}

# What is handed in from now on waits, and is not tried. Where the service is away instead, it is tried now and then, and
# answers EBUSY meanwhile.
hold_back()
{
    stop_mount
    start_mount --daily-limit=0
}

let_go()
{
    stop_mount
    start_mount
}

# Sets AMONG_OWN_MOUNTS, which stands before a command and gives it a mount namespace without the mounts of other tests:
# it cannot keep those busy, and they would last as long as their copies in it. Empty for anybody but root.
hide_other_mounts()
{
    AMONG_OWN_MOUNTS=()
    [ "$(id -u)" = 0 ] || return 0
    # shellcheck disable=SC2016 # for the inner shell
    AMONG_OWN_MOUNTS=(unshare --mount --propagation private bash -c '
        mounts=$(</proc/self/mountinfo) # whole, before it changes
        while read -r _ _ _ _ mount rest; do
            mount=$(printf "${mount//%/%%}") # a space is \040, and a digit may follow, which %b would take for its own
            [[ $rest != *" - fuse.inboxfs "* || $mount = "$1"/* ]] || umount --lazy "$mount"
        done <<<"$mounts"
        shift
        exec "$@"' - "$DIR")
}

# Unmounts and checks that the daemon ends well.
stop_mount()
{
    local pid=$MOUNT_PID
    MOUNT_PID=
    [ -n "$pid" ] || return 0
    # Watchers are told of new mail one by one, and each is a file open for a moment: of thousands at once that
    # takes as long as the machine is busy. That nothing is open right after ctl is a test of its own.
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

# What cannot be ended well is ended somehow, so that the next test starts clean.
give_up_mount() # PID
{
    kill -KILL "$1" 2>/dev/null
    wait "$1" 2>/dev/null
    umount -l "$MOUNT" 2>/dev/null || fusermount3 -uz "$MOUNT" 2>/dev/null
}

# Ends the daemon by a signal, waits for its end, and clears the dead mount away.
kill_mount() # SIGNAL
{
    local pid=$MOUNT_PID
    MOUNT_PID=
    kill "-$1" "$pid"
    wait_until 30 process_is_gone "$pid"
    wait "$pid" || true
    # After SIGKILL the kernel keeps a mount that nobody answers.
    if [ "$1" = KILL ]; then
        umount -l "$MOUNT" || fusermount3 -uz "$MOUNT"
    fi
}

# Tells the mount to ask the service for everything now.
refresh() # [ADDRESS]
{
    echo "sync${1:+ $1}" >"$MOUNT/ctl"
}

# What is gone at the service goes here with a second list that lacks it, a minute after the first.
refresh_removal()
{
    refresh
    pass_time 61
    refresh
}

# A service, a mount, and two inboxes.
start_two_inboxes() # [OPTION of inboxfs...]
{
    start_service
    create_inboxes "$ALICE" "$BOB"
    start_mount "$@"
}

# Every test's teardown.
stop_all()
{
    local status=0
    # Files of the mount that a failed test left open would keep it.
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

# The path of the one received email of this subject in the mounted inbox.
mounted() # ADDRESS SUBJECT
{
    jq -r --arg subject "$2" 'select(.subject == $subject) | input_filename' "$MOUNT/inboxes/$1"/*_*.json | grep .
}

# The folder with what that email holds.
folder() # ADDRESS SUBJECT
{
    local file
    file=$(mounted "$1" "$2") && echo "${file%.json}"
}

has_folders() # ADDRESS
{
    compgen -G "$MOUNT/inboxes/$1/*_*/" >/dev/null
}

# What the service can do is found out right after the first sync. From then on there are no requests but those that
# are asked for.
wait_for_probes()
{
    wait_until 20 jq -e '.capabilities | [.content, .raw, .outbound] | index("unknown") == null' "$MOUNT/status.json"
}

# Folders appear when the service was found to have content: at once after a sync of everything, else some time after
# the first mail came.
wait_for_folders() # ADDRESS...
{
    local address
    for address; do
        wait_until 20 has_folders "$address"
    done
}

# What the spool's database says, a row a line. The daemon has it alone, so a copy is asked.
spool_rows() # SQL
{
    python3 - "$STATE/spool" "$1" <<'PYTHON'
import os, shutil, sqlite3, sys, tempfile
spool, sql = sys.argv[1:]
with tempfile.TemporaryDirectory() as copy:
    for name in "outbox.sqlite3", "outbox.sqlite3-wal":
        if os.path.exists(f"{spool}/{name}"):
            shutil.copy(f"{spool}/{name}", copy)
    for row in sqlite3.connect(f"{copy}/outbox.sqlite3").execute(sql):
        print(*row, sep="|")
PYTHON
}

# Holds where an item is so: spool_has "state = 'sending'".
spool_has() # SQL-CONDITION
{
    [ -n "$(spool_rows "SELECT number FROM item WHERE $1")" ]
}

# ---------------------------------------------------------------- messages

# A message from alice, as a user would type it.
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

# The message NAME went out once, and says BODY.
went_out() # NAME SUBJECT [BODY]
{
    wait_sent "$1"
    unlisted "$MOUNT/outbox/$1"
    missing "$MOUNT/failed/$1"
    content "$BOB" "$2" >"$DIR/arrived"
    holds "$DIR/arrived" '.plain_text | rtrimstr("\n") == $body' --arg body "${3:-Hello.}"
}

# The events so far for which jq's FILTER holds, a line each.
events() # FILTER [JQ-ARGUMENT...]
{
    jq -c "${@:2}" "select($1)" "$MOUNT/events.jsonl"
}

# Until everything in the outbox has been tried and waits: what was just handed in may be on its way.
wait_waiting()
{
    expect EAGAIN fsync "$MOUNT/outbox"
}

has_event() # FILTER [JQ-ARGUMENT...]
{
    events "$@" | grep -q .
}
