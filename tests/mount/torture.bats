#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# A short run of `make torture`: kills at random moments while mail is sent, and the mail is counted.

load support

@test "random kills while writers send lose, double and halve nothing, and leave nothing unexplained" {
  "$REPOSITORY/tests/torture/run" --kills 14 --services inboxd,local
}

@test "without idempotency keys a message is sent at most once, and the others are reported" {
  "$REPOSITORY/tests/torture/run" --kills 10 --services scripted
}
