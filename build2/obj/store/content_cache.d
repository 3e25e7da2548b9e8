build2/obj/store/content_cache.o: src/store/content_cache.c \
 src/store/content_cache.h src/mail/content_folder.h \
 src/mail/email_content.h src/mail/address.h src/base/cleanup.h \
 src/base/file.h src/base/hash.h src/base/random.h src/base/strbuf.h
src/store/content_cache.h:
src/mail/content_folder.h:
src/mail/email_content.h:
src/mail/address.h:
src/base/cleanup.h:
src/base/file.h:
src/base/hash.h:
src/base/random.h:
src/base/strbuf.h:
