build2/obj/mail/header_date.o: src/mail/header_date.c \
 src/mail/header_date.h src/base/cleanup.h src/base/strbuf.h \
 src/mail/date.h src/mail/header_text.h src/mail/mime_library.h
src/mail/header_date.h:
src/base/cleanup.h:
src/base/strbuf.h:
src/mail/date.h:
src/mail/header_text.h:
src/mail/mime_library.h:
