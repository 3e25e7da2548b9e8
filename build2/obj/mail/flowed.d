build2/obj/mail/flowed.o: src/mail/flowed.c src/mail/flowed.h \
 src/base/strbuf.h
src/mail/flowed.h:
src/base/strbuf.h:
