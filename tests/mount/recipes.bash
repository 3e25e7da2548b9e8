# shellcheck shell=bash
# SPDX-License-Identifier: MIT
#
# Recipes of docs/COOKBOOK.md, run as they stand there, with $DIR as the home.

COOKBOOK=$REPOSITORY/docs/COOKBOOK.md

# The block below the heading.
recipe() # HEADING
{
    awk -v heading="## $1" '$0 == heading { found = 1 } found && /^```$/ { exit } block { print }
        found && /^```sh$/ { block = 1 }' "$COOKBOOK"
}

run_recipe() # TEXT
{
    cd "$DIR" && HOME=$DIR PATH=$DIR/bin:$BUILD:$PATH exec timeout -k 1 30 bash -eu -o pipefail -c "$1"
}

# For whoever is not Alice, the recipe is changed as its readers would.
cook() # HEADING [ADDRESS]
{
    local text
    text=$(recipe "$1")
    [ -n "$text" ] || fail "no such recipe: $1" || return
    (run_recipe "${text//$ALICE/${2:-$ALICE}}")
}
