build2/obj/mail/reason.o: src/mail/reason.c src/mail/reason.h \
 src/base/character.h src/base/strbuf.h
src/mail/reason.h:
src/base/character.h:
src/base/strbuf.h:
