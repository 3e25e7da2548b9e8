build2/obj/mail/search_query.o: src/mail/search_query.c \
 src/mail/search_query.h src/base/character.h src/base/cleanup.h \
 src/base/strbuf.h src/mail/date.h src/mail/json_value.h \
 src/mail/json_writer.h src/mail/reason.h src/mail/reply.h \
 src/mail/email_content.h src/mail/address.h
src/mail/search_query.h:
src/base/character.h:
src/base/cleanup.h:
src/base/strbuf.h:
src/mail/date.h:
src/mail/json_value.h:
src/mail/json_writer.h:
src/mail/reason.h:
src/mail/reply.h:
src/mail/email_content.h:
src/mail/address.h:
