build2/obj/mail/inbox_record.o: src/mail/inbox_record.c \
 src/mail/inbox_record.h src/base/cleanup.h src/base/strbuf.h \
 src/mail/address.h src/mail/json_value.h src/mail/json_writer.h \
 src/mail/reason.h
src/mail/inbox_record.h:
src/base/cleanup.h:
src/base/strbuf.h:
src/mail/address.h:
src/mail/json_value.h:
src/mail/json_writer.h:
src/mail/reason.h:
