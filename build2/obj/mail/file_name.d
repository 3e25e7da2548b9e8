build2/obj/mail/file_name.o: src/mail/file_name.c src/mail/file_name.h \
 src/base/character.h src/base/cleanup.h src/base/hash.h \
 src/base/strbuf.h src/mail/date.h
src/mail/file_name.h:
src/base/character.h:
src/base/cleanup.h:
src/base/hash.h:
src/base/strbuf.h:
src/mail/date.h:
