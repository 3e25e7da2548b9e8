build2/obj/tests/support/http_client.o: tests/support/http_client.c \
 tests/support/http_client.h src/base/file.h src/base/strbuf.h
tests/support/http_client.h:
src/base/file.h:
src/base/strbuf.h:
