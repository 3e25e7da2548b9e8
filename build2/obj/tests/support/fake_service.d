build2/obj/tests/support/fake_service.o: tests/support/fake_service.c \
 tests/support/fake_service.h src/mail/mail_service.h src/base/wait.h \
 src/base/clock.h src/mail/email_content.h src/mail/address.h \
 src/mail/email_record.h src/mail/inbox_record.h src/base/cleanup.h \
 tests/support/fake_service_state.h
tests/support/fake_service.h:
src/mail/mail_service.h:
src/base/wait.h:
src/base/clock.h:
src/mail/email_content.h:
src/mail/address.h:
src/mail/email_record.h:
src/mail/inbox_record.h:
src/base/cleanup.h:
tests/support/fake_service_state.h:
