build2/obj/store/store.o: src/store/store.c src/store/store.h \
 src/base/clock.h src/base/wait.h src/mail/event.h src/base/strbuf.h \
 src/mail/mail_service.h src/mail/email_content.h src/mail/address.h \
 src/mail/email_record.h src/mail/inbox_record.h src/base/cleanup.h \
 src/base/file.h src/mail/reason.h src/store/index.h src/base/map.h \
 src/store/cache.h src/sql/database.h src/sql/query.h \
 src/store/number_table.h src/store/store_content.h \
 src/mail/content_folder.h src/store/store_private.h src/store/contact.h \
 src/store/message_ids.h src/store/state_file.h src/store/search.h \
 src/store/sync.h
src/store/store.h:
src/base/clock.h:
src/base/wait.h:
src/mail/event.h:
src/base/strbuf.h:
src/mail/mail_service.h:
src/mail/email_content.h:
src/mail/address.h:
src/mail/email_record.h:
src/mail/inbox_record.h:
src/base/cleanup.h:
src/base/file.h:
src/mail/reason.h:
src/store/index.h:
src/base/map.h:
src/store/cache.h:
src/sql/database.h:
src/sql/query.h:
src/store/number_table.h:
src/store/store_content.h:
src/mail/content_folder.h:
src/store/store_private.h:
src/store/contact.h:
src/store/message_ids.h:
src/store/state_file.h:
src/store/search.h:
src/store/sync.h:
