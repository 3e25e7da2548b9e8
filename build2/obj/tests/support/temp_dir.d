build2/obj/tests/support/temp_dir.o: tests/support/temp_dir.c \
 tests/support/temp_dir.h
tests/support/temp_dir.h:
