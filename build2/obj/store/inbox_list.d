build2/obj/store/inbox_list.o: src/store/inbox_list.c \
 src/store/inbox_list.h src/base/wait.h src/base/clock.h \
 src/mail/mail_service.h src/mail/email_content.h src/mail/address.h \
 src/mail/email_record.h src/mail/inbox_record.h
src/store/inbox_list.h:
src/base/wait.h:
src/base/clock.h:
src/mail/mail_service.h:
src/mail/email_content.h:
src/mail/address.h:
src/mail/email_record.h:
src/mail/inbox_record.h:
