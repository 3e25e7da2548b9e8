build2/obj/tests/support/fake_clock.o: tests/support/fake_clock.c \
 tests/support/fake_clock.h src/base/clock.h
tests/support/fake_clock.h:
src/base/clock.h:
