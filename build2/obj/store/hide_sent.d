build2/obj/store/hide_sent.o: src/store/hide_sent.c src/base/cleanup.h \
 src/base/strbuf.h src/mail/json_writer.h src/store/index_changes.h \
 src/mail/email_record.h src/mail/inbox_record.h src/store/index.h \
 src/base/clock.h src/base/map.h src/store/cache.h src/sql/database.h \
 src/base/wait.h src/sql/query.h src/store/number_table.h \
 src/store/store.h src/mail/event.h src/mail/mail_service.h \
 src/mail/email_content.h src/mail/address.h src/store/store_private.h \
 src/store/contact.h src/store/message_ids.h src/store/state_file.h \
 src/store/search.h
src/base/cleanup.h:
src/base/strbuf.h:
src/mail/json_writer.h:
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
src/store/store_private.h:
src/store/contact.h:
src/store/message_ids.h:
src/store/state_file.h:
src/store/search.h:
