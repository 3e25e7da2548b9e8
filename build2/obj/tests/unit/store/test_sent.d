build2/obj/tests/unit/store/test_sent.o: tests/unit/store/test_sent.c \
 tests/unit/store/store_world.h src/base/cleanup.h src/base/strbuf.h \
 src/store/index_changes.h src/mail/email_record.h \
 src/mail/inbox_record.h src/store/index.h src/base/clock.h \
 src/base/map.h src/store/cache.h src/sql/database.h src/base/wait.h \
 src/sql/query.h src/store/number_table.h src/store/store.h \
 src/mail/event.h src/mail/mail_service.h src/mail/email_content.h \
 src/mail/address.h tests/support/fake_clock.h \
 tests/support/fake_service.h tests/support/temp_dir.h
tests/unit/store/store_world.h:
src/base/cleanup.h:
src/base/strbuf.h:
src/store/index_changes.h:
src/mail/email_record.h:
src/mail/inbox_record.h:
src/store/index.h:
src/base/clock.h:
src/base/map.h:
src/store/cache.h:
src/sql/database.h:
src/base/wait.h:
src/sql/query.h:
src/store/number_table.h:
src/store/store.h:
src/mail/event.h:
src/mail/mail_service.h:
src/mail/email_content.h:
src/mail/address.h:
tests/support/fake_clock.h:
tests/support/fake_service.h:
tests/support/temp_dir.h:
