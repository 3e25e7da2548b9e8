build2/obj/mail/email_record.o: src/mail/email_record.c \
 src/mail/email_record.h src/base/cleanup.h src/base/hash.h \
 src/base/strbuf.h src/mail/date.h src/mail/file_name.h \
 src/mail/json_value.h src/mail/json_writer.h
src/mail/email_record.h:
src/base/cleanup.h:
src/base/hash.h:
src/base/strbuf.h:
src/mail/date.h:
src/mail/file_name.h:
src/mail/json_value.h:
src/mail/json_writer.h:
