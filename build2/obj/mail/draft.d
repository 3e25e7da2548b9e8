build2/obj/mail/draft.o: src/mail/draft.c src/mail/draft.h \
 src/mail/address.h src/base/character.h src/base/cleanup.h \
 src/base/hash.h src/base/strbuf.h src/mail/file_name.h \
 src/mail/header_text.h src/mail/json_writer.h src/mail/message_id.h \
 src/mail/mime.h src/mail/mime_text.h src/mail/charset.h \
 src/mail/transfer_encoding.h src/mail/reason.h
src/mail/draft.h:
src/mail/address.h:
src/base/character.h:
src/base/cleanup.h:
src/base/hash.h:
src/base/strbuf.h:
src/mail/file_name.h:
src/mail/header_text.h:
src/mail/json_writer.h:
src/mail/message_id.h:
src/mail/mime.h:
src/mail/mime_text.h:
src/mail/charset.h:
src/mail/transfer_encoding.h:
src/mail/reason.h:
