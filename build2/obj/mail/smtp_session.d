build2/obj/mail/smtp_session.o: src/mail/smtp_session.c \
 src/mail/smtp_session.h src/base/strbuf.h src/base/cleanup.h \
 src/mail/address.h src/mail/header_text.h
src/mail/smtp_session.h:
src/base/strbuf.h:
src/base/cleanup.h:
src/mail/address.h:
src/mail/header_text.h:
