build2/obj/mail/new_text.o: src/mail/new_text.c src/mail/new_text.h \
 src/base/strbuf.h src/base/character.h src/base/cleanup.h
src/mail/new_text.h:
src/base/strbuf.h:
src/base/character.h:
src/base/cleanup.h:
