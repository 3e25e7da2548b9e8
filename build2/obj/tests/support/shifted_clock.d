build2/obj/tests/support/shifted_clock.o: tests/support/shifted_clock.c \
 tests/support/shifted_clock.h
tests/support/shifted_clock.h:
