build2/obj/mail/content_folder.o: src/mail/content_folder.c \
 src/mail/content_folder.h src/mail/email_content.h src/mail/address.h \
 src/base/character.h src/base/cleanup.h src/base/strbuf.h \
 src/mail/file_name.h src/mail/html_text.h src/mail/json_writer.h \
 src/mail/new_text.h src/mail/reply.h
src/mail/content_folder.h:
src/mail/email_content.h:
src/mail/address.h:
src/base/character.h:
src/base/cleanup.h:
src/base/strbuf.h:
src/mail/file_name.h:
src/mail/html_text.h:
src/mail/json_writer.h:
src/mail/new_text.h:
src/mail/reply.h:
