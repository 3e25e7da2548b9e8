build2/obj/mail/envelope.o: src/mail/envelope.c src/mail/envelope.h \
 src/base/strbuf.h src/base/cleanup.h src/mail/draft.h src/mail/address.h \
 src/mail/file_name.h src/mail/json_value.h src/mail/json_writer.h
src/mail/envelope.h:
src/base/strbuf.h:
src/base/cleanup.h:
src/mail/draft.h:
src/mail/address.h:
src/mail/file_name.h:
src/mail/json_value.h:
src/mail/json_writer.h:
