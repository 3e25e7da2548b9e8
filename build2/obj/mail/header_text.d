build2/obj/mail/header_text.o: src/mail/header_text.c \
 src/mail/header_text.h src/base/character.h src/base/strbuf.h \
 src/mail/charset.h
src/mail/header_text.h:
src/base/character.h:
src/base/strbuf.h:
src/mail/charset.h:
