build2/obj/mail/address.o: src/mail/address.c src/mail/address.h \
 src/base/character.h src/base/cleanup.h src/base/strbuf.h \
 src/mail/file_name.h src/mail/header_text.h src/mail/json_writer.h
src/mail/address.h:
src/base/character.h:
src/base/cleanup.h:
src/base/strbuf.h:
src/mail/file_name.h:
src/mail/header_text.h:
src/mail/json_writer.h:
