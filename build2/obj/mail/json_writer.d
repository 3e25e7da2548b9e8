build2/obj/mail/json_writer.o: src/mail/json_writer.c \
 src/mail/json_writer.h src/base/cleanup.h src/base/strbuf.h \
 src/base/character.h src/mail/date.h
src/mail/json_writer.h:
src/base/cleanup.h:
src/base/strbuf.h:
src/base/character.h:
src/mail/date.h:
