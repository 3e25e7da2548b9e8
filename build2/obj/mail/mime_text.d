build2/obj/mail/mime_text.o: src/mail/mime_text.c src/mail/mime_text.h \
 src/base/strbuf.h src/mail/charset.h src/mail/mime.h \
 src/mail/transfer_encoding.h src/base/character.h src/base/cleanup.h \
 src/mail/flowed.h src/mail/html_text.h
src/mail/mime_text.h:
src/base/strbuf.h:
src/mail/charset.h:
src/mail/mime.h:
src/mail/transfer_encoding.h:
src/base/character.h:
src/base/cleanup.h:
src/mail/flowed.h:
src/mail/html_text.h:
