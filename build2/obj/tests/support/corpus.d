build2/obj/tests/support/corpus.o: tests/support/corpus.c \
 tests/support/corpus.h src/base/file.h
tests/support/corpus.h:
src/base/file.h:
