build2/obj/tests/support/disk.o: tests/support/disk.c tests/support/disk.h
tests/support/disk.h:
