build2/obj/mail/charset.o: src/mail/charset.c src/mail/charset.h \
 src/base/strbuf.h src/base/character.h src/base/cleanup.h
src/mail/charset.h:
src/base/strbuf.h:
src/base/character.h:
src/base/cleanup.h:
