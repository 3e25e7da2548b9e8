build2/obj/mail/message_id.o: src/mail/message_id.c src/mail/message_id.h \
 src/base/character.h src/base/cleanup.h src/mail/header_text.h \
 src/mail/mime.h
src/mail/message_id.h:
src/base/character.h:
src/base/cleanup.h:
src/mail/header_text.h:
src/mail/mime.h:
