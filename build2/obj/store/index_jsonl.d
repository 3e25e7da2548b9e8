build2/obj/store/index_jsonl.o: src/store/index_jsonl.c \
 src/store/store_private.h src/store/cache.h src/sql/database.h \
 src/base/cleanup.h src/base/wait.h src/base/clock.h src/sql/query.h \
 src/store/contact.h src/mail/mail_service.h src/mail/email_content.h \
 src/mail/address.h src/mail/email_record.h src/mail/inbox_record.h \
 src/store/index.h src/base/map.h src/store/number_table.h \
 src/store/store.h src/mail/event.h src/base/strbuf.h \
 src/store/message_ids.h src/store/state_file.h src/store/search.h
src/store/store_private.h:
src/store/cache.h:
src/sql/database.h:
src/base/cleanup.h:
src/base/wait.h:
src/base/clock.h:
src/sql/query.h:
src/store/contact.h:
src/mail/mail_service.h:
src/mail/email_content.h:
src/mail/address.h:
src/mail/email_record.h:
src/mail/inbox_record.h:
src/store/index.h:
src/base/map.h:
src/store/number_table.h:
src/store/store.h:
src/mail/event.h:
src/base/strbuf.h:
src/store/message_ids.h:
src/store/state_file.h:
src/store/search.h:
