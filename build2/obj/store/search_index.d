build2/obj/store/search_index.o: src/store/search_index.c \
 src/store/search_index.h src/mail/content_folder.h \
 src/mail/email_content.h src/mail/address.h src/mail/search_query.h \
 src/store/cache.h src/sql/database.h src/base/cleanup.h src/base/wait.h \
 src/base/clock.h src/sql/query.h src/base/character.h src/base/file.h \
 src/base/strbuf.h
src/store/search_index.h:
src/mail/content_folder.h:
src/mail/email_content.h:
src/mail/address.h:
src/mail/search_query.h:
src/store/cache.h:
src/sql/database.h:
src/base/cleanup.h:
src/base/wait.h:
src/base/clock.h:
src/sql/query.h:
src/base/character.h:
src/base/file.h:
src/base/strbuf.h:
