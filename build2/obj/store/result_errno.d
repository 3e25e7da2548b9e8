build2/obj/store/result_errno.o: src/store/result_errno.c \
 src/store/result_errno.h src/mail/mail_service.h src/base/wait.h \
 src/base/clock.h src/mail/email_content.h src/mail/address.h \
 src/mail/email_record.h src/mail/inbox_record.h
src/store/result_errno.h:
src/mail/mail_service.h:
src/base/wait.h:
src/base/clock.h:
src/mail/email_content.h:
src/mail/address.h:
src/mail/email_record.h:
src/mail/inbox_record.h:
