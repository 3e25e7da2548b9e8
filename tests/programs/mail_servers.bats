#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# Real mail servers and fetchers hand mail over to inboxd, and one takes what inboxd sends elsewhere. Nothing is installed
# for it: the programs are unpacked below $BUILD/programs, and laid over /usr in a mount namespace of each one's own, with
# configuration and users over /etc. All of them listen on 127.0.0.1 and keep their files in the test's folder.

load ../mount/support

KEEPER=65501 # the user who owns the mail

setup() {
  [ "$(id -u)" -eq 0 ] || skip "only root can mount, and start programs as other users"
  SERVER_PID=
  mkdir "$DIR/etc"
  # These come first: the machine may have users that a mail server left behind.
  { printf '%s\n' "keeper:x:$KEEPER:$KEEPER::/:/bin/sh" postfix:x:65502:65502::/:/bin/false \
    Debian-exim:x:65503:65503::/:/bin/false && cat /etc/passwd; } >"$DIR/etc/passwd"
  { printf '%s\n' "keeper:x:$KEEPER:" postfix:x:65502: postdrop:x:65504: Debian-exim:x:65503: && cat /etc/group; } \
    >"$DIR/etc/group"
  # Other users have to get here, and to the program.
  chmod a+x "$DIR" "${DIR%/*}" "$BATS_RUN_TMPDIR" ${INBOXFS_TEST_RUN:+"$INBOXFS_TEST_RUN"}
  REAL_INBOXD=$DIR/bin/inboxd
  install -D "$INBOXD" "$REAL_INBOXD"
  INBOXD=$DIR/inboxd
  printf '#!/bin/sh\nexec setpriv --reuid=%s --regid=%s --clear-groups %s "$@"\n' "$KEEPER" "$KEEPER" "$REAL_INBOXD" \
    >"$INBOXD"
  chmod a+x "$INBOXD"
  install -d -o "$KEEPER" -m 700 "$SERVICE"
  # Before the name of a program that is unpacked: runs it as if it were installed.
  # shellcheck disable=SC2016 # bash -c expands them
  UNPACKED=(unshare --mount --propagation private bash -c
    'umount --all --lazy --types fuse.inboxfs && # those of tests beside this one would last as long as their copies
      mount -t overlay overlay -o "lowerdir=$0/usr:/usr" /usr && mount -t overlay overlay -o "lowerdir=$1:/etc" /etc &&
      exec "${@:2}"' "$(realpath "$BUILD/programs")" "$DIR/etc")
  IFS=' ' read -r LMTP_PORT SERVER_PORT < <(free_ports 2)
}

teardown() {
  [ -n "${BATS_TEST_COMPLETED:-}" ] || tail -n 20 "$DIR/server.out" "$DIR/maillog" "$DIR"/exim/*log || true
  stop_server
  stop_all
}

free_ports() { # COUNT
  python3 -c 'import socket, sys
sockets = [socket.create_server(("127.0.0.1", 0)) for i in range(int(sys.argv[1]))]
print(*[s.getsockname()[1] for s in sockets])' "$1"
}

start_server() { # COMMAND...
  "${UNPACKED[@]}" "$@" >"$DIR/server.out" 2>&1 3>&- {PAUSE}>&- &
  SERVER_PID=$!
  wait_until 20 is_greeted || fail "the server does not answer:" "$(cat "$DIR/server.out" "$DIR/maillog" 2>&1)"
}

is_greeted() {
  local line
  exec 7<>"/dev/tcp/127.0.0.1/$SERVER_PORT" || return
  read -rt 10 line <&7
  exec 7>&-
  [[ $line = 220* ]]
}

stop_server() {
  local pid=$SERVER_PID
  SERVER_PID=
  [ -n "$pid" ] || return 0
  # Postfix is started by a script, which ends with it.
  kill "$(cat "$DIR/postfix/spool/pid/master.pid" 2>/dev/null || echo "$pid")" || true
  wait "$pid" || true
}

send() { # FROM TO SUBJECT
  swaks --silent 1 --server "127.0.0.1:$SERVER_PORT" --from "$1" --to "$2" --h-Subject "$3" --body $'.\nHello.'
}

start_postfix() { # TRANSPORT [SETTING...]
  mkdir -p "$DIR/postfix/spool"
  install -d -o 65502 "$DIR/postfix/data"
  cat >"$DIR/postfix/main.cf" <<END
compatibility_level = 3.6
queue_directory = $DIR/postfix/spool
data_directory = $DIR/postfix/data
meta_directory = $(realpath "$BUILD/programs")/etc/postfix
shlib_directory = /usr/lib/postfix
daemon_directory = /usr/lib/postfix/sbin
command_directory = /usr/sbin
maillog_file = $DIR/maillog
maillog_file_prefixes = $DIR
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
myhostname = postfix.example
mydestination =
alias_maps =
smtputf8_enable = no
virtual_mailbox_domains = $DOMAIN
virtual_transport = $1
queue_run_delay = 1s
$(printf '%s\n' "${@:2}")
minimal_backoff_time = 1s
maximal_backoff_time = 1s
END
  cat >"$DIR/postfix/master.cf" <<END
127.0.0.1:$SERVER_PORT inet n - n - - smtpd
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
tlsmgr unix - - n 1000? 1 tlsmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
verify unix - - n - 1 verify
proxymap unix - - n - - proxymap
flush unix n - n 1000? 0 flush
smtp unix - - n - - smtp
error unix - - n - - error
retry unix - - n - - error
discard unix - - n - - discard
lmtp unix - - n - - lmtp
anvil unix - - n - 1 anvil
scache unix - - n - 1 scache
postlog unix-dgram n - n - 1 postlogd
inboxd unix - n n - - pipe user=keeper argv=$REAL_INBOXD deliver --data=$SERVICE -f \${sender} -- \${recipient}
END
  start_server postfix -c "$DIR/postfix" start-fg
}

# Exim starts no program with words of strangers: the recipient is one of a list.
start_exim() { # TRANSPORT
  install -d -o 65503 -g 65503 "$DIR/exim"
  mkdir "$DIR/etc/exim4"
  cat >"$DIR/etc/exim4/exim4.conf" <<END
primary_hostname = exim.example
spool_directory = $DIR/exim/spool
log_file_path = $DIR/exim/%slog
daemon_smtp_ports = $SERVER_PORT
local_interfaces = 127.0.0.1
acl_smtp_rcpt = accept
acl_smtp_data = accept
never_users =
tls_advertise_hosts =
keep_environment =
begin routers
all:
  driver = manualroute
  domains = $DOMAIN
  local_parts = alice : bob : nobody
  route_list = * 127.0.0.1 byname
  self = send
  transport = $1
begin transports
over_lmtp:
  driver = smtp
  protocol = lmtp
  port = $LMTP_PORT
by_pipe:
  driver = pipe
  command = $REAL_INBOXD deliver --data=$SERVICE -- \$local_part_data@\$domain_data
  user = keeper
  return_output
  temp_errors = 75
begin retry
* * F,1h,1s
END
  start_server exim4 -bdf -q1s
}

# What holds for each server and each way.
delivers_and_bounces() {
  create_inboxes "$ALICE" "$BOB"
  send "$BOB" "$ALICE" letter
  wait_until 30 has_received "$ALICE" letter
  contains "$(content "$ALICE" letter | jq -r .plain_text)" $'.\r\nHello.' ||
    contains "$(content "$ALICE" letter | jq -r .plain_text)" $'.\nHello.'
  send "$BOB" "nobody@$DOMAIN" lost
  wait_until 30 has_bounce "$BOB"
}

has_bounce() { # ADDRESS
  api GET "/email?limit=10000&inbox_ids=$(inbox_id "$1")" |
    jq -e 'any(.[]; .from_address.address | ascii_downcase | startswith("mailer-daemon@"))'
}

# What is sent while the service is away is there when it is back.
waits_for_the_service() { # OPTION of inboxd...
  stop_service
  send "$BOB" "$ALICE" patience
  start_service "$@"
  wait_until 30 has_received "$ALICE" patience
}

@test "Postfix delivers by LMTP" {
  start_service --lmtp="127.0.0.1:$LMTP_PORT"
  start_postfix "lmtp:inet:127.0.0.1:$LMTP_PORT"
  delivers_and_bounces
  waits_for_the_service --lmtp="127.0.0.1:$LMTP_PORT"
}

@test "Postfix delivers by a pipe" {
  start_service
  start_postfix inboxd:
  delivers_and_bounces
}

@test "Exim delivers by LMTP" {
  start_service --lmtp="127.0.0.1:$LMTP_PORT"
  start_exim over_lmtp
  delivers_and_bounces
  waits_for_the_service --lmtp="127.0.0.1:$LMTP_PORT"
}

@test "Exim delivers by a pipe" {
  start_service
  start_exim by_pipe
  delivers_and_bounces
}

@test "procmail files mail into an inbox" {
  start_service
  create_inboxes "$ALICE"
  printf 'SHELL=/bin/sh\n:0 w\n| %s deliver --data=%s %s\n' "$INBOXD" "$SERVICE" "$ALICE" >"$DIR/procmailrc"
  printf 'From carol@x.example Fri Nov 20 10:14:36 2026\nFrom: carol@x.example\nSubject: sorted\n\nHello.\n' |
    "${UNPACKED[@]}" procmail -f carol@x.example "$DIR/procmailrc"
  equal "$(content "$ALICE" sorted | jq -r '.plain_text | rtrimstr("\n")')" Hello.
}

# A mailbox with one message, for as many sessions as come.
serve_pop3() {
  python3 - "$SERVER_PORT" "$DIR/deleted" >"$DIR/server.out" 2>&1 3>&- {PAUSE}>&- <<'END' &
import socketserver, sys
message = b"From: carol@x.example\r\nSubject: fetched\r\n\r\nHello.\r\n"
answers = {"STAT": b"1 %d" % len(message), "LIST": b"1 %d" % len(message), "RETR": b"\r\n" + message + b".",
           "USER": b"", "PASS": b"", "DELE": b"", "QUIT": b"", "NOOP": b""}
class Session(socketserver.StreamRequestHandler):
    def handle(self):
        self.wfile.write(b"+OK\r\n")
        for line in self.rfile:
            word = line.decode().split()[0].upper()
            if word == "DELE":
                open(sys.argv[2], "w").close()
            self.wfile.write(b"+OK " + answers[word] + b"\r\n" if word in answers else b"-ERR\r\n")
            if word == "QUIT":
                return
class Server(socketserver.TCPServer):
    allow_reuse_address = True
Server(("127.0.0.1", int(sys.argv[1])), Session).serve_forever()
END
  SERVER_PID=$!
  wait_until 20 bash -c "</dev/tcp/127.0.0.1/$SERVER_PORT"
}

fetch_mail() { # RECIPIENT
  printf 'poll 127.0.0.1 protocol pop3 port %s username u password p sslproto "" fetchall\n' "$SERVER_PORT" \
    >"$DIR/fetchmailrc"
  chmod 600 "$DIR/fetchmailrc"
  "${UNPACKED[@]}" env FETCHMAILHOME="$DIR" fetchmail -f "$DIR/fetchmailrc" --mda "$INBOXD deliver --data=$SERVICE -f %F $1"
}

@test "fetchmail fetches mail into an inbox, and leaves it where it is when that fails" {
  start_service
  create_inboxes "$ALICE"
  serve_pop3
  run fetch_mail "nobody@$DOMAIN"
  contains "$output" "no inbox has the address"
  missing "$DIR/deleted"
  fetch_mail "$ALICE"
  equal "$(received_count "$ALICE" fetched)" 1
  present "$DIR/deleted"
}

has_status() { # SUBJECT STATUS
  api GET /email/outbound |
    jq -e --arg subject "$1" --arg status "$2" '[.[] | select(.subject == $subject)][0].status == $status'
}

@test "Postfix takes mail for elsewhere from inboxd; what it refuses comes back, and while it is away mail waits" {
  start_service --lmtp="127.0.0.1:$LMTP_PORT" --relay="smtp://127.0.0.1:$SERVER_PORT"
  create_inboxes "$ALICE" "$BOB"
  local postfix=("lmtp:inet:127.0.0.1:$LMTP_PORT" "virtual_alias_domains = x.example"
    "virtual_alias_maps = inline:{carol@x.example=$BOB}")
  start_postfix "${postfix[@]}"
  # What goes out to Carol comes in for Bob.
  send_from_elsewhere "$ALICE" carol@x.example "to Carol" $'.\nHello.'
  wait_until 30 has_received "$BOB" "to Carol"
  wait_until 20 has_status "to Carol" sent
  contains "$(content "$BOB" "to Carol" | jq -r .plain_text)" $'.\nHello.'
  send_from_elsewhere "$ALICE" nobody@x.example "to nobody"
  wait_until 20 has_status "to nobody" failed
  contains "$(content "$ALICE" "Undelivered: to nobody" | jq -r .plain_text)" "User unknown in virtual alias table"
  stop_server
  send_from_elsewhere "$ALICE" carol@x.example waits
  has_status waits pending
  start_postfix "${postfix[@]}"
  wait_until 60 has_status waits sent
  wait_until 30 has_received "$BOB" waits
}
