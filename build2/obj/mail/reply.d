build2/obj/mail/reply.o: src/mail/reply.c src/mail/reply.h \
 src/mail/email_content.h src/mail/address.h src/base/character.h \
 src/base/cleanup.h src/base/strbuf.h src/mail/file_name.h \
 src/mail/json_writer.h
src/mail/reply.h:
src/mail/email_content.h:
src/mail/address.h:
src/base/character.h:
src/base/cleanup.h:
src/base/strbuf.h:
src/mail/file_name.h:
src/mail/json_writer.h:
