build2/obj/mail/email_content.o: src/mail/email_content.c \
 src/mail/email_content.h src/mail/address.h src/base/cleanup.h \
 src/base/strbuf.h src/mail/date.h src/mail/json_value.h \
 src/mail/json_writer.h
src/mail/email_content.h:
src/mail/address.h:
src/base/cleanup.h:
src/base/strbuf.h:
src/mail/date.h:
src/mail/json_value.h:
src/mail/json_writer.h:
