build2/obj/mail/mime.o: src/mail/mime.c src/mail/mime.h src/base/cleanup.h \
 src/mail/header_text.h
src/mail/mime.h:
src/base/cleanup.h:
src/mail/header_text.h:
