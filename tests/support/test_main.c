/* SPDX-License-Identifier: MIT */
/*
 * The main() of unit tests that have none of their own.
 */
#include "support/test.h"

int main(void)
{
    return test_run();
}
