build2/obj/store/index_changes.o: src/store/index_changes.c \
 src/store/index_changes.h src/base/strbuf.h src/mail/email_record.h \
 src/mail/inbox_record.h src/store/index.h src/base/clock.h \
 src/base/map.h src/store/cache.h src/sql/database.h src/base/cleanup.h \
 src/base/wait.h src/sql/query.h src/store/number_table.h \
 src/store/store.h src/mail/event.h src/mail/mail_service.h \
 src/mail/email_content.h src/mail/address.h src/base/lock.h \
 src/mail/file_name.h src/store/search_index.h src/mail/content_folder.h \
 src/mail/search_query.h
src/store/index_changes.h:
src/base/strbuf.h:
src/mail/email_record.h:
src/mail/inbox_record.h:
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
src/mail/mail_service.h:
src/mail/email_content.h:
src/mail/address.h:
src/base/lock.h:
src/mail/file_name.h:
src/store/search_index.h:
src/mail/content_folder.h:
src/mail/search_query.h:
