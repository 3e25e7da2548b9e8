build2/obj/mail/event.o: src/mail/event.c src/mail/event.h \
 src/base/strbuf.h src/mail/date.h src/mail/json_writer.h \
 src/base/cleanup.h
src/mail/event.h:
src/base/strbuf.h:
src/mail/date.h:
src/mail/json_writer.h:
src/base/cleanup.h:
