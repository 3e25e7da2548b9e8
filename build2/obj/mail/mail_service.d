build2/obj/mail/mail_service.o: src/mail/mail_service.c \
 src/mail/mail_service.h src/base/wait.h src/base/clock.h \
 src/mail/email_content.h src/mail/address.h src/mail/email_record.h \
 src/mail/inbox_record.h
src/mail/mail_service.h:
src/base/wait.h:
src/base/clock.h:
src/mail/email_content.h:
src/mail/address.h:
src/mail/email_record.h:
src/mail/inbox_record.h:
