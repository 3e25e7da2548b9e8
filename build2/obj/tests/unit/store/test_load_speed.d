build2/obj/tests/unit/store/test_load_speed.o: \
 tests/unit/store/test_load_speed.c src/base/file.h src/store/index.h \
 src/base/clock.h src/base/map.h src/store/cache.h src/sql/database.h \
 src/base/cleanup.h src/base/wait.h src/sql/query.h \
 src/store/number_table.h src/store/store.h src/mail/event.h \
 src/base/strbuf.h src/mail/mail_service.h src/mail/email_content.h \
 src/mail/address.h src/mail/email_record.h src/mail/inbox_record.h \
 src/store/index_changes.h src/store/search_index.h \
 src/mail/content_folder.h src/mail/search_query.h \
 src/store/store_private.h src/store/contact.h src/store/message_ids.h \
 src/store/state_file.h src/store/outbound.h src/store/search.h \
 tests/unit/store/store_world.h tests/support/fake_clock.h \
 tests/support/fake_service.h tests/support/temp_dir.h
src/base/file.h:
src/store/index.h:
src/base/clock.h:
src/base/map.h:
src/store/cache.h:
src/sql/database.h:
src/base/cleanup.h:
src/base/wait.h:
src/sql/query.h:
src/store/number_table.h:
src/store/store.h:
src/mail/event.h:
src/base/strbuf.h:
src/mail/mail_service.h:
src/mail/email_content.h:
src/mail/address.h:
src/mail/email_record.h:
src/mail/inbox_record.h:
src/store/index_changes.h:
src/store/search_index.h:
src/mail/content_folder.h:
src/mail/search_query.h:
src/store/store_private.h:
src/store/contact.h:
src/store/message_ids.h:
src/store/state_file.h:
src/store/outbound.h:
src/store/search.h:
tests/unit/store/store_world.h:
tests/support/fake_clock.h:
tests/support/fake_service.h:
tests/support/temp_dir.h:
