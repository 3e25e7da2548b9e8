build2/obj/mail/webhook.o: src/mail/webhook.c src/mail/webhook.h \
 src/base/cleanup.h src/base/hash.h src/mail/date.h src/mail/json_value.h \
 src/mail/json_writer.h src/base/strbuf.h
src/mail/webhook.h:
src/base/cleanup.h:
src/base/hash.h:
src/mail/date.h:
src/mail/json_value.h:
src/mail/json_writer.h:
src/base/strbuf.h:
