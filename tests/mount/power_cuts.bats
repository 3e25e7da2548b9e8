#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# A short run of `tests/torture/power_cuts.py`: the power is cut at every step of some
# sessions, and the mail is counted.

load support

@test "a power cut at any step loses, doubles and halves nothing, and leaves nothing unexplained" {
  "$REPOSITORY/tests/torture/power_cuts.py" --sessions 4 --every 9 --seed 1
}
