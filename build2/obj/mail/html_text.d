build2/obj/mail/html_text.o: src/mail/html_text.c src/mail/html_text.h \
 src/base/strbuf.h src/base/character.h src/base/cleanup.h
src/mail/html_text.h:
src/base/strbuf.h:
src/base/character.h:
src/base/cleanup.h:
